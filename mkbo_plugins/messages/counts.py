"""Numbers of things, in words."""


def counted(number: int, noun: str) -> str:
    """Return a number of things with their noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
