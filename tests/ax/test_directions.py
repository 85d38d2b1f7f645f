"""First trials designed from the tables of several metrics, each with its direction."""

import numpy as np
import pandas as pd
import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig

from mkbo_plugins import ParameterSpace
from mkbo_plugins.ax import diagnose, pretrained_generation_strategy, use_pretrained
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.core.gp.design import distance_to_front
from mkbo_plugins.errors import KernelError, MkboError, SpaceError
from tests.ax.experiments import mixed_client, mixed_points, predict, pretrain_few


@pytest.fixture(scope="module")
def price_cov():
    """Return a covariance of a price that grows with power, which is all that its table knows of."""
    power = np.linspace(100.0, 5500.0, 8)
    table = pd.DataFrame({"power": power, "price": power / 1000 + 0.1 * np.sin(power)})
    return pretrain_few(table, "price", ParameterSpace.from_dict({"power": (100.0, 5500.0)}))


def standardised(cov, points):
    everywhere = predict(cov, mixed_points(256))
    return (predict(cov, points) - everywhere.mean()) / everywhere.std()


def designed(small_cov, price_cov, direction, n=4, objective="y, -price"):
    client = mixed_client(objective)
    use_pretrained(client, {"y": small_cov, "price": price_cov}, initial_trials=n, direction=direction)
    points = list(client.get_next_trials(n).values())
    assert {t.generator_runs[0]._generation_node_name for t in client._experiment.trials.values()} == {"TableDesign"}
    return points


def wanted(small_cov, price_cov, points, signs=(1, -1)):
    return np.column_stack(
        [sign * standardised(cov, points) for sign, cov in zip(signs, (small_cov, price_cov), strict=True)]
    )


@pytest.mark.parametrize(
    ("direction", "signs"),
    [("same", (1, -1)), ({"y": "same", "price": "opposite"}, (1, 1)), ({"y": "opposite", "price": "same"}, (-1, -1))],
)
def test_points_lie_near_the_front_that_the_tables_predict(small_cov, price_cov, direction, signs):
    points = designed(small_cov, price_cov, direction)
    everywhere = mixed_points(256)
    values = wanted(small_cov, price_cov, [*points, *everywhere], signs)
    behind = distance_to_front(values)
    assert behind[: len(points)].max() < np.quantile(behind[len(points) :], 0.5)
    assert len({str(point) for point in points}) == len(points)


def test_direction_of_one_metric_leaves_the_others_out(small_cov, price_cov):
    alone = mixed_client("y")
    use_pretrained(alone, small_cov, initial_trials=3, direction="same")
    points = designed(small_cov, price_cov, {"y": "same"}, n=3)
    assert points == list(alone.get_next_trials(3).values())
    assert points == designed(small_cov, price_cov, {"y": "same", "price": "unknown"}, n=3)


def test_first_trials_come_from_sobol_where_no_direction_is_known(small_cov, price_cov):
    client = mixed_client("y, -price")
    use_pretrained(client, {"y": small_cov, "price": price_cov}, direction={"y": "unknown"})
    client.get_next_trials(1)
    assert client._experiment.trials[0].generator_runs[0]._generation_node_name == "Sobol"


def test_design_goes_on_after_reloading(small_cov, price_cov, tmp_path):
    client = mixed_client("y, -price")
    use_pretrained(client, {"y": small_cov, "price": price_cov}, direction={"price": "same", "y": "same"})
    client.get_next_trials(1)
    client.save_to_json_file(str(tmp_path / "client.json"))
    loaded = Client.load_from_json_file(str(tmp_path / "client.json"))
    assert loaded.get_next_trials(2) == client.get_next_trials(2)


@pytest.mark.parametrize(
    ("direction", "message"),
    [
        ({"speed": "same"}, r"direction names \['speed'\], but there are covariances of \['y', 'cost'\]"),
        ({"y": "up"}, "direction must be 'same', 'opposite' or 'unknown', got 'up'"),
        ({"y": ["same", "opposite"]}, "one for each of 1 tables, got 2"),
        ("same", r"metrics \['cost'\] are no objectives.*of objectives only, which are \['y'\]"),
    ],
)
def test_wrong_directions_are_named(small_cov, direction, message):
    client = mixed_client("y", outcome_constraints=["cost <= 3"])
    with pytest.raises((MkboError, KernelError), match=message):
        use_pretrained(client, {"y": small_cov, "cost": small_cov}, direction=direction)


def test_mapping_of_directions_needs_a_mapping_of_covariances(small_cov):
    with pytest.raises(MkboError, match="one covariance without a name"):
        pretrained_generation_strategy(small_cov, direction={"y": "same"})


def test_names_and_constants_go_to_the_covariance_that_has_them(small_cov, price_cov):
    client = Client()
    bounds = {"laser": (100.0, 5500.0), "rate": (1e-4, 1e-2)}
    client.configure_experiment(
        [RangeParameterConfig(name, ends, parameter_type="float") for name, ends in bounds.items()], name="renamed"
    )
    client.configure_optimization("y, -price")
    settings = {"rename": {"power": "laser"}, "fixed": {"layers": 2, "gas": "Air"}, "direction": "same"}
    covs = {"y": small_cov, "price": price_cov}
    with pytest.raises(SpaceError, match=r"hold \['speed'\], which no covariance has"):
        use_pretrained(client, covs, **settings | {"fixed": {**settings["fixed"], "speed": 3}})
    use_pretrained(client, covs, initial_trials=3, **settings)
    for index, point in client.get_next_trials(3).items():
        client.complete_trial(index, {"y": point["laser"] * point["rate"], "price": point["laser"] / 1000})
    assert len(client.get_next_trials(1)) == 1
    assert list(diagnose(client)["form"]) == [DEFAULT_FORM] * 2


def test_a_design_keeps_away_from_trials_that_are_there(small_cov):
    together, one_by_one = mixed_client(), mixed_client()
    for client in (together, one_by_one):
        use_pretrained(client, small_cov, initial_trials=4, direction="same")
    points = list(together.get_next_trials(3).values())
    assert [point for _ in range(3) for point in one_by_one.get_next_trials(1).values()] == points
    started = mixed_client()
    near = dict(points[0]) | {"power": points[0]["power"] + 1e-3}
    started.complete_trial(started.attach_trial(near), {"y": 1.0})
    use_pretrained(started, small_cov, initial_trials=4, direction="same")
    (following,) = started.get_next_trials(1).values()
    assert following == points[1]


def test_a_space_of_few_points_is_designed_until_none_is_left():
    space = ParameterSpace.from_dict({"layers": (1, 3, "int"), "passes": (1, 2, "int")})
    raw = np.unique(space.sobol(32), axis=0)
    table = pd.DataFrame(raw, columns=list(space.names)).assign(y=raw @ [2.0, 1.0])
    client = Client()
    client.configure_experiment(
        [
            RangeParameterConfig(name=n, bounds=(1, high), parameter_type="int")
            for n, high in (("layers", 3), ("passes", 2))
        ]
    )
    client.configure_optimization(objective="y")
    use_pretrained(client, pretrain_few(table, "y", space), initial_trials=7, direction="same")
    points = [tuple(point.values()) for point in client.get_next_trials(6).values()]
    assert sorted(points) == [(i, j) for i in (1, 2, 3) for j in (1, 2)]
    assert points[0] == (3, 2)
    with pytest.raises(MkboError, match="no further points"):
        client.get_next_trials(1)
