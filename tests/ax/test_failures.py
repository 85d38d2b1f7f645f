"""First trials that differ, trials that fail, and parameters that depend on others."""

import numpy as np
import pandas as pd
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.parameter import get_dummy_value_for_parameter
from scipy.spatial.distance import cdist, pdist

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.ax import use_pretrained
from mkbo_plugins.core.gp.spacing import least_distance
from mkbo_plugins.errors import SpaceWarning

UNIT = ParameterSpace.from_dict(dict.fromkeys("pqr", (0.0, 1.0)))


@pytest.fixture(scope="module")
def rising():
    """Return a covariance of what grows smoothly, most of all with q."""
    raw = UNIT.sobol(30, 4)
    table = pd.DataFrame(raw, columns=[*"pqr"]).assign(s=raw @ [0.5, 2.0, 0.1])
    return pretrain(table, "s", UNIT, trainer="gp", progress=False)


def client_of(*names, **settings):
    client = Client(random_seed=0)
    client.configure_experiment([RangeParameterConfig(n, (0.0, 1.0), parameter_type="float") for n in names])
    client.configure_optimization("y", **settings)
    return client


def array(points, names="pqr"):
    return np.array([[point[name] for name in names] for point in points])


def test_a_batch_by_a_smooth_table_keeps_its_distance_also_from_pending_and_failed_trials(rising):
    client = client_of(*"pqr")
    use_pretrained(client, rising, initial_trials=6, direction="same")
    first = client.get_next_trials(3)
    client.mark_trial_failed(next(iter(first)))
    points = array([*first.values(), *client.get_next_trials(3).values()])
    assert pdist(points).min() >= least_distance(3)
    assert points[0, 1] > 0.9


@pytest.mark.parametrize("mark", ["mark_trial_failed", "mark_trial_abandoned"])
def test_where_the_best_by_the_table_fails_the_design_leaves_it_after_three(rising, mark):
    client = client_of(*"pqr")
    use_pretrained(client, rising, initial_trials=4, direction="same", seed=3)
    failed = 0
    for _ in range(12):
        ((index, point),) = client.get_next_trials(1).items()
        if point["q"] < 0.5:
            break
        getattr(client, mark)(index)
        failed += 1
    assert 3 <= failed <= 6
    tried = array([arm.parameters for arm in client._experiment.arms_by_name.values()])
    assert pdist(tried).min() >= least_distance(3)


def test_a_model_suggests_nothing_beside_a_failed_trial(rising):
    """The outcome is best where trials fail, so that a model that forgot them would go back."""
    client = client_of(*"pqr")
    use_pretrained(client, rising, initial_trials=0, direction="same")
    for point in UNIT.from_raw(UNIT.sobol(4, 2)):
        client.complete_trial(client.attach_trial(point), {"y": round(2 * point["q"] + point["p"], 6)})
    ((index, first),) = client.get_next_trials(1).items()
    client.mark_trial_failed(index)
    ((_, second),) = client.get_next_trials(1).items()
    assert cdist(array([first]), array([second])).item() > 0.05


def test_a_space_too_small_says_that_trials_are_near_one_another():
    space = ParameterSpace.from_dict({"layers": (1, 9, "int")})
    table = pd.DataFrame({"layers": np.arange(1, 10), "s": np.arange(9.0)})
    cov = pretrain(table, "s", space, trainer="gp", progress=False)
    client = Client()
    client.configure_experiment([RangeParameterConfig("layers", (1, 9), parameter_type="int")])
    client.configure_optimization("y")
    use_pretrained(client, cov, initial_trials=9, direction="same")
    few = [point["layers"] for point in client.get_next_trials(3).values()]
    assert np.diff(sorted(few)).min() >= 8 * least_distance(1)
    with pytest.warns(SpaceWarning, match="no room for one more first trial far from all others"):
        more = [point["layers"] for point in client.get_next_trials(6).values()]
    assert sorted(few + more) == list(range(1, 10))


DEPENDENT = {
    "rate": (1e-4, 1e-1, "log"),
    "method": ["adam", "sgd"],
    "momentum": (0.0, 0.99),
}


def dependent_client():
    client = Client(random_seed=0)
    methods = {"sgd": ["momentum"], "adam": ["beta"]}
    client.configure_experiment(
        [
            RangeParameterConfig("rate", (1e-4, 1e-1), parameter_type="float", scaling="log"),
            ChoiceParameterConfig(
                "method", ["sgd", "adam"], parameter_type="str", is_ordered=False, dependent_parameters=methods
            ),
            RangeParameterConfig("momentum", (0.0, 0.99), parameter_type="float"),
            RangeParameterConfig("beta", (0.8, 0.999), parameter_type="float"),
        ]
    )
    client.configure_optimization("accuracy")
    return client


@pytest.mark.parametrize("direction", ["same", "opposite"])
def test_parameters_that_depend_on_others_are_designed_at_the_values_by_which_ax_fills_them_in(direction):
    space = ParameterSpace.from_dict(DEPENDENT)
    rows = space.from_raw(space.sobol(24, 5))
    table = pd.DataFrame(rows).assign(
        s=[-((np.log10(r["rate"]) + 2) ** 2) + (r["method"] == "adam") + r["momentum"] for r in rows]
    )
    cov = pretrain(table, "s", space, trainer="gp", progress=False)
    client = dependent_client()
    use_pretrained(client, cov, initial_trials=3, direction=direction)
    points = client.get_next_trials(3)
    middle = get_dummy_value_for_parameter(client._experiment.search_space.parameters["momentum"])
    full = [{"momentum": middle, **point} for point in points.values()]
    assert any("momentum" not in point for point in points.values()) or direction == "opposite"
    sign = 1 if direction == "same" else -1
    everywhere = sign * cov.predict(space.sobol(256))
    assert sign * cov.predict(full)[0] > np.quantile(everywhere, 0.9)
    for index, point in points.items():
        client.complete_trial(index, {"accuracy": round(float(-((np.log10(point["rate"]) + 2) ** 2)), 6)})
    ((_, following),) = client.get_next_trials(1).items()
    assert ("momentum" in following) == (following["method"] == "sgd")
