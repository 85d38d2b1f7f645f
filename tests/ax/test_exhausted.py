"""Spaces of choices and whole numbers that have no points left, which is said before any search for some."""

import pandas as pd
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, DerivedParameterConfig, RangeParameterConfig
from ax.core.observation import ObservationFeatures
from ax.exceptions.core import OptimizationComplete
from ax.generation_strategy.generation_node import GenerationNode

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.ax import use_pretrained
from mkbo_plugins.ax.exhausted import ExhaustedError, check_points_left
from mkbo_plugins.errors import MkboError

SPACE = {"n": (1, 3, "int"), "gas": ["a", "b"]}


@pytest.fixture(scope="module")
def cov():
    rows = [{"n": n, "gas": gas, "s": n + 0.5 * (gas == "a")} for n in (1, 2, 3) for gas in "ab"]
    return pretrain(pd.DataFrame(rows), "s", ParameterSpace.from_dict(SPACE), trainer="gp", progress=False)


def discrete_client(extra=(), **settings):
    client = Client(random_seed=0)
    gas = ChoiceParameterConfig("gas", ["a", "b"], parameter_type="str", is_ordered=False)
    client.configure_experiment([RangeParameterConfig("n", (1, 3), parameter_type="int"), gas, *extra], **settings)
    client.configure_optimization("y")
    return client


def complete(client, trials):
    for index, point in trials.items():
        client.complete_trial(index, {"y": point["n"] + 0.5 * (point["gas"] == "a")})


@pytest.fixture
def searches(monkeypatch):
    """Return a list that grows with every search for candidates."""
    made = []
    search = GenerationNode._gen

    def counted(self, *args, **kwargs):
        made.append(self.name)
        return search(self, *args, **kwargs)

    monkeypatch.setattr(GenerationNode, "_gen", counted)
    return made


def attach_all(client, points):
    return {client.attach_trial(point): point for point in points}


EVERY = [{"n": n, "gas": gas} for n in (1, 2, 3) for gas in "ab"]


@pytest.mark.parametrize("initial_trials", [2, 9], ids=["model", "Sobol"])
@pytest.mark.parametrize("done", [6, 2], ids=["all complete", "others pending"])
def test_no_search_is_made_where_no_point_is_left(cov, searches, done, initial_trials):
    client = discrete_client()
    use_pretrained(client, cov, initial_trials=initial_trials)
    complete(client, attach_all(client, EVERY[:done]))
    attach_all(client, EVERY[done:])
    with pytest.raises(
        ExhaustedError, match="no further points to try, 1 asked for: of the 6 that it has, 6 are trials"
    ):
        client.get_next_trials(1)
    assert not searches


def test_the_last_point_is_suggested_and_the_error_is_ours_and_ends_loops_of_ax(cov):
    client = discrete_client()
    use_pretrained(client, cov, initial_trials=2)
    complete(client, attach_all(client, EVERY[:5]))
    ((_, last),) = client.get_next_trials(1).items()
    assert last == EVERY[5]
    for kind in (MkboError, OptimizationComplete):
        with pytest.raises(kind, match="ask for fewer at once"):
            client.get_next_trials(1)


def test_design_from_a_table_says_the_same(cov):
    client = discrete_client()
    use_pretrained(client, cov, initial_trials=9, direction="same")
    assert len(client.get_next_trials(6)) == 6
    with pytest.raises(ExhaustedError, match="no further points"):
        client.get_next_trials(1)


def test_failed_points_may_be_tried_again(cov):
    client = discrete_client()
    use_pretrained(client, cov, initial_trials=2)
    trials = attach_all(client, EVERY)
    client.mark_trial_failed(next(iter(trials)))
    check_points_left(client._experiment)
    with pytest.raises(ExhaustedError, match="has 1 further points to try, 2 asked for"):
        check_points_left(client._experiment, 2)


def test_constraints_and_derived_parameters_leave_few_points():
    half = DerivedParameterConfig("half", expression_str="0.5 * n + 1.0", parameter_type="float")
    client = discrete_client([half], parameter_constraints=["n <= 1"])
    experiment = client._experiment
    check_points_left(experiment, 2)
    with pytest.raises(ExhaustedError, match="of the 2 that it has"):
        check_points_left(experiment, 3)
    attach_all(client, [{"n": 1, "gas": gas, "half": 1.5} for gas in "ab"])
    with pytest.raises(ExhaustedError, match="of the 2 that it has, 2 are trials"):
        check_points_left(experiment)


def test_dependent_parameters_count_where_they_are_in_use():
    client = Client()
    client.configure_experiment(
        [
            ChoiceParameterConfig(
                "use", ["yes", "no"], parameter_type="str", is_ordered=False, dependent_parameters={"yes": ["n"]}
            ),
            RangeParameterConfig("n", (1, 3), parameter_type="int"),
        ]
    )
    client.configure_optimization("y")
    with pytest.raises(ExhaustedError, match="has 4 further points to try, 5 asked for"):
        check_points_left(client._experiment, 5)


def test_pending_points_and_fixed_parameters_count():
    experiment = discrete_client()._experiment
    pending = {"y": [ObservationFeatures(EVERY[0]), ObservationFeatures(EVERY[1])]}
    check_points_left(experiment, 4, pending)
    with pytest.raises(ExhaustedError, match="has 4 further points to try, 5 asked for"):
        check_points_left(experiment, 5, pending)
    with pytest.raises(ExhaustedError, match="of the 2 that it has, 2 are trials or pending"):
        check_points_left(experiment, 1, pending, ObservationFeatures({"n": 1}))


def test_spaces_without_end_or_too_large_to_look_through_are_left_to_ax():
    real = RangeParameterConfig("x", (0.0, 1.0), parameter_type="float")
    check_points_left(discrete_client([real])._experiment, 10**6)
    many = [RangeParameterConfig(f"m{i}", (1, 100), parameter_type="int") for i in range(3)]
    check_points_left(discrete_client(many)._experiment, 10**5)
