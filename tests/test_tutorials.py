"""Tutorials run from beginning to end, and their notebooks are those of the text beside them, as it runs."""

import importlib.util

import pytest

from tests.documents import ROOT, own_warnings

for needed in ("jupytext", "nbclient", "ipykernel", "botorch", "matplotlib"):
    pytest.importorskip(needed)

nbformat = pytest.importorskip("nbformat")
TUTORIALS = sorted((ROOT / "tutorials").glob("*.py"))
NEEDS = {"ax_campaign": "ax", "optuna_study": "optuna", "skopt_tuning": "skopt"}


@pytest.fixture(scope="module")
def tool():
    """Return the program that makes the notebooks."""
    spec = importlib.util.spec_from_file_location("run_tutorials", ROOT / "tools" / "run_tutorials.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _stored(path):
    return nbformat.read(path.with_suffix(".ipynb"), as_version=4)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_the_notebook_has_the_text_beside_it_and_outputs(path, tool):
    made, stored = tool.notebook(path), _stored(path)
    command = f"run: python tools/run_tutorials.py {path.stem}"
    assert [(c.cell_type, c.source) for c in stored.cells] == [(c.cell_type, c.source) for c in made.cells], command
    outputs = [output for cell in stored.cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs
    for output in outputs:
        assert output.output_type != "error"
        assert output.get("name") != "stderr", output
        assert str(ROOT.parent) not in str(output)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_it_runs_as_stored(path, tool, tmp_path):
    pytest.importorskip(NEEDS.get(path.stem, "botorch"))
    ran, stored = tool.execute(path, tmp_path), _stored(path)
    for now, before in zip(ran.cells, stored.cells, strict=True):
        if now.cell_type == "code":
            made = [output for output in now.outputs if not _is_of_hosts(output)]
            assert [_kind(output) for output in made] == [_kind(output) for output in before.outputs], now.source
    assert {path.name for path in (ROOT / "tutorials").iterdir()} <= {"images", *(p.name for p in TUTORIALS)} | {
        p.with_suffix(".ipynb").name for p in TUTORIALS
    }


def _kind(output):
    return output.output_type, output.get("name"), sorted(output.get("data", {}))


def _is_of_hosts(output):
    """Return whether an output is warnings of installed packages alone, which change with their versions."""
    return output.get("name") == "stderr" and "site-packages" in output.text and not own_warnings(output.text)
