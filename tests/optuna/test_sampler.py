"""The sampler: what it proposes is what the covariance says, whatever a study's ranges, branches and workers are."""

import pickle

import numpy as np
import optuna
import pytest
import torch
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from mkbo_plugins import CombinedCovariance, ParameterSpace, pretrain
from mkbo_plugins.botorch import pretrained_gp
from mkbo_plugins.botorch.suggest import suggest
from mkbo_plugins.errors import MkboError, SpaceError, SpaceWarning, TableError, TableWarning
from mkbo_plugins.optuna import PretrainedSampler
from mkbo_plugins.optuna.searchspace import SearchSpace
from mkbo_plugins.optuna.trials import StudyTrials
from mkbo_plugins.trials import Trials
from tests.optuna.conftest import DISTRIBUTIONS, PLANE, objective, with_trials


def study_with(sampler, direction="maximize", **kwargs):
    return optuna.create_study(direction=direction, sampler=sampler, **kwargs)


def values(study):
    return np.array([trial.value for trial in study.trials])


def plane(study, n):
    """Add trials of the plane, whose value is that of its table."""
    study.optimize(
        lambda trial: 2 * trial.suggest_float("a", 0, 1) + np.sin(3 * trial.suggest_float("b", 0, 1)), n_trials=n
    )
    return study


def random_distributions(rng):
    """Return random distributions for parameters of the mixed table, and the values of those kept constant."""
    low, step = rng.uniform(100, 900), rng.uniform(5, 90)
    options = {
        "power": [
            FloatDistribution(low, 9 * low),
            FloatDistribution(low, 9 * low, log=True),
            FloatDistribution(low, low + 40 * step, step=step),
            IntDistribution(100, 5000, step=700),
            CategoricalDistribution([low, 3 * low, 2 * low]),
        ],
        "rate": [FloatDistribution(1e-4, 1e-1, log=True), FloatDistribution(1e-4, 5e-2), FloatDistribution(0.01, 0.01)],
        "layers": [
            IntDistribution(1, 6),
            IntDistribution(1, 9, log=True),
            IntDistribution(1, 5, step=2),
            CategoricalDistribution([4, 2, 1]),
            IntDistribution(2, 2),
        ],
        "gas": [
            CategoricalDistribution(levels) for levels in (["Air", "Argon"], ["Nitrogen", "Air", "Argon"], ["Air"])
        ],
    }
    fixed = {"power": 900.0, "rate": 0.01, "layers": 3, "gas": "Air"}
    kept = [name for name in options if rng.random() < 0.2][:3]
    chosen = {name: of_name[rng.integers(len(of_name))] for name, of_name in options.items() if name not in kept}
    chosen["extra"] = FloatDistribution(-3.0, 4.0)
    names = rng.permutation(list(chosen))
    return {str(name): chosen[name] for name in names}, {name: fixed[name] for name in kept}


@pytest.mark.filterwarnings("ignore:The distribution is specified by")
@pytest.mark.parametrize("seed", range(20))
def test_gram_matrices_equal_those_in_raw_units_over_random_spaces(cov, seed):
    distributions, fixed = random_distributions(np.random.default_rng(seed))
    study = study_with(optuna.samplers.RandomSampler(seed))
    for i in range(7):
        study.tell(study.ask(distributions), float(i))
    space = SearchSpace.of(cov.space, distributions, fixed)
    trials = StudyTrials.of(study.trials, space).trials
    X, Y = torch.tensor(trials.X), torch.tensor(trials.y)[:, None]
    records = [{**fixed, **trial.params} for trial in study.trials]
    for form in ("base", "reweighted", "normalised"):
        kernel = pretrained_gp(cov, X, Y, form, space=space.target, fixed=space.fixed).eval().covar_module
        expected = cov.gram(records, form=form) / (cov.fixed.mean_diagonal if form == "reweighted" else 1.0)
        scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected))).max()
        # Parameters that the table lacks are left to the stock part, which these forms do not have, but for the extra.
        kernel.stock.lengthscale = torch.full_like(kernel.stock.lengthscale, 1e8)
        gram = kernel(X).to_dense().detach().numpy()
        assert np.abs(gram - expected).max() <= 1e-10 * scale, form


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_trial_is_what_botorch_suggests(small_cov, sign):
    sampler = PretrainedSampler(small_cov, direction="same" if sign > 0 else "opposite", seed=4)
    study = with_trials(study_with(sampler, "maximize" if sign > 0 else "minimize"), small_cov, 8, sign)
    trial = study.ask(DISTRIBUTIONS)
    space = SearchSpace.of(small_cov.space, DISTRIBUTIONS, {}).target
    points = [{**t.params, "tip": str(t.params["tip"])} for t in study.trials[:8]]
    by_hand = Trials(space.to_raw(points), values(study)[:8].astype(float), np.empty((0, 5)))
    seed = int(np.random.SeedSequence([4, 8]).generate_state(1)[0])
    (expected,) = suggest(small_cov, by_hand, space=space, minimise=sign < 0, direction="same", seed=seed).suggestions
    assert {**trial.params, "tip": str(trial.params["tip"])} == dict(expected.point)
    assert [type(trial.params[name]) for name in ("power", "rate", "layers")] == [float, float, int]
    assert trial.params["power"] % 50 == 0


def test_small_values_are_found_as_large_ones_are(small_cov):
    both = []
    for direction, sign, word in (("maximize", 1.0, "same"), ("minimize", -1.0, "opposite")):
        study = study_with(PretrainedSampler(small_cov, direction=word, seed=0, initial_trials=3), direction)
        study.optimize(objective(small_cov, sign), n_trials=6)
        both.append(study)
    assert [trial.params for trial in both[0].trials] == [trial.params for trial in both[1].trials]
    random = with_trials(study_with(None), small_cov, 30)
    assert both[0].best_value > np.quantile(values(random), 0.9)


def test_first_trials_are_the_tables(plane_cov):
    for direction, word, good in [
        ("maximize", "same", True),
        ("minimize", "same", True),
        ("maximize", "opposite", False),
    ]:
        for known in (None, PLANE):
            sampler = PretrainedSampler(plane_cov, direction=word, distributions=known, seed=1)
            study = plane(study_with(sampler, direction), 3)
            better = values(study) if direction == "maximize" else -values(study)
            middle = 2.0 if direction == "maximize" else -2.0
            assert (better[0] > middle) == good, (direction, word, known)


def test_values_of_the_tables_space_beyond_a_range_are_the_independent_samplers(plane_cov):
    sampler = PretrainedSampler(plane_cov, direction="same", seed=1)
    study = study_with(sampler)
    trial = study.ask({"a": FloatDistribution(0.0, 0.2), "b": FloatDistribution(0.0, 1.0), "c": IntDistribution(1, 4)})
    first = study.trials[0].system_attrs["mkbo:first_look"]
    assert first["a"] > 0.2 >= trial.params["a"]
    assert trial.params["b"] == first["b"]


def test_seeds_numbers_and_trials_decide_alone(small_cov, tmp_path):
    def run(sampler, storage, n):
        study = study_with(sampler, storage=storage, study_name="a", load_if_exists=True)
        study.optimize(objective(small_cov), n_trials=n)
        return study

    def sampler(seed=3):
        return PretrainedSampler(small_cov, direction="same", seed=seed, initial_trials=3)

    whole = run(sampler(), None, 6)
    address = f"sqlite:///{tmp_path / 'study.db'}"
    pickled = pickle.dumps(run(sampler(), address, 3).sampler)
    resumed = run(pickle.loads(pickled), address, 3)
    assert [trial.params for trial in resumed.trials] == [trial.params for trial in whole.trials]
    assert run(sampler(4), None, 1).trials[0].params != whole.trials[0].params
    assert PretrainedSampler(small_cov).seed != PretrainedSampler(small_cov).seed


def test_running_and_enqueued_trials_are_pending(plane_cov):
    sampler = PretrainedSampler(plane_cov, direction="same", distributions=PLANE, seed=0)
    study = plane(study_with(sampler), 6)
    asked = [study.ask(PLANE).params for _ in range(3)]
    study.enqueue_trial({"a": 0.97, "b": 0.55})
    beside = StudyTrials.of(study.trials, SearchSpace.of(plane_cov.space, PLANE, {})).trials
    assert [{"a": a, "b": b} for a, b in beside.pending] == [*asked, {"a": 0.97, "b": 0.55}]
    assert min(np.hypot(p["a"] - q["a"], p["b"] - q["b"]) for p in asked for q in asked if p is not q) > 0.01


def test_other_processes_know_a_proposal_before_it_is_used(plane_cov):
    study = plane(study_with(PretrainedSampler(plane_cov, seed=0, distributions=PLANE)), 2)
    trial = study.ask()
    first = trial.suggest_float("a", 0, 1)
    (pending,) = StudyTrials.of(study.trials, SearchSpace.of(plane_cov.space, PLANE, {})).trials.pending
    assert pending[0] == first
    assert pending[1] == trial.suggest_float("b", 0, 1)


def test_workers_that_search_at_the_same_time_do_not_meet(plane_cov):
    for known in (2, 6):
        study = plane(study_with(PretrainedSampler(plane_cov, direction="same", distributions=PLANE, seed=0)), known)
        searching = [study.ask() for _ in range(3)]
        proposals = []
        for trial in searching:
            frozen = study.trials[trial.number]
            relative = study.sampler.infer_relative_search_space(study, frozen)
            proposals.append(study.sampler.sample_relative(study, frozen, relative))
            for key in ("mkbo:proposed", "mkbo:first_look"):  # as if the others had not looked since
                study._storage.set_trial_system_attr(trial._trial_id, key, None)
        distances = [np.hypot(p["a"] - q["a"], p["b"] - q["b"]) for p in proposals for q in proposals if p is not q]
        assert min(distances) > 0.005


def test_enqueued_values_are_kept_and_others_go_with_them(plane_cov):
    sampler = PretrainedSampler(plane_cov, direction="same", distributions=PLANE, initial_trials=3, seed=0)
    study = plane(study_with(sampler), 6)
    study.enqueue_trial({"a": 0.25})
    study.enqueue_trial({"a": 0.125, "b": 0.875})
    plane(study, 2)
    assert study.trials[6].params["a"] == study.trials[6].system_attrs["mkbo:proposed"]["a"] == 0.25
    assert 0.3 < study.trials[6].params["b"] < 0.8
    assert study.trials[7].params == {"a": 0.125, "b": 0.875}
    assert "mkbo:proposed" not in study.trials[7].system_attrs


def finished(state, point, value=None, **kwargs):
    return create_trial(state=state, params=point, distributions=PLANE, value=value, **kwargs)


def test_failed_pruned_and_infinite_trials_have_no_value(plane_cov):
    study = study_with(PretrainedSampler(plane_cov, distributions=PLANE, seed=0))
    point = {"a": 0.9, "b": 0.5}
    study.add_trials(
        [
            finished(TrialState.COMPLETE, {"a": 0.1, "b": 0.2}, 1.5),
            finished(TrialState.FAIL, {**point, "a": 0.7}),
            finished(TrialState.PRUNED, {**point, "a": 0.8}, intermediate_values={0: 100.0}),
            finished(TrialState.PRUNED, {**point, "a": 0.6}, 100.0, intermediate_values={0: 100.0}),
            finished(TrialState.COMPLETE, point, float("inf")),
        ]
    )
    trials = StudyTrials.of(study.trials, SearchSpace.of(plane_cov.space, PLANE, {})).trials
    assert trials.y.tolist() == [1.5]
    assert trials.X.tolist() == [[0.1, 0.2]]
    assert trials.failed[:, 0].tolist() == [0.7, 0.8, 0.6, 0.9]


@pytest.mark.parametrize("state", [TrialState.FAIL, TrialState.PRUNED])
def test_trials_keep_away_from_where_others_gave_nothing(plane_cov, state):
    def proposed(gave_nothing):
        sampler = PretrainedSampler(plane_cov, direction="same", distributions=PLANE, initial_trials=3, seed=0)
        study = plane(study_with(sampler), 4)
        study.add_trials([finished(state, {"a": 1.0, "b": b}) for b in gave_nothing])
        return study.ask(PLANE).params

    assert proposed([])["a"] > 0.9
    assert proposed([0.3, 0.4, 0.5, 0.6, 0.7])["a"] < proposed([])["a"] - 0.1


def test_a_pruning_study_runs(plane_cov):
    pruners = (optuna.pruners.MedianPruner(n_startup_trials=2), optuna.pruners.HyperbandPruner(1, 4, 2))

    def objective(trial):
        value = trial.suggest_float("a", 0, 1) + trial.suggest_float("b", 0, 1)
        for step in range(4):
            trial.report(value + step, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    for pruner in pruners:
        # Hyperband draws brackets by the study's name, which is a random one otherwise.
        sampler = PretrainedSampler(plane_cov, initial_trials=3, seed=0)
        study = study_with(sampler, pruner=pruner, study_name="pruned")
        study.optimize(objective, n_trials=8)
        assert {trial.state for trial in study.trials} == {TrialState.COMPLETE, TrialState.PRUNED}


def branches(trial):
    """Return a value of a study whose one branch has the table's parameters."""
    depth = trial.suggest_int("depth", 1, 3)
    if trial.suggest_categorical("model", ["plane", "other"]) == "other":
        return trial.suggest_float("c", 0, 1) + depth
    extra = trial.suggest_float("own", 0, 1)
    return trial.suggest_float("a", 0, 1) + trial.suggest_float("b", 0, 1) - extra


def test_of_branches_the_one_with_the_tables_parameters_is_modelled(plane_cov):
    study = study_with(PretrainedSampler(plane_cov, seed=0, initial_trials=3))
    study.enqueue_trial({"model": "plane"})
    study.enqueue_trial({"model": "other"})
    with pytest.warns(SpaceWarning, match=r"'(model|depth|c)' is left to TPESampler.*distributions="):
        study.optimize(branches, n_trials=10)
    models = [trial.params["model"] for trial in study.trials]
    assert set(models) == {"plane", "other"}
    for trial in study.trials[2:]:
        proposed = trial.system_attrs["mkbo:proposed"]
        assert set(proposed) == {"a", "b", "own"}
        if trial.params["model"] == "plane":
            assert proposed == {name: trial.params[name] for name in proposed}


def test_distributions_say_which_parameters_are_proposed(plane_cov):
    sampler = PretrainedSampler(plane_cov, seed=0, distributions={**PLANE, "own": FloatDistribution(0, 1)})
    study = study_with(sampler)
    study.enqueue_trial({"model": "other"})
    study.optimize(branches, n_trials=3)
    assert all(set(trial.system_attrs["mkbo:proposed"]) == {"a", "b", "own"} for trial in study.trials)


def test_parameters_that_appear_later_are_the_independent_samplers_at_first(plane_cov):
    study = plane(
        study_with(PretrainedSampler(plane_cov, seed=0, independent_sampler=optuna.samplers.RandomSampler(0))), 3
    )
    later = {**PLANE, "late": FloatDistribution(0, 1)}
    with pytest.warns(SpaceWarning, match="'late' is left to RandomSampler, since it is not in all trials"):
        trial = study.ask(later)
    assert set(study.trials[3].system_attrs["mkbo:proposed"]) == {"a", "b"}
    study.tell(trial, 1.0)


def test_trials_of_other_workers_that_go_on_tell_of_the_tables_parameters_alone(plane_cov):
    halves = {"a": FloatDistribution(0.5, 1.0), "b": FloatDistribution(0.0, 0.5)}
    study = study_with(PretrainedSampler(plane_cov, direction="same", seed=0))
    study.ask(halves)  # its other parameters are to come
    trial = study.ask({**halves, "c": FloatDistribution(0, 1)})
    assert set(study.trials[1].system_attrs["mkbo:first_look"]) == {"a", "b"}
    assert halves["a"]._contains(trial.params["a"])
    assert halves["b"]._contains(trial.params["b"])


@pytest.mark.parametrize("before", [0, 3])
def test_trials_that_others_end_meanwhile_do_not_change_what_is_proposed(plane_cov, before):
    class Interrupted(PretrainedSampler):
        def infer_relative_search_space(self, study, trial):
            found = super().infer_relative_search_space(study, trial)
            study.add_trial(
                create_trial(
                    params={"a": 0.5, "b": 0.5, "c": 1}, distributions=more, value=0.0, state=TrialState.COMPLETE
                )
            )
            return found

    more = {**PLANE, "c": IntDistribution(1, 3)}
    study = plane(study_with(PretrainedSampler(plane_cov, direction="same", seed=0)), before)
    study.sampler = Interrupted(plane_cov, direction="same", seed=0)
    trial = study.ask(PLANE)
    proposed = study.trials[trial.number].system_attrs["mkbo:proposed" if before else "mkbo:first_look"]
    assert proposed == trial.params


def test_ranges_may_change_on_the_way_and_values_beyond_are_sampled_anew(plane_cov):
    study = plane(study_with(PretrainedSampler(plane_cov, direction="same", seed=0)), 4)
    narrow = {**PLANE, "a": FloatDistribution(0.0, 0.1)}
    with pytest.warns(SpaceWarning, match="'a' is left to TPESampler, since its range differs between trials"):
        trial = study.ask(narrow)
    study.tell(trial, 0.0)
    assert study.ask(narrow).params["a"] <= 0.1
    trials = StudyTrials.of(study.trials, SearchSpace.of(plane_cov.space, narrow, {})).trials
    assert len(trials.y) == 5
    assert trials.X[:, 0].max() > 0.1


def test_a_study_that_lacks_parameters_is_refused_in_words(plane_cov):
    study = study_with(PretrainedSampler(plane_cov, seed=0))
    study.tell(study.ask({"a": FloatDistribution(0, 1), "bb": FloatDistribution(0, 1)}), 1.0)
    with pytest.raises(SpaceError, match=r"study, with \['a', 'bb'\], lacks.*\['b'\].*fixed=.*distributions="):
        study.ask(PLANE)
    with pytest.raises(SpaceError, match=r"lacks.*\['b'\]"):
        PretrainedSampler(plane_cov, distributions={"a": FloatDistribution(0, 1)})
    study.sampler = PretrainedSampler(plane_cov, seed=0, fixed={"b": 0.5})
    assert set(study.ask({"a": FloatDistribution(0, 1), "bb": FloatDistribution(0, 1)}).params) == {"a", "bb"}


def test_parameters_of_a_single_value_are_constant(plane_cov):
    single = {**PLANE, "b": FloatDistribution(0.5, 0.5), "mode": CategoricalDistribution(["x"])}
    study = study_with(PretrainedSampler(plane_cov, direction="same", initial_trials=3, seed=0))
    for _ in range(5):
        trial = study.ask(single)
        study.tell(trial, 2 * trial.params["a"])
    assert trial.params["b"] == 0.5
    assert study.best_params["a"] > 0.8


def test_kinds_that_do_not_fit_are_named(cov):
    wrong = {**DISTRIBUTIONS, "gas": FloatDistribution(0, 1)}
    with pytest.raises(SpaceError, match=r"'gas' has the levels .* in the table but is numeric"):
        study_with(PretrainedSampler(cov, distributions=wrong)).ask(wrong)
    new = {**DISTRIBUTIONS, "gas": CategoricalDistribution(["Helium", "Air"])}
    with pytest.warns(TableWarning, match=r"'gas'.*nothing on \['Helium'\]"):
        assert study_with(PretrainedSampler(cov, distributions=new, seed=0)).ask(new).params["gas"] in ("Helium", "Air")


def test_constraints_are_kept_to(plane_cov):
    def objective(trial):
        a, b = trial.suggest_float("a", 0, 1), trial.suggest_float("b", 0, 1)
        trial.set_user_attr("heat", a - 0.5)
        return 2 * a + np.sin(3 * b)

    def feasible(constraints_func):
        sampler = PretrainedSampler(plane_cov, initial_trials=3, seed=0, constraints_func=constraints_func)
        study = study_with(sampler)
        study.optimize(objective, n_trials=9)
        return [trial.user_attrs["heat"] <= 0 for trial in study.trials[4:]], study

    kept, study = feasible(lambda trial: (trial.user_attrs["heat"], -1.0))
    free, _ = feasible(None)
    assert sum(kept) >= 3
    assert sum(free) <= 1
    study.add_trial(finished(TrialState.COMPLETE, {"a": 0.0, "b": 0.5}, 9.0))
    known = StudyTrials.of(study.trials, SearchSpace.of(plane_cov.space, PLANE, {}))
    assert [len(one.y) for one in known.required] == [9, 9]
    assert [np.isnan(one.of_trials).sum() for one in known.required] == [1, 1]
    study.sampler.constraints_func = lambda trial: (1.0,)
    study.tell(study.ask(PLANE), 1.0)
    with pytest.raises(TableError, match="1 values for some trials and 2 for others"):
        study.ask(PLANE)


def test_constraints_of_the_tables_space_are_kept():
    space = ParameterSpace.from_dict(
        {"a": (0.0, 1.0), "b": (0.0, 1.0)}, constraints=[{"sum": ["a", "b"], "at_most": 0.8}]
    )
    X = space.sobol(16)
    cov = pretrain((X, X[:, 0] + X[:, 1]), space=space, C=5.0, epsilon=0.1, sigma=2.0, progress=False)
    study = plane(study_with(PretrainedSampler(cov, direction="same", initial_trials=3, seed=0)), 6)
    assert all(trial.params["a"] + trial.params["b"] <= 0.8 + 1e-9 for trial in study.trials)


def test_a_space_that_is_used_up_goes_on_with_the_independent_sampler(plane_cov):
    small = {"a": FloatDistribution(0, 1, step=0.5), "b": CategoricalDistribution([0.0, 1.0])}
    study = study_with(PretrainedSampler(plane_cov, seed=0, distributions=small))
    for i in range(6):
        study.tell(study.ask(small), float(i % 4))
    assert len({tuple(trial.params.values()) for trial in study.trials}) == 6
    with pytest.warns(SpaceWarning, match="TPESampler proposes the trial"):
        study.ask(small)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_sampler_around_it_may_fix_parameters(plane_cov):
    study = plane(study_with(PretrainedSampler(plane_cov, direction="same", initial_trials=3, seed=0)), 4)
    study.sampler = optuna.samplers.PartialFixedSampler({"a": 0.25}, study.sampler)
    plane(study, 2)
    for trial in study.trials[4:]:
        assert trial.params == {"a": 0.25, "b": trial.system_attrs["mkbo:proposed"]["b"]}


def test_several_tables_have_a_direction_each(plane_cov):
    other = pretrain(
        (plane_cov.space.sobol(12, 1), plane_cov.space.sobol(12, 1)[:, 0]), space=plane_cov.space, trainer="gp"
    )
    both = CombinedCovariance((plane_cov, other))
    for direction, large in (("maximize", True), ("minimize", False)):
        sampler = PretrainedSampler(both, direction=["unknown", "same"], initial_trials=3, seed=0)
        study = plane(study_with(sampler, direction), 4)
        assert (study.trials[0].params["a"] > 0.5) == large
    with pytest.raises(MkboError, match="one for each of 2 tables"):
        PretrainedSampler(both, direction=["same"])


def test_threads_share_a_sampler(plane_cov):
    study = study_with(PretrainedSampler(plane_cov, direction="same", distributions=PLANE, initial_trials=3, seed=0))
    study.optimize(lambda trial: trial.suggest_float("a", 0, 1) + trial.suggest_float("b", 0, 1), n_trials=6, n_jobs=2)
    assert len({tuple(trial.params.values()) for trial in study.trials}) == 6


def test_advice_is_the_next_trial_with_a_reason_and_a_verdict(plane_cov):
    study = plane(study_with(PretrainedSampler(plane_cov, seed=0)), 10)
    advice = study.sampler.advise(study)
    assert advice.verdict is not None
    assert len(study.trials) == 10
    state, suggestion, scales, verdict = str(advice).splitlines()
    assert state.startswith(f"{advice.measured} experiments measured, 0 pending; best outcome ")
    assert suggestion.startswith("1: ")
    assert suggestion.endswith(advice.suggestions[0].why)
    assert "output_scale weighs the covariance without the table; moment_scale weighs" in scales
    assert verdict == f"Does the table help? {advice.verdict}"
    assert dict(advice.suggestions[0].point) == study.ask(PLANE).params


def test_several_objectives_are_refused(plane_cov):
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=PretrainedSampler(plane_cov))
    with pytest.raises(MkboError, match=r"2 objectives.*mkbo_plugins\.ax"):
        study.ask(PLANE)
