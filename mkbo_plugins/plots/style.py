"""What all plots look like."""

from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from mkbo_plugins.errors import MkboError
from mkbo_plugins.files import write_atomically

STYLES = (("black", "--", "o"), ("#0072B2", "-", "s"), ("#D55E00", "-.", "^"), ("#009E73", ":", "D"))
"""Colour, line and marker by curve: told apart in grey and by colour-blind people."""

STOCK, PRETRAINED = STYLES[0], STYLES[1]


def panel(ax: Any, width: float = 6.0, height: float = 3.8) -> Any:
    """Return the axes given, or those of a new figure of a size in inches."""
    return Figure(figsize=(width, height), layout="constrained").subplots() if ax is None else ax


def finish(ax: Any, xlabel: str, ylabel: str) -> Any:
    """Label axes, take away the frame where nothing is read off, and return them."""
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def save_figure(figure: Figure, path: Path, dpi: int = 150) -> None:
    """Write a figure to a file of the kind that its name says, atomically.

    Raises
    ------
    MkboError
        If the name says no kind of picture.
    """
    kind = path.suffix.lower().lstrip(".")
    known = figure.canvas.get_supported_filetypes()
    if kind not in known:
        raise MkboError(f"{path}: pictures are named by their kind, such as .png, .pdf or .svg; got {path.suffix!r}")
    buffer = BytesIO()
    figure.savefig(buffer, format=kind, dpi=dpi)
    write_atomically(path, buffer.getvalue())
