"""Shares of the prediction's variance, against functions whose shares are known."""

import numpy as np
import pytest
from typer.testing import CliRunner

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.cli import app
from mkbo_plugins.report.sensitivity import prediction_sensitivity

SPACE = ParameterSpace.from_dict({"a": (0.0, 10.0), "b": (1e-4, 1e-1, "log"), "c": ["x", "y"], "idle": (0, 5, "int")})


def trained(function):
    X = SPACE.sobol(128, seed=3)
    unit = np.asarray(SPACE.to_coordinates(X, "unit"))
    return pretrain((X, function(*unit[:, :3].T)), "y", SPACE, trainer="gp", progress=False)


def test_a_sum_divides_by_variance():
    """Uniform a and b have variance 1/12 and a level of two 1/4: 4 a, 2 b and c have 16, 4 and 3 of 23 parts."""
    found = prediction_sensitivity(trained(lambda a, b, c: 4 * a + 2 * b + c))
    for name, share in {"a": 16 / 23, "b": 4 / 23, "c": 3 / 23, "idle": 0.0}.items():
        assert found[name].alone == pytest.approx(share, abs=0.03)
        assert found[name].total == pytest.approx(share, abs=0.03)


def test_a_product_is_an_interaction():
    """For two centred factors no share is explained alone, and all is lost without either."""
    found = prediction_sensitivity(trained(lambda a, b, c: (a - 0.5) * (b - 0.5)))
    for name in ("a", "b"):
        assert found[name].alone < 0.05
        assert found[name].total > 0.95
    assert found["idle"].total < 0.05


def test_it_does_not_depend_on_the_unit_of_the_target():
    one, other = (prediction_sensitivity(trained(lambda a, b, c, u=u: u * (a**2 + b))) for u in (1.0, 1e6))
    for name in SPACE.names:
        assert one[name] == pytest.approx(other[name], abs=1e-3)


@pytest.mark.parametrize("described", [(0.0, 1.0), ["x", "y", "z"]], ids=["numbers", "levels"])
def test_one_parameter_is_all_there_is(described, tmp_path):
    space = ParameterSpace.from_dict({"a": described})
    X = np.resize(np.arange(3.0) if isinstance(described, list) else space.sobol(9)[:, 0], 9)[:, None]
    cov = pretrain((X, np.sin(X[:, 0])), "y", space, trainer="gp", progress=False)
    assert prediction_sensitivity(cov) == {"a": (1.0, 1.0)}
    cov.save(tmp_path / "one.mkbo.json")
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "one.mkbo.json")])
    assert shown.exit_code == 0, shown.output
    assert "100%" in shown.output
