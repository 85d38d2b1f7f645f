"""Distributions of each kind as parameters, values as levels and back, and studies as tables."""

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.errors import SpaceError, TableError, TableWarning
from mkbo_plugins.optuna import parameter_space
from mkbo_plugins.optuna.distributions import MOST_STEPS, parameter_of, values_at
from mkbo_plugins.space.levels import as_level
from mkbo_plugins.space.parameters import Categorical, Numeric, Ordered

pytestmark = [
    pytest.mark.filterwarnings("ignore:Choices for a categorical distribution"),
    pytest.mark.filterwarnings("ignore:The distribution is specified by"),
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
]


def random_distribution(rng):
    kind = rng.choice(["float", "log", "step", "fine", "int", "int log", "int step", "choices", "numbers"])
    low = float(rng.choice([-3.0, 0.1, 7.5, 1e-4]))
    whole = int(rng.integers(1, 20))
    return {
        "float": lambda: FloatDistribution(low, low + rng.uniform(0.1, 50)),
        "log": lambda: FloatDistribution(abs(low), abs(low) * rng.uniform(2, 1e5), log=True),
        "step": lambda: FloatDistribution(low, low + rng.uniform(1, 9), step=float(rng.choice([0.1, 0.25, 0.3]))),
        "fine": lambda: FloatDistribution(low, low + 3 * MOST_STEPS, step=0.7),
        "int": lambda: IntDistribution(-whole, whole + 3),
        "int log": lambda: IntDistribution(whole, 50 * whole, log=True),
        "int step": lambda: IntDistribution(whole, whole + 70, step=int(rng.integers(2, 9))),
        "choices": lambda: CategoricalDistribution(["a", None, True, 2.5, ("b", 1)][: int(rng.integers(2, 6))]),
        "numbers": lambda: CategoricalDistribution([16, 8, 32, 64][: int(rng.integers(2, 5))]),
    }[kind]()


@pytest.mark.parametrize("seed", range(40))
def test_points_of_a_parameter_are_values_of_its_distribution_and_come_back(seed):
    rng = np.random.default_rng(seed)
    distribution = random_distribution(rng)
    parameter = parameter_of("x", distribution)
    for raw in parameter.from_unit(np.append(rng.random(30), [0.0, 1 - 1e-12])):
        level = parameter.from_raw(raw)
        (value,) = values_at(distribution, level)
        assert distribution._contains(distribution.to_internal_repr(value))
        assert distribution.to_external_repr(distribution.to_internal_repr(value)) == value
        fine = isinstance(parameter, Numeric) and distribution.step not in (None, 1)
        error = abs(parameter.to_raw(as_level(value)) - raw)
        assert error <= (distribution.step / 2 + 1e-9 if fine else 0.0)


@pytest.mark.parametrize("seed", range(10))
def test_values_of_a_distribution_are_points_of_its_parameter(seed):
    distribution = random_distribution(np.random.default_rng(seed))
    if isinstance(distribution, CategoricalDistribution):
        distribution = IntDistribution(2, 30, step=7)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed))
    parameter = parameter_of("x", distribution)
    for _ in range(20):
        value = study.ask({"x": distribution}).params["x"]
        (unit,) = parameter.to_coordinates(np.array(parameter.to_raw(value)), "unit")
        assert -1e-12 <= unit <= 1 + 1e-12
        (again,) = values_at(distribution, value)
        assert again == pytest.approx(value, rel=1e-12)


def test_values_outside_of_a_distribution_are_none():
    assert values_at(FloatDistribution(0.0, 1.0), 1.5) == []
    assert values_at(IntDistribution(1, 3), "Air") == []
    assert values_at(CategoricalDistribution([True, 0]), 1) == []
    assert values_at(CategoricalDistribution(["Air"]), "Argon") == []


def test_choices_take_the_kind_of_the_tables_parameter():
    numbers, texts = CategoricalDistribution([64, 16, 32]), CategoricalDistribution(["high", "low", "mid"])
    assert parameter_of("x", numbers, Numeric("x", 1, 100)) == Ordered("x", (16, 32, 64))
    assert parameter_of("x", numbers) == Categorical("x", (64, 16, 32))
    assert parameter_of("x", texts, Ordered("x", ("low", "mid", "high"))) == Ordered("x", ("low", "mid", "high"))
    with pytest.raises(SpaceError, match=r"'x'.*'high'.*lack \['mid'\]"):
        parameter_of("x", CategoricalDistribution(["low", "high"]), Ordered("x", ("low", "mid", "high")))
    with pytest.raises(SpaceError, match=r"'x' takes finite numbers, got 'low'.*study's choices"):
        parameter_of("x", CategoricalDistribution(["low", "high"]), Numeric("x", 1, 100))


@pytest.fixture
def study():
    study = optuna.create_study(study_name="last year", sampler=optuna.samplers.RandomSampler(seed=0))

    def objective(trial):
        a, layers = trial.suggest_float("a", 1e-3, 1.0, log=True), trial.suggest_int("layers", 1, 3)
        act = trial.suggest_categorical("act", ["relu", None])
        trial.suggest_float("constant", 2.0, 2.0)
        if trial.number == 3:
            raise optuna.TrialPruned
        return float("inf") if trial.number == 5 else np.log10(a) ** 2 + layers + (act is None)

    study.optimize(objective, n_trials=16)
    return study


def test_a_study_is_a_table(study):
    space = parameter_space(study)
    assert space == ParameterSpace.from_dict(
        {"a": (1e-3, 1.0, "log"), "layers": (1, 3, "int"), "act": ["relu", "None"]}
    )
    pruned = pytest.warns(TableWarning, match="'last year': 1 trial is left out, not being COMPLETE: 1 PRUNED")
    with pruned, pytest.raises(TableError, match=r"'value'.*trial 5 of the study 'last year'.*missing='drop'"):
        pretrain(study, space=space, trainer="gp")
    with pytest.warns(TableWarning, match="1 PRUNED"), pytest.warns(match="trial 5 of the study"):
        cov = pretrain(study, space=space, trainer="gp", missing="drop")
    done = [trial for trial in study.trials if trial.number not in (3, 5)]
    frame = np.array([[as_level(trial.params[name]) for name in space.names] for trial in done], dtype=object)
    by_hand = pretrain((frame, [trial.value for trial in done]), "value", space, trainer="gp")
    assert cov.fingerprint == by_hand.fingerprint
    assert parameter_space(done[-1].distributions) == space


def test_an_objective_of_several_is_named(study):
    several = optuna.create_study(directions=["minimize", "maximize"], sampler=optuna.samplers.RandomSampler(seed=0))
    several.optimize(lambda trial: (trial.suggest_float("a", 0, 1) ** 2, trial.number), n_trials=6)
    space = parameter_space(several)
    with pytest.raises(TableError, match=r"2 objectives.*values_0"):
        pretrain(several, space=space)
    assert pretrain(several, "values_0", space, trainer="gp").record.target == "values_0"
    several.set_metric_names(["loss", "speed"])
    assert pretrain(several, "loss", space, trainer="gp").record.target == "loss"
    with pytest.raises(TableError, match=r"'los' is no objective.*did you mean 'loss'"):
        pretrain(several, "los", space)


def test_parameters_of_some_trials_are_missing_in_others():
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))

    def objective(trial):
        a = trial.suggest_float("a", 0, 1)
        return a + (trial.suggest_float("b", 0, 1) if trial.number % 3 else 0.0)

    study.optimize(objective, n_trials=9)
    with pytest.raises(TableError, match=r"\['b'\], trials \[0, 3, 6\] of the study"):
        pretrain(study, space=parameter_space(study))
    assert pretrain(study, space=ParameterSpace.from_dict({"a": (0, 1)}), trainer="gp").space.names == ("a",)


def test_studies_that_are_no_tables_say_why():
    study = optuna.create_study()
    space = ParameterSpace.from_dict({"a": (0, 1)})
    with pytest.raises(TableError, match="no completed trial"):
        pretrain(study, space=space)
    with pytest.raises(SpaceError, match="no completed trial"):
        parameter_space(study)
    with pytest.raises(SpaceError, match="distributions must be a mapping"):
        parameter_space({"a": (0, 1)})
    study.tell(study.ask({"value": FloatDistribution(0, 1)}), 1.0)
    with pytest.raises(TableError, match="also a parameter of the study"):
        pretrain(study, space=space)


def test_steps_have_no_rounding_of_binary_numbers():
    assert parameter_of("x", FloatDistribution(0.1, 0.8, step=0.1)).levels == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    assert parameter_of("x", IntDistribution(16, 64, step=16)).levels == (16, 32, 48, 64)
