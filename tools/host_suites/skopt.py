"""Run scikit-optimize's own tests with its Gaussian process and with a pre-trained regressor in its place.

Run by hand, as a module, with a checkout of the host at the installed version, a working copy or a bare repository::

    python -m tools.host_suites.skopt CHECKOUT [--commit HEAD] [-k EXPRESSION]

Wherever the host makes a Gaussian process of its own (`gp_minimize`, `Optimizer`, `BayesSearchCV`), a covariance is
pre-trained on a small table over the very dimensions; where a test makes one by hand, it gets one over the dimensions
that the test uses. Tests are taken from the checkout and never copied. Failures that the host's own model does not have
are printed, each with the reason where it is known; one that is not ends in status 1.
"""

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FILES = (
    "skopt/tests/test_gp_opt.py",
    "skopt/tests/test_gpr.py",
    "skopt/tests/test_optimizer.py",
    "skopt/tests/test_searchcv.py",
    "skopt/tests/test_plots.py",
    "skopt/tests/test_callbacks.py",
    "skopt/tests/test_parallel_cl.py",
)
"""Files with tests of a Gaussian process; those of the host's kernels, trees and spaces use none of ours."""

OTHER_MODELS = "(base_estimator and (RF or ET or GBRT or rf or et or gbrt)) or RandomForest or ExtraTrees"
"""Tests of models that stay the host's."""

OTHER_STARTS = "lhs or halton or hammersly"
"""Tests that differ from others by first points which no model has a part in; random ones and those of Sobol stay."""

SELECTED = f"not ({OTHER_MODELS}) and not ({OTHER_STARTS})"
"""Tests that are run."""

KNOWN: dict[str, str] = {
    "test_plots.py::test_plots_work": "it asks for numbers that the host's own model gave, within .01; a "
    "pre-trained one differs by .02",
}
"""Reasons why tests fail with a pre-trained regressor, by the end of their names."""

ROWS = 24
"""Rows of the tables."""


def main() -> int:
    """Run the tests in two processes of their own and compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--commit", default="HEAD", help="commit of the checkout to take tests from")
    parser.add_argument("-k", dest="expression", default=SELECTED, help="expression of pytest that selects tests")
    parser.add_argument("--model", choices=("stock", "ours"), help="run with this model only, and print outcomes")
    arguments = parser.parse_args()
    if arguments.model is not None:
        print(json.dumps(run(arguments.checkout, arguments.expression, ours=arguments.model == "ours")))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        take(arguments.checkout, arguments.commit, Path(folder))
        outcomes = {}
        for model in ("stock", "ours"):
            command = [sys.executable, "-m", __spec__.name, folder, "-k", arguments.expression, "--model", model]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            outcomes[model] = json.loads(printed.splitlines()[-1])
            failed = [name for name, outcome in outcomes[model].items() if outcome == "failed"]
            print(f"{model}: {len(outcomes[model])} tests, {len(failed)} failed", *failed, sep="\n    ", flush=True)
    return compare(outcomes["stock"], outcomes["ours"])


def compare(stock: dict[str, str], ours: dict[str, str]) -> int:
    """Print what fails with ours alone, with reasons, and return the status."""
    unknown = 0
    for name, outcome in ours.items():
        if outcome == "failed" and stock.get(name) != "failed":
            reason = next((reason for part, reason in KNOWN.items() if name.endswith(part)), None)
            unknown += reason is None
            print(f"{name}: {reason or 'NOT KNOWN'}")
    return int(unknown > 0)


def take(checkout: Path, commit: str, folder: Path) -> None:
    """Write the host's tests into a folder that is no package of its name, so that the installed one is tested."""
    packed = subprocess.run(["git", "-C", checkout, "archive", commit, *FILES], check=True, stdout=subprocess.PIPE)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            if file is not None:
                (folder / Path(member.name).name).write_bytes(file.read())


class Outcomes:
    """Plugin of pytest that keeps the outcome of each test."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of the test itself, or of what came before it."""
        name = report.nodeid.rsplit("/", maxsplit=1)[-1]
        if report.when == "call" or report.outcome != "passed":
            self.found[name] = report.outcome


class Substitute:
    """Plugin of pytest that puts pre-trained regressors where Gaussian processes of the host are made."""

    def __init__(self) -> None:
        import skopt.learning
        import skopt.optimizer.gp
        import skopt.optimizer.optimizer
        import skopt.utils

        import mkbo_plugins.skopt  # noqa: F401 - its classes inherit from the host's

        self.module = ""
        cook = substituted(skopt.utils.cook_estimator)
        for module in (skopt.utils, skopt.optimizer.gp, skopt.optimizer.optimizer):
            module.cook_estimator = cook
        # The host itself has its class already; what it is called by decides how tests are named.
        self.by_hand.__func__.__name__ = "GaussianProcessRegressor"
        skopt.learning.GaussianProcessRegressor = self.by_hand

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Keep of which file the test is."""
        self.module = item.path.stem

    def by_hand(self, *, noise: Any = "gaussian", random_state: Any = None, **_: Any) -> Any:
        """Return what stands for a Gaussian process that a test makes without dimensions."""
        return regressor(by_hand_dimensions()[self.module], noise=noise, random_state=random_state)


def by_hand_dimensions() -> dict[str, list[Any]]:
    """Return dimensions of the Gaussian processes that tests make by hand, by file."""
    from skopt.space import Categorical, Real

    return {
        "test_gpr": [Real(-10.0, 10.0), Real(-10.0, 10.0)],
        "test_optimizer": [Categorical([1, 2, 3]), Categorical([4, 5, 6])],
        "test_parallel_cl": [Real(-5.0, 10.0), Real(0.0, 15.0)],
    }


def run(folder: Path, expression: str, *, ours: bool) -> dict[str, str]:
    """Run the tests in a folder and return the outcome of each."""
    import matplotlib as mpl

    mpl.use("Agg")
    outcomes = Outcomes()
    plugins: list[Any] = [outcomes, Substitute()] if ours else [outcomes]
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "-k", expression, "-W", "ignore"]
    pytest.main([*options, "-c", "/dev/null", str(folder)], plugins=plugins)
    return outcomes.found


def substituted(cook: Callable[..., Any]) -> Callable[..., Any]:
    """Return the host's way to make estimators, with pre-trained regressors for its Gaussian processes."""

    def cook_ours(base_estimator: Any, space: Any = None, **settings: Any) -> Any:
        stock = cook(base_estimator, space=space, **settings)
        if not isinstance(base_estimator, str) or base_estimator.upper() != "GP" or space is None:
            return stock
        return regressor(list(space), noise=stock.noise, random_state=stock.random_state) or stock

    return cook_ours


def regressor(dimensions: list[Any], noise: Any = "gaussian", random_state: Any = None) -> Any:
    """Return a regressor pre-trained over these dimensions, None where all are constant."""
    from skopt.space import Space

    from mkbo_plugins.skopt import pretrained_regressor

    described = deepcopy(list(Space(dimensions).dimensions))
    for j, dimension in enumerate(described):
        dimension.name = f"{dimension.name or 'x'}_{j}"
    key = tuple(f"{dimension.name}: {dimension!r}" for dimension in described)
    if key not in _COVARIANCES:
        _COVARIANCES[key] = pretrained(described)
    cov = _COVARIANCES[key]
    if cov is None:
        return None
    return pretrained_regressor(cov, described, noise=noise, random_state=random_state)


_COVARIANCES: dict[tuple[str, ...], Any] = {}


def pretrained(dimensions: list[Any]) -> Any:
    """Return a covariance trained on a smooth function over dimensions, None where all are constant."""
    from mkbo_plugins import pretrain
    from mkbo_plugins.skopt import parameter_space

    if all(len(getattr(dimension, "categories", (0, 1))) == 1 for dimension in dimensions):
        return None
    space = parameter_space(dimensions)
    X = space.sobol(ROWS, 1)
    unit = np.asarray(space.to_coordinates(X, "unit"))
    y = np.sin(3 * unit @ (1.0 / np.arange(1, unit.shape[1] + 1)))
    return pretrain((X, y), "y", space, trainer="gp", progress=False)


if __name__ == "__main__":
    sys.exit(main())
