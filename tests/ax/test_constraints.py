"""Constraints of experiments in designs and models, and constraints of tables that experiments do not keep."""

import pandas as pd
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, DerivedParameterConfig, RangeParameterConfig

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.ax import use_pretrained
from mkbo_plugins.errors import TableWarning
from tests.test_constraints import BOUNDS, PARTS, SUM, recipes


@pytest.fixture(scope="module")
def recipe_cov():
    space = ParameterSpace.from_dict(BOUNDS, constraints=[SUM])
    return pretrain(recipes(), "strength", space, trainer="gp", progress=False)


@pytest.fixture(scope="module")
def three_cov():
    """Return a covariance of mixtures of three parts, the last of which experiments derive."""
    bounds = dict.fromkeys("abc", (0, 1))
    space = ParameterSpace.from_dict(bounds, constraints=[{"sum": list(bounds), "equals": 1}])
    table = pd.DataFrame(space.from_raw(space.sobol(16)))
    return pretrain(table.assign(y=table["a"] + table["b"] ** 2), "y", space, trainer="gp", progress=False)


def client(bounds, constraints, derived=()):
    made = Client(random_seed=0)
    ranges = [
        RangeParameterConfig(name=name, bounds=tuple(map(float, ends)), parameter_type="float")
        for name, ends in bounds.items()
    ]
    made.configure_experiment([*ranges, *derived], parameter_constraints=constraints)
    made.configure_optimization("y")
    return made


def test_designs_and_models_keep_the_experiments_constraints(three_cov, recwarn):
    rest = DerivedParameterConfig(name="c", expression_str="1.0 - a - b", parameter_type="float")
    campaign = client(dict.fromkeys("ab", (0, 1)), ["a + b <= 1", "a + 2 * b <= 1.2"], [rest])
    use_pretrained(campaign, three_cov, initial_trials=3, direction="same")
    assert not [w for w in recwarn if issubclass(w.category, TableWarning)]
    for trial in range(4):
        # The design keeps constraints to rounding; the host's own solver, which searches with the model, to about 1e-6.
        slack = 1e-9 if trial < 3 else 1e-6
        for index, point in campaign.get_next_trials(max_trials=1).items():
            assert point["a"] + point["b"] <= 1 + slack
            assert point["a"] + 2 * point["b"] <= 1.2 + slack
            campaign.complete_trial(index, {"y": point["a"] - point["b"]})
    nodes = [run._generation_node_name for run in campaign._generation_strategy._generator_runs]
    assert nodes == ["TableDesign"] * 3 + ["Pretrained"]


def test_a_mixture_that_the_experiment_does_not_keep_is_told(recipe_cov):
    with pytest.warns(TableWarning, match=r"fibre = 100, but the experiment does not, where .* runs from 5 to 155"):
        use_pretrained(client(BOUNDS, ["sand + 2 * lime <= 130"]), recipe_cov)


def test_two_inequalities_may_stand_for_an_equality(recipe_cov, recwarn):
    both = [f"{' + '.join(PARTS)} {side} 100" for side in ("<=", ">=")]
    use_pretrained(client(BOUNDS, both), recipe_cov)
    assert not [w for w in recwarn if issubclass(w.category, TableWarning)]


def test_a_choice_may_have_new_levels_beside_a_constraint(recwarn):
    bounds = dict.fromkeys("abc", (0, 1))
    space = ParameterSpace.from_dict({**bounds, "kind": ["x", "y"]}, constraints=[{"sum": list(bounds), "equals": 1}])
    table = pd.DataFrame(space.from_raw(space.sobol(16)))
    cov = pretrain(table.assign(y=table["a"] + (table["kind"] == "x")), "y", space, trainer="gp", progress=False)
    rest = DerivedParameterConfig(name="c", expression_str="1.0 - a - b", parameter_type="float")
    kind = ChoiceParameterConfig(name="kind", values=["x", "z"], parameter_type="str", is_ordered=False)
    campaign = client(dict.fromkeys("ab", (0, 1)), ["a + b <= 1"], [rest, kind])
    use_pretrained(campaign, cov, initial_trials=2, direction="same")
    told = [str(w.message) for w in recwarn if issubclass(w.category, TableWarning)]
    assert len(told) == 1
    assert "the table has nothing on ['z']" in told[0]
    for _ in range(3):
        ((index, point),) = campaign.get_next_trials(max_trials=1).items()
        assert point["a"] + point["b"] <= 1 + 1e-9
        campaign.complete_trial(index, {"y": point["a"]})


def test_an_experiment_of_choices_only_is_told_too(recipe_cov):
    choices = [ChoiceParameterConfig(name=name, values=[10, 20, 30], parameter_type="float") for name in PARTS]
    with pytest.warns(TableWarning, match="= 100, but the experiment does not"):
        use_pretrained(client({}, [], choices), recipe_cov)
