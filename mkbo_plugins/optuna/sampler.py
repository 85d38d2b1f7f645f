"""A sampler for Optuna's studies with a pre-trained covariance."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.samplers._base import _process_constraints_after_trial
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from mkbo_plugins.botorch.suggest import LARGEST_SEED, suggest
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.core.gp.bayes_factor import FEWEST
from mkbo_plugins.covariance.base import Covariance, check_covariance
from mkbo_plugins.covariance.directions import Directions, turned
from mkbo_plugins.covariance.pretrained import trained
from mkbo_plugins.errors import MkboError, NothingLeftError, SpaceWarning
from mkbo_plugins.optuna.distributions import Distributions, checked, values_at
from mkbo_plugins.optuna.searchspace import SearchSpace, common_distributions
from mkbo_plugins.optuna.trials import FIRST_LOOK, PROPOSED, StudyTrials, enqueued, is_unknown
from mkbo_plugins.space.levels import as_level
from mkbo_plugins.space.matching import check_mapping
from mkbo_plugins.space.parameters import Level
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.suggestion.advice import Advice
from mkbo_plugins.suggestion.candidates import SPREAD

MOST_AHEAD = 8
"""Trials of other workers, begun before and not proposed yet, that are thought of."""


class PretrainedSampler(BaseSampler):
    """Proposes trials by noisy expected improvement under a pre-trained covariance, first ones by its table.

    Parameters are matched to the table's by name; bounds, steps, scales, order and levels may differ. Those that the
    table lacks are left to the stock covariance. Nothing is kept in the sampler but what it is made with: all it knows
    of trials it reads from the study's storage, so that studies go on, and workers share one.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    form
        Name of the form, as `mkbo_plugins.core.forms` describes them; ``"stock"`` turns the covariance off and leaves
        BoTorch's own.
    initial_trials
        Number of completed trials, at least three, from which on there is a model. Those before are designed from the
        table if its direction is known, or else fill the space.
    direction
        ``"same"`` if a large table target goes with a large value of the objective, ``"opposite"`` if with a small one,
        ``"unknown"`` if neither is known; of several tables, one word for all or one for each. As in Ax, and unlike
        `PretrainedCovariance.starting_points`, it is about the value and not about what makes a good trial, which the
        study knows: if the table's target is a loss and so is the objective, ``"same"``. With ``form="stock"``, it must
        be unknown.
    fixed
        Values of the table's parameters that the study does not have, by name. One that has a single value in the study
        is found there.
    distributions
        Distributions of the parameters to propose together, by name, as `Study.ask` takes them; all of the table's must
        be among them. None means what completed trials have, see Notes.
    independent_sampler
        Sampler of all other parameters; None is a `TPESampler` with the same seed.
    constraints_func
        As for Optuna's samplers: a function from a trial to values that must be at most 0. Each has BoTorch's own
        model, and improvement counts where all keep to it. Trials without such values count as meeting none.
    seed
        Seed; None draws one. With a seed, a trial depends on its number and the trials it knows of alone, also in a
        study that goes on or with a sampler unpickled.

    Raises
    ------
    MkboError
        If an argument is not as described; and while a study runs, if it has several objectives, or completed trials
        but none with all of the table's parameters.

    Warns
    -----
    SpaceWarning
        If a parameter is left to the independent sampler that `distributions` does not leave to it, or all settings of
        a space have been tried, so that the whole trial is.
    TableWarning
        As `mkbo_plugins.botorch.pretrained_gp`.

    Notes
    -----
    Optuna tells no sampler beforehand which parameters there are. Those are proposed together that all completed trials
    with the table's parameters have, with the range of the latest of them. In a study whose parameters depend on one
    another, they are the ones of the branch that the table is about: those that other completed trials have as well,
    among them what decides on the branch, are left to the independent sampler, and so are those that appear later, or
    in some trials only. Before any trial is known, the table's own parameters are proposed, of which the values that
    lie in the study's ranges are used.

    Failed trials make others near them less attractive, as `mkbo_plugins.core.gp.feasibility.log_success` says, and so
    do pruned ones: their last intermediate value is not the objective's and never taken for it. Trials with an infinite
    value are failed ones. Running and enqueued trials are pending: their outcomes are averaged over. While workers
    search at the same time, each leaves as many points to the others as have begun before it. A worker that was killed
    leaves a running trial behind, pending to all others, until a heartbeat of the storage lets Optuna fail it.
    """

    def __init__(
        self,
        cov: Covariance,
        form: str = DEFAULT_FORM,
        *,
        initial_trials: int = 5,
        direction: Directions = "unknown",
        fixed: Mapping[str, Any] | None = None,
        distributions: Distributions | None = None,
        independent_sampler: BaseSampler | None = None,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        seed: int | None = None,
    ) -> None:
        check_covariance(cov)
        self.cov, self.form, self.direction = trained(cov), form, direction
        cov.form(form)
        cov.is_directed(direction, form)
        _check_whole("initial_trials", initial_trials, FEWEST, LARGEST_SEED)
        if seed is not None:
            _check_whole("seed", seed, 0, LARGEST_SEED)
        check_mapping("fixed", fixed)
        if independent_sampler is not None and not isinstance(independent_sampler, BaseSampler):
            raise MkboError(
                f"independent_sampler must be a sampler of Optuna, got {type(independent_sampler).__name__}"
            )
        if constraints_func is not None and not callable(constraints_func):
            raise MkboError(f"constraints_func must be a function of a trial, got {type(constraints_func).__name__}")
        self.initial_trials = int(initial_trials)
        self.fixed = dict(fixed or {})
        self.distributions = None if distributions is None else dict(checked(distributions))
        if self.distributions is not None:
            SearchSpace.of(cov.space, self.distributions, self.fixed)
        self.independent_sampler = independent_sampler or TPESampler(seed=seed)
        self.constraints_func = constraints_func
        self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else int(seed)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the distributions of the parameters to propose together; none before any trial is known.

        Raises
        ------
        MkboError
            If the study has several objectives, or completed trials but none with all of the table's parameters.
        """
        _check_objective(study)
        return dict(self._distributions(_known_at_first(study, trial)))

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return values of the parameters to propose together, which are stored with the trial.

        Raises
        ------
        MkboError
            As `mkbo_plugins.botorch.suggest.suggest`.
        """
        # A sampler around this one may have taken parameters out of the search space.
        others = _known_at_first(study, trial)
        distributions = self._distributions(others)
        if distributions and all(distribution.single() for distribution in distributions.values()):
            return {}
        space = self._space(distributions)
        if set(space.target.names) <= enqueued(trial).keys():
            return {}
        try:
            advice = self._advice(study, trial, space, judged=False)
        except NothingLeftError as error:
            warnings.warn(f"{error}: {self._other} proposes the trial", SpaceWarning, stacklevel=2)
            return {}
        point = dict(advice.suggestions[0].point)
        settled = any(distributions.keys() <= other.distributions.keys() for other in _completed(others))
        key = PROPOSED if distributions and (settled or self.distributions is not None) else FIRST_LOOK
        study._storage.set_trial_system_attr(trial._trial_id, key, point)
        return {name: value for name, value in space.values(point).items() if name in search_space}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a value of another parameter, by the independent sampler.

        Raises
        ------
        MkboError
            If the study has several objectives.
        """
        _check_objective(study)
        first: dict[str, Level] = trial.system_attrs.get(FIRST_LOOK, {})
        if param_name in first:
            for value in values_at(param_distribution, first[param_name]):
                return value
        if self.distributions is None and not first:
            proposed = param_name in trial.system_attrs.get(PROPOSED, {})
            reason = "its range differs between trials" if proposed else "it is not in all trials with the table's ones"
            warnings.warn(
                f"parameter {param_name!r} is left to {self._other}, since {reason}; if that is meant, say which "
                "parameters are proposed together, distributions={name: distribution}",
                SpaceWarning,
                stacklevel=2,
            )
        return self.independent_sampler.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Prepare the independent sampler."""
        self.independent_sampler.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Store the values of constraints."""
        if self.constraints_func is not None:
            _process_constraints_after_trial(self.constraints_func, study, trial, state)
        self.independent_sampler.after_trial(study, trial, state, values)

    def reseed_rng(self) -> None:
        """Give the independent sampler another seed; trials of other numbers have others anyway."""
        self.independent_sampler.reseed_rng()

    def advise(self, study: Study) -> Advice:
        """Return what would be proposed next, why, and whether the table helps; the study stays as it is.

        Raises
        ------
        MkboError
            As `infer_relative_search_space` and `mkbo_plugins.botorch.suggest.suggest`.
        """
        trial = FrozenTrial(
            number=len(study.get_trials(deepcopy=False)),
            state=TrialState.RUNNING,
            value=None,
            datetime_start=None,
            datetime_complete=None,
            params={},
            distributions={},
            user_attrs={},
            system_attrs={},
            intermediate_values={},
            trial_id=-1,
        )
        _check_objective(study)
        space = self._space(self._distributions(_others(study, trial)))
        return self._advice(study, trial, space, judged=True)

    @property
    def _other(self) -> str:
        return type(self.independent_sampler).__name__

    def _distributions(self, trials: Sequence[FrozenTrial]) -> Distributions:
        if self.distributions is not None:
            return self.distributions
        found = common_distributions(trials, set(self.cov.space.names) - set(self.fixed))
        completed = _completed(trials)
        if not found and completed:
            SearchSpace.of(self.cov.space, completed[-1].distributions, self.fixed)
        return found

    def _space(self, distributions: Distributions) -> SearchSpace:
        if not distributions:
            return SearchSpace.of_table(self.cov.space, self.fixed)
        return SearchSpace.of(self.cov.space, distributions, self.fixed)

    def _advice(self, study: Study, trial: FrozenTrial, space: SearchSpace, judged: bool) -> Advice:
        others = _others(study, trial)
        known = StudyTrials.of(others, space)
        ahead = sum(is_unknown(other) and other.number < trial.number for other in others)
        minimise = study.directions[0] == StudyDirection.MINIMIZE
        seed = int(np.random.SeedSequence([self.seed, trial.number]).generate_state(1)[0])
        advice = suggest(
            self.cov,
            known.trials,
            1 + min(ahead, MOST_AHEAD),
            space=space.target,
            fixed=space.fixed,
            candidates=_with_enqueued(space.target, enqueued(trial), seed),
            minimise=minimise,
            form=self.form,
            direction=turned(self.direction) if minimise else self.direction,
            required=known.required if self.constraints_func is not None else (),
            initial=self.initial_trials,
            judged=judged,
            seed=seed,
        )
        # Workers that search at the same time know the same, and would all find the same best point.
        return replace(advice, suggestions=advice.suggestions[-1:])


def _check_objective(study: Study) -> None:
    if len(study.directions) > 1:
        raise MkboError(
            f"the study has {len(study.directions)} objectives, and PretrainedSampler proposes trials for one; "
            "optimise one of them here, or several with mkbo_plugins.ax"
        )


def _others(study: Study, trial: FrozenTrial) -> list[FrozenTrial]:
    return [other for other in study.get_trials(deepcopy=False) if other.number != trial.number]


def _known_at_first(study: Study, trial: FrozenTrial) -> list[FrozenTrial]:
    """Return the other trials as they were when this one was begun, whatever other workers have done since."""
    return [other for other in study._get_trials(deepcopy=False, use_cache=True) if other.number != trial.number]


def _completed(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    return [trial for trial in trials if trial.state == TrialState.COMPLETE]


def _with_enqueued(space: ParameterSpace, values: Mapping[str, Any], seed: int) -> Float[np.ndarray, "M d"] | None:
    """Return points, (M, d), at which parameters have the values that a trial was enqueued with; None if it was not."""
    given = {name: as_level(value) for name, value in values.items() if name in space.names}
    if not given:
        return None
    points = space.sobol(SPREAD, seed)
    for name, level in given.items():
        points[:, space.names.index(name)] = space[name].to_raw(level)
    return np.unique(points, axis=0)


def _check_whole(name: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise MkboError(f"{name} must be a whole number from {least} to {most}, got {value!r}")
