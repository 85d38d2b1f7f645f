"""What the pages of documentation say is run, and names what exists."""

import importlib.util
import pkgutil
import re

import pytest

from mkbo_plugins import ParameterSpace, pretrain
from tests.documents import ROOT, blocks, commands, measured, write_done, write_handbook, write_older_device, write_runs

PACKAGE = ROOT / "mkbo_plugins"
DOCS = PACKAGE / "docs"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PAGES = sorted(DOCS.glob("*.md"))
HOSTS = {"ax": "ax", "baybe": "baybe", "optuna": "optuna", "skopt": "skopt"}
LINKING = [*DOCS.rglob("*.md"), ROOT / "CHANGELOG.md", CONTRIBUTING]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with what the pages take as given; it is the working folder."""
    import pandas as pd

    write_older_device(tmp_path)
    write_handbook(tmp_path)
    write_runs(tmp_path)
    write_done(tmp_path)
    table = pd.read_csv(tmp_path / "older_device.csv")
    table.assign(G_D_std=0.1).to_csv(tmp_path / "with_noise.csv", index=False)
    space_toml, _ = blocks(DOCS / "describing_a_space.md", "toml")
    (tmp_path / "space.toml").write_text(space_toml)
    space = ParameterSpace.from_dict(
        {"power_mW": (100, 5500), "time_ms": (500, 20000, "log"), "passes": (1, 6, "int"), "gas": ["Argon", "Air"]}
    )
    pretrain(table, "G_D_ratio", space, trainer="gp").save(tmp_path / "older_device.mkbo.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_python_blocks_run_in_order(path, folder):
    pytest.importorskip("botorch")
    pytest.importorskip(HOSTS.get(path.stem, "botorch"))
    names = measured()
    for block in blocks(path, "python"):
        exec(compile(block, str(path), "exec"), names)
    assert not names.get("findings")
    if path.stem == "botorch":
        assert len(names["Y"]) == 5
    if path.stem == "ax":
        assert len(names["client"]._experiment.completed_trials) == 1
    if path.stem == "optuna":
        assert [trial.state.name for trial in names["study"].trials] == ["COMPLETE"] * 6
    if path.stem == "skopt":
        assert len(names["result"].func_vals) == 12
    if path.stem == "baybe":
        assert len(names["campaign"].measurements) == 3
    if path.stem == "earlier_campaigns":
        assert [campaign.date for campaign in names["library"].campaigns] == [None, None, None, "2026-11-03"]
    if path.stem == "when_it_will_not_help":
        assert names["verdict"].log_ratio < 0


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_commands_run(path, folder):
    from typer.testing import CliRunner

    from mkbo_plugins.cli import app

    for command in commands(path):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output


def test_the_two_descriptions_of_a_space_are_the_same(folder):
    from mkbo_plugins.tables.spacefiles import read_space_file

    names: dict = {}
    exec(blocks(DOCS / "describing_a_space.md", "python")[0], names)
    assert read_space_file(folder / "space.toml") == names["space"]


@pytest.mark.parametrize("path", LINKING, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_links_and_names_exist(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)(.*?)\)", text):
        assert (path.parent / target.partition("#")[0]).exists(), target  # places within pages are the site's test
    for name in set(re.findall(r"`(mkbo_plugins(?:\.\w+)+)", text)):
        module, _, attribute = name.rpartition(".")
        try:
            found = importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:
            found = False
        assert found or hasattr(importlib.import_module(module), attribute), name


def test_contributing_names_what_exists():
    """Paths, tests after two colons, and dotted names, each from the top or from the package."""
    pytest.importorskip("ax")
    pytest.importorskip("baybe")
    pytest.importorskip("optuna")
    pytest.importorskip("skopt")
    names = re.findall(r"`([\w./]+?)(?:::(\w+))?`", CONTRIBUTING.read_text(encoding="utf-8"))
    paths = [(name, test) for name, test in names if "/" in name or name.endswith((".py", ".toml"))]
    for path, test in paths:
        places = [place / path for place in (ROOT, PACKAGE) if (place / path).exists()]
        assert places, path
        assert not test or f"def {test}(" in places[0].read_text(encoding="utf-8"), test
    tops = {path.stem for path in PACKAGE.iterdir()}
    dotted = [name for name, test in names if (name, test) not in paths and "." in name]
    for name in dotted:
        pkgutil.resolve_name(f"mkbo_plugins.{name}" if name.split(".")[0] in tops else name)
    assert len(paths) > 20
    assert len(dotted) > 20


def test_contributing_has_a_line_for_every_room():
    (rooms,) = blocks(CONTRIBUTING, "text")
    for room in (path.parent.name for path in PACKAGE.rglob("__init__.py")):
        assert room in {"mkbo_plugins", "benchmark"} or re.search(rf"\b{room}\b", rooms), room
