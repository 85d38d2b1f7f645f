"""Run Ax's own tests with this package in place of what they use: pre-trained covariances and generation strategies.

Example: python -m tools.host_suites.ax, or, for some files of a checkout of Ax at the installed version,
python -m tools.host_suites.ax --tests CHECKOUT --files storage/tests generators/torch/tests/test_surrogate.py

Ax's own models run first and ours then. In the second run, every BoTorch model without a covariance of its own gets a
pre-trained one, and the generation strategy of Ax's storage tests is `pretrained_generation_strategy`. Failures that
Ax's own models do not have are listed, with the reason where it is known. Ax's tests need pyfakefs and SQLAlchemy.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

FILES = (
    "storage/json_store/tests",
    "storage/sqa_store/tests/test_sqa_store.py",
    "storage/tests",
    "generators/torch/tests/test_surrogate.py",
)

KNOWN = dict.fromkeys(
    (
        "SurrogateTest.test_construct_model_with_metric_to_model_configs",
        "SurrogateTest.test_fit_model_selection_metric_to_model_configs_multiple_metrics",
        "SurrogateTest.test_fit_multiple_model_configs",
        "SurrogateTest.test_models_for_gen",
    ),
    "the test asks for BoTorch's default kernel by its class, RBFKernel",
)
"""Why tests fail with our models that Ax's own pass, by class and name."""

MOST_SECONDS = 3600
"""Seconds that a test may take, of the clock, which Ax's limit of 120 counts on a busy machine too."""

IN_PLACE = "MKBO_IN_PLACE"
"""Environment variable that tells the run of ours from the other one."""


def main() -> int:
    """Run both, print what fails with ours alone, and return 1 if a reason is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--tests", type=Path, help="checkout of Ax; the installed package brings its tests with it")
    parser.add_argument("--files", nargs="+", default=FILES, help="test files or folders below ax/")
    arguments = parser.parse_args()
    package = arguments.tests / "ax" if arguments.tests else Path(str(find_spec("ax").origin)).parent  # type: ignore[union-attr]
    files = [str(package / name) for name in arguments.files]
    stock, ours = _outcomes(files, in_place=False), _outcomes(files, in_place=True)
    for name, found in (("Ax's own", stock), ("ours", ours)):
        print(f"{name}: {len(found)} tests, {sum(found.values())} pass")
    lost = [test for test, passes in stock.items() if passes and not ours.get(test, False)]
    reasons = {test: next((why for end, why in KNOWN.items() if test.endswith(end)), None) for test in lost}
    for test, why in reasons.items():
        print(f"  {test}: {why or 'NOT KNOWN'}")
    idle = [
        end for end in KNOWN if not any(test.endswith(end) for test in lost) and any(t.endswith(end) for t in stock)
    ]
    for end in idle:
        print(f"  {end}: listed, but passes")
    return int(None in reasons.values())


def _outcomes(files: list[str], *, in_place: bool) -> dict[str, bool]:
    """Return whether each test passes, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        report, settings = Path(folder) / "report.xml", Path(folder) / "pytest.ini"
        settings.write_text("[pytest]\n", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-c", str(settings), "-p", "no:cacheprovider"]
        command += ["-p", __spec__.name if __spec__ else "tools.host_suites.ax", "-W", "ignore", "--tb=short"]
        process = subprocess.run(
            [*command, f"--junitxml={report}", *files],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), IN_PLACE: "1" if in_place else ""},
        )
        if not report.exists():
            raise SystemExit(process.stdout)
        found: dict[str, bool] = {}
        for case in ElementTree.parse(report).iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}".lstrip(".")
            found[name] = found.get(name, True) and case.find("failure") is None and case.find("error") is None
        return found


def pytest_configure() -> None:
    """Put ours in place, before pytest imports any test."""
    from ax.utils.common.testutils import TestCase

    TestCase.MAX_TEST_SECONDS = MOST_SECONDS
    if not os.environ.get(IN_PLACE):
        return
    import botorch.models.gp_regression as models
    from ax.utils.testing import core_stubs, modeling_stubs

    from mkbo_plugins.ax import pretrained_generation_strategy

    def strategy(with_experiment: bool = False, **_: Any) -> Any:
        made = pretrained_generation_strategy(_covariance(("x1", "x2")))
        if with_experiment:
            made._experiment = core_stubs.get_experiment()
        return made

    models.get_covar_module_with_dim_scaled_prior = _kernel
    modeling_stubs.get_generation_strategy = strategy


def _kernel(ard_num_dims: int, batch_shape: Any = None, active_dims: Any = None, **_: Any) -> Any:
    """Return a pre-trained kernel where BoTorch would take its default one."""
    from mkbo_plugins.botorch import PretrainedKernel

    names = tuple(f"x{j}" for j in range(ard_num_dims))
    return PretrainedKernel(_covariance(names), batch_shape=batch_shape, active_dims=active_dims)


@cache
def _covariance(names: tuple[str, ...]) -> Any:
    """Return a covariance over parameters in [0, 1], trained on a smooth table."""
    import numpy as np
    import pandas as pd

    from mkbo_plugins import ParameterSpace, pretrain

    space = ParameterSpace.from_dict(dict.fromkeys(names, (0.0, 1.0)))
    X = space.sobol(20)
    table = pd.DataFrame(X, columns=list(names)).assign(y=np.sin(3 * X).sum(axis=1))
    return pretrain(table, "y", space, trainer="gp", frame="unit", progress=False)


if __name__ == "__main__":
    sys.exit(main())
