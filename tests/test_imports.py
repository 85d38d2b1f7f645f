"""What is imported when, and which way imports point."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mkbo_plugins"
OPTIONAL = ("torch", "botorch", "gpytorch", "linear_operator", "ax", "baybe", "optuna", "skopt", "matplotlib")


def python(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def imported_modules(path: Path) -> set[str]:
    """Return the absolute names of everything a file imports, at any depth."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return found


def below(name: str, *prefixes: str) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


@pytest.mark.parametrize("module", ["mkbo_plugins", "mkbo_plugins.core"])
def test_import_loads_no_optional_framework(module):
    loaded = python(f"import sys, {module}; print(*[name for name in {OPTIONAL} if name in sys.modules])")
    assert loaded == ""


def test_training_and_saving_load_no_optional_framework(tmp_path):
    script = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {OPTIONAL}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import numpy as np
from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
X = np.random.default_rng(0).uniform(0, 1, (12, 2))
space = ParameterSpace.from_dict({{"a": (0, 1), "b": (0, 1)}})
cov = pretrain((X, X[:, 0] - X[:, 1] ** 2), space=space, C=1.0, sigma=1.0, epsilon=0.01, progress=False)
back = PretrainedCovariance.load(cov.save({str(tmp_path / "knowledge.mkbo.json")!r}))
print(back == cov, len(back.starting_points(3, "same")), back.gram(X).shape)
"""
    assert python(script) == "True 3 (12, 12)"


CORE = sorted((PACKAGE / "core").rglob("*.py"))


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.stem)
def test_core_imports_only_core_and_errors(path):
    ours = {name for name in imported_modules(path) if below(name, "mkbo_plugins")}
    assert all(below(name, "mkbo_plugins.core", "mkbo_plugins.errors") for name in ours), ours


def test_core_is_found():
    assert len(CORE) > 5
    assert any(below(name, "mkbo_plugins.core") for path in CORE for name in imported_modules(path))


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.stem)
def test_core_imports_no_optional_framework(path):
    assert not [name for name in imported_modules(path) if below(name, *OPTIONAL, "pandas", "typer", "rich")]


@pytest.mark.parametrize(
    "name",
    ["__init__.py", "errors.py", "files.py", "messages", "space", "tables", "covariance", "pretraining", "suggestion"],
)
def test_fitted_object_and_space_import_no_adapter(name):
    adapters = ("botorch", "ax", "baybe", "optuna", "skopt", "cli", "plots", "experiments")
    place = PACKAGE / name
    paths = list(place.rglob("*.py")) if place.is_dir() else [place]
    assert paths
    for path in paths:
        found = imported_modules(path)
        assert not [module for module in found if below(module, *(f"mkbo_plugins.{adapter}" for adapter in adapters))]
        assert not [module for module in found if below(module, *OPTIONAL)]


@pytest.mark.parametrize(
    ("adapter", "others"),
    [
        ("botorch", ("ax", "baybe", "optuna", "skopt")),
        ("ax", ("baybe", "optuna", "skopt")),
        ("baybe", ("ax", "optuna", "skopt")),
        ("optuna", ("ax", "baybe", "skopt")),
        ("skopt", ("ax", "baybe", "botorch", "optuna")),
    ],
)
def test_adapters_do_not_import_one_another(adapter, others):
    for path in (PACKAGE / adapter).rglob("*.py"):
        found = imported_modules(path)
        assert not [name for name in found if below(name, *(f"mkbo_plugins.{other}" for other in others))], path


@pytest.mark.parametrize("host", ["botorch", "ax", "baybe", "optuna", "skopt"])
def test_a_missing_host_names_the_extra(host):
    script = f"""
import sys
sys.modules["{host}"] = None
import mkbo_plugins
try:
    import mkbo_plugins.{host}
except ImportError as error:
    print(error)
"""
    message = python(script)
    assert f"mkbo_plugins[{host}]" in message
    assert "pip install" in message


@pytest.mark.parametrize(("folder", "others"), [("plots", ("experiments", "cli")), ("experiments", ("cli",))])
def test_rooms_that_commands_are_made_of_do_not_import_them(folder, others):
    for path in (PACKAGE / folder).rglob("*.py"):
        found = imported_modules(path)
        assert not [name for name in found if below(name, *(f"mkbo_plugins.{other}" for other in others))], path


def test_no_files_import_one_another_in_a_circle():
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    imports = {name: imported_modules(path) & set(files) for name, path in files.items()}
    assert len(list(TopologicalSorter(imports).static_order())) == len(files)


FLOORS = (
    {"errors", "files"},
    {"messages", "core"},
    {"space"},
    {"tables", "covariance"},
    {"pretraining", "report", "suggestion"},
    {"plots", "botorch", "skopt", "trials", "inspection", "validation"},
    {"ax", "baybe", "optuna"},
    {"experiments"},
    {"cli"},
)
"""Rooms of the package from the ground up."""


def test_rooms_import_only_rooms_below_them():
    floor = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
    assert {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in PACKAGE.rglob("*.py")} == {
        "__init__",
        *floor,
    }
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if room == "__init__":
            continue
        others = {name.split(".")[1] for name in imported_modules(path) if below(name, "mkbo_plugins") and "." in name}
        wrong = [other for other in others - {room} if floor.get(other, 0) >= floor[room]]
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


def test_import_of_the_package_imports_neither_numpy_nor_scikit_learn():
    assert python("import sys, mkbo_plugins; print(*{'numpy', 'sklearn', 'pandas'} & set(sys.modules))") == ""


def test_loading_a_covariance_imports_no_trainers(cov, tmp_path):
    path = cov.save(tmp_path / "knowledge.mkbo.json")
    script = (
        f"import sys, mkbo_plugins; mkbo_plugins.PretrainedCovariance.load({str(path)!r})\n"
        "print(*[name for name in sys.modules if name == 'sklearn' or name.startswith(('mkbo_plugins.pretraining', "
        "'mkbo_plugins.tables', 'mkbo_plugins.core.training', 'mkbo_plugins.core.theory'))])"
    )
    assert python(script) == ""
