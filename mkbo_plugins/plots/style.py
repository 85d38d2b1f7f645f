"""What all plots look like."""

from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from mkbo_plugins.errors import MkboError
from mkbo_plugins.files import read_start, write_atomically
from mkbo_plugins.messages.pages import writable

STYLES = (("black", "--", "o"), ("#0072B2", "-", "s"), ("#D55E00", "-.", "^"), ("#009E73", ":", "D"))
"""Colour, line and marker by curve: told apart in grey and by colour-blind people."""

_BEGINNINGS = {
    "png": (b"\x89PNG",),
    "jpg": (b"\xff\xd8\xff",),
    "jpeg": (b"\xff\xd8\xff",),
    "tif": (b"II*\0", b"MM\0*"),
    "tiff": (b"II*\0", b"MM\0*"),
    "webp": (b"RIFF",),
    "pdf": (b"%PDF",),
    "ps": (b"%!PS",),
    "eps": (b"%!PS",),
    "svg": (b"<?xml", b"<svg"),
    "svgz": (b"\x1f\x8b",),
    "pgf": (b"%% Creator: Matplotlib",),
}
"""How files of each kind of picture begin."""

_LINE = 36
"""Characters in a line of a label."""

STOCK, PRETRAINED = STYLES[0], STYLES[1]


def panel(ax: Any, width: float = 6.0, height: float = 3.8) -> Any:
    """Return the axes given, or those of a new figure of a size in inches."""
    return Figure(figsize=(width, height), layout="constrained").subplots() if ax is None else ax


def literal(text: str) -> str:
    """Return a text that is drawn as it stands, in lines; between two dollar signs, Matplotlib reads formulas."""
    return fill(writable(text), _LINE).replace("$", r"\$")


def shorten(text: str, most: int) -> str:
    """Return a text of so many characters at most, with its end left out if need be."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def finish(ax: Any, xlabel: str, ylabel: str) -> Any:
    """Label axes, take away the frame where nothing is read off, and return them."""
    ax.set_xlabel(literal(xlabel))
    ax.set_ylabel(literal(ylabel))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def save_figure(figure: Figure, path: str | Path, dpi: int = 150) -> None:
    """Write a figure to a file of the kind that its name says, atomically.

    Raises
    ------
    MkboError
        If the name says no kind of picture, or there is a file that is none of that kind, which is not replaced.
    OSError
        If the file cannot be written.
    """
    path = Path(path)
    kind = path.suffix.lower().lstrip(".")
    known = figure.canvas.get_supported_filetypes()
    if kind not in known:
        raise MkboError(f"{path}: pictures are named by their kind, such as .png, .pdf or .svg; got {path.suffix!r}")
    beginning = read_start(path, 32) if path.exists() else b""
    if beginning and not beginning.startswith(_BEGINNINGS.get(kind, ())):
        raise MkboError(f"{path} exists and is no picture of the kind {kind!r}; name another file, or delete it")
    buffer = BytesIO()
    figure.savefig(buffer, format=kind, dpi=dpi)
    write_atomically(path, buffer.getvalue())


def svg_of(figure: Figure) -> bytes:
    """Return a figure as SVG without date or random names, so that equal figures give equal bytes."""
    buffer = BytesIO()
    with rc_context({"svg.hashsalt": "mkbo"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
