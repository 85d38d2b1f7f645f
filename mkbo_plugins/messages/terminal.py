"""The one console that all output to a terminal goes through: text of users is shown as it is."""

import io
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from rich.text import Text


class Terminal(Console):
    """A console for which nothing in a text is markup: names such as ``growth [/h]`` belong to users.

    Lines and blanks apart, characters that would control a terminal are shown as Python writes them, and so are those
    that its encoding has not, as Python itself does for standard error.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)
        if not stderr and isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")

    def render_str(self, text: str, **options: Any) -> "Text":
        """Return a text, and a cell of a table, without control characters."""
        return super().render_str(shown_text(text), **options)


def shown_text(text: str) -> str:
    """Return a text with control characters, but for ends of lines, as Python writes them."""
    return "".join(sign if sign.isprintable() or sign in "\n " else repr(sign)[1:-1] for sign in text)
