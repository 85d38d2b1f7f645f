"""Execute tutorials and store them with outputs as notebooks: ``python tools/run_tutorials.py [NAME ...]``."""

import os
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

TUTORIALS = Path(__file__).resolve().parents[1] / "tutorials"
LONGEST = 600
"""Seconds that one cell may take."""


def notebook(path: Path) -> nbformat.NotebookNode:
    """Return the notebook of a tutorial's text, without outputs; the same text gives the same notebook."""
    made = jupytext.read(path)
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"
        cell["metadata"] = {}
    made.metadata.get("jupytext", {}).pop("text_representation", None)
    return made


def execute(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Return the notebook of a tutorial with the outputs of running it in a folder."""
    made = notebook(path)
    # Commands in cells are those installed beside this Python.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    NotebookClient(
        made, timeout=LONGEST, kernel_name="python3", resources={"metadata": {"path": str(folder)}}, record_timing=False
    ).execute()
    _join_streams(made)
    return made


def _join_streams(made: nbformat.NotebookNode) -> None:
    """Join what a cell printed piece by piece: how it was cut depends on timing."""
    for cell in made.cells:
        joined: list[nbformat.NotebookNode] = []
        for output in cell.get("outputs", []):
            if joined and output.output_type == joined[-1].output_type == "stream" and output.name == joined[-1].name:
                joined[-1]["text"] += output.text
            else:
                joined.append(output)
        if "outputs" in cell:
            cell["outputs"] = joined


def main(names: list[str]) -> None:
    """Execute the tutorials named, or all."""
    for path in sorted(TUTORIALS.glob("*.py")):
        if not names or path.stem in names:
            with tempfile.TemporaryDirectory() as folder:
                made = execute(path, Path(folder))
            made.metadata.pop("language_info", None)  # names the version of Python
            nbformat.write(made, path.with_suffix(".ipynb"))
            print(path.with_suffix(".ipynb"))


if __name__ == "__main__":
    main(sys.argv[1:])
