"""Constraints of a space as arguments of BoTorch's optimisers."""

import pytest
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.optim import optimize_acqf

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.botorch import linear_constraints, pretrained_gp
from mkbo_plugins.errors import SpaceError, TableWarning
from tests.test_constraints import BOUNDS, PARTS, RATIO, SUM, recipes

MIXTURE = ParameterSpace.from_dict(BOUNDS, constraints=[SUM, {"sum": ["lime", "fibre"], "at_most": 50}])


@pytest.fixture(scope="module")
def recipe_cov():
    return pretrain(recipes(), "strength", MIXTURE, trainer="gp", progress=False)


def test_every_side_of_a_constraint_has_its_tuple():
    space = ParameterSpace.from_dict(BOUNDS, constraints=[SUM, RATIO, {"sum": ["sand"], "at_least": 1, "at_most": 70}])
    names = ["fibre", *PARTS[:3]]
    given = linear_constraints(space, names)
    columns = [space.names.index(name) for name in names]
    inside, outside = torch.tensor(space.sobol(16)), torch.tensor(ParameterSpace(space.parameters).sobol(16))
    for X, kept in ((inside, True), (outside, False)):
        rows = X[:, columns]
        same = [(rows[:, i] @ w - end).abs() <= 1e-9 for i, w, end in given["equality_constraints"]]
        above = [rows[:, i] @ w >= end - 1e-9 for i, w, end in given["inequality_constraints"]]
        assert torch.stack([*same, *above]).all(0).tolist() == [kept] * 16
    assert linear_constraints(ParameterSpace(space.parameters)) == dict.fromkeys(given)
    with pytest.raises(SpaceError, match="'lime'"):
        linear_constraints(space, ["sand", "water", "fibre"])
    with pytest.raises(SpaceError, match="ParameterSpace"):
        linear_constraints(BOUNDS)


def test_a_loop_with_them_keeps_to_recipes(recipe_cov):
    X = torch.tensor(MIXTURE.sobol(5))
    Y = X[:, :1] / 10 + X[:, 1:2]
    model = pretrained_gp(recipe_cov, X, Y)
    found, _ = optimize_acqf(
        qLogNoisyExpectedImprovement(model, X_baseline=X),
        bounds=torch.tensor(list(BOUNDS.values())).double().T,
        q=1,
        num_restarts=2,
        raw_samples=16,
        **linear_constraints(MIXTURE),
    )
    assert found.sum().item() == pytest.approx(100, abs=1e-5)
    assert (found[0, 1] + found[0, 3]).item() <= 50 + 1e-5


def test_a_target_without_them_is_told_and_one_with_them_is_not(recipe_cov, recwarn):
    X = torch.tensor(MIXTURE.sobol(4))
    pretrained_gp(recipe_cov, X, X[:, :1])
    wider = ParameterSpace.from_dict(BOUNDS | {"hours": (0, 9)}, constraints=[SUM, {"sum": ["lime"], "at_most": 25}])
    rows = torch.tensor(wider.sobol(4))
    pretrained_gp(recipe_cov, rows, rows[:, :1], space=wider)
    assert not [w for w in recwarn if issubclass(w.category, TableWarning)]
    with pytest.warns(TableWarning) as caught:
        pretrained_gp(recipe_cov, X, X[:, :1], space=ParameterSpace(MIXTURE.parameters))
    said = [str(w.message) for w in caught]
    assert len(said) == 2
    assert "lime + fibre <= 50, but the target's space does not, where lime + fibre runs from 0 to 60" in said[1]
