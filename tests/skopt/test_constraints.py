"""What scikit-optimize can keep of a space's constraints, and what is said of the rest."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("skopt")

from skopt import gp_minimize
from skopt.space import Categorical, Integer, Real

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.errors import SpaceError, TableWarning
from mkbo_plugins.skopt import pretrained_regressor, space_constraint

SPACE = ParameterSpace.from_dict(
    {"power": (0, 10), "passes": (1, 8, "int"), "gas": ["Argon", "Air"]},
    constraints=[{"coefficients": {"power": 1, "passes": 1}, "at_most": 9}],
)
DIMENSIONS = [Categorical(["Air", "Argon"], name="gas"), Integer(1, 8, name="passes"), Real(0, 10, name="power")]


@pytest.fixture(scope="module")
def budget_cov():
    table = pd.DataFrame(SPACE.from_raw(SPACE.sobol(20)))
    table["y"] = np.sin(table["power"]) + table["passes"] / 4 + (table["gas"] == "Air")
    return pretrain(table, "y", SPACE, trainer="gp", progress=False)


def test_inequalities_are_kept_by_the_host(budget_cov):
    with pytest.warns(TableWarning, match=r"power \+ passes <= 9, but .* runs from 1 to 18; .*space_constraint"):
        regressor = pretrained_regressor(budget_cov, DIMENSIONS, random_state=0)
    result = gp_minimize(
        lambda x: -x[1] - x[2],
        DIMENSIONS,
        base_estimator=regressor,
        n_calls=8,
        n_initial_points=5,
        n_points=100,
        acq_func="LCB",
        random_state=0,
        space_constraint=space_constraint(SPACE, DIMENSIONS),
    )
    assert all(x[1] + x[2] <= 9 + 1e-9 for x in result.x_iters)


def test_equalities_are_refused_with_what_to_use_instead():
    space = ParameterSpace.from_dict({"a": (0, 1), "b": (0, 1)}, constraints=[{"sum": ["a", "b"], "equals": 1}])
    with pytest.raises(SpaceError, match=r"none keeps a \+ b = 1; use mkbo suggest"):
        space_constraint(space, [Real(0, 1, name="a"), Real(0, 1, name="b")])


def test_a_constrained_parameter_must_be_a_dimension():
    with pytest.raises(SpaceError, match="'passes'"):
        space_constraint(SPACE, [Real(0, 10, name="power")])
    with pytest.raises(SpaceError, match="ParameterSpace"):
        space_constraint({"power": (0, 10)}, DIMENSIONS)


def test_fixed_values_that_keep_a_constraint_need_no_words(budget_cov, recwarn):
    pretrained_regressor(budget_cov, [DIMENSIONS[0], Real(0, 8, name="power")], fixed={"passes": 1})
    assert not [w for w in recwarn if issubclass(w.category, TableWarning)]
