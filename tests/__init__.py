from tests.shapes import checked  # noqa: F401
