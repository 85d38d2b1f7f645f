"""Generation nodes of the first trials: spread over the search space, or designed from a table."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from ax.adapter.registry import Generators
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.experiment_status import ExperimentStatus
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.trial_status import TrialStatus
from ax.core.types import TParameterization
from ax.generation_strategy.external_generation_node import ExternalGenerationNode
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MaxTrialsAwaitingData, MinTrials, TransitionCriterion
from jaxtyping import Int

from mkbo_plugins.ax.encoding import concerning, target_names
from mkbo_plugins.ax.exhausted import check_points_left
from mkbo_plugins.ax.levels import for_experiment
from mkbo_plugins.ax.metrics import covered_metrics, objective_signs
from mkbo_plugins.ax.points import completed, failed_points, failures, tried_points, tuned_space, unit_inputs
from mkbo_plugins.ax.storage import MODEL_NODE, StoredByOptions, altered, attach, is_whole, recall
from mkbo_plugins.core.components.several import SeveralTables
from mkbo_plugins.core.gp.design import distance_to_front, upper_confidence_design
from mkbo_plugins.core.gp.feasibility import is_discredited
from mkbo_plugins.core.gp.spacing import Spacing, least_distance, scattered_design
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.covariance.directions import turned
from mkbo_plugins.covariance.pretrained import trained
from mkbo_plugins.errors import MkboError, SpaceWarning

CANDIDATES = 256
"""Points of the search space among which a design chooses."""


@dataclass(init=False, eq=False, repr=False)
class SobolNode(StoredByOptions, GenerationNode):
    """Space-filling first trials, which end with a sentence where the search space has no points left.

    Parameters
    ----------
    trials
        Number of trials before the next node may follow, those already in the experiment counted; half of them must
        have data.
    next_node
        Name of the node that follows.
    seed
        Seed of the points.
    """

    trials: int
    next_node: str
    seed: int

    def __init__(self, trials: int, next_node: str, seed: int) -> None:
        known = is_whole(trials) and next_node == MODEL_NODE
        super().__init__(
            name="Sobol",
            generator_specs=[GeneratorSpec(generator_enum=Generators.SOBOL, generator_kwargs={"seed": seed})],
            transition_criteria=enough_trials(trials, next_node, max(1, trials // 2)) if known else None,
            pausing_criteria=[
                MaxTrialsAwaitingData(
                    threshold=trials,
                    not_in_statuses=[TrialStatus.FAILED, TrialStatus.ABANDONED],
                    use_all_trials_in_exp=True,
                )
            ]
            if known
            else None,
            should_deduplicate=True,
            suggested_experiment_status=ExperimentStatus.INITIALIZATION,
        )
        self.trials = trials
        self.next_node = next_node
        self.seed = seed

    def gen(
        self,
        *,
        experiment: Experiment,
        pending_observations: dict[str, list[ObservationFeatures]] | None,
        **kwargs: Any,
    ) -> GeneratorRun | None:
        """Generate points as `GenerationNode.gen`, if there are any."""
        self.check_options()
        check_points_left(experiment, kwargs.get("n"), pending_observations, kwargs.get("fixed_features"))
        return super().gen(experiment=experiment, pending_observations=pending_observations, **kwargs)


@dataclass(init=False, eq=False, repr=False)
class TableDesignNode(StoredByOptions, ExternalGenerationNode):
    """First trials from tables alone, in the experiment's search space; serves until there are data to model.

    With several objectives, it looks for the Pareto front that their tables predict.

    Parameters
    ----------
    covariances
        Fingerprints by names of objectives whose direction is known, or under `OBJECTIVE`.
    directions
        For each of them, ``"same"`` if it grows with the table's target, ``"opposite"`` if it falls; of several tables
        one for each.
    rename, fixed
        As for `use_pretrained`.
    trials
        Number of trials before the next node may follow, those already in the experiment counted.
    next_node
        Name of the node that follows once a trial has data.
    seed
        Seed of the candidates.
    """

    covariances: dict[str, str]
    directions: dict[str, Any]
    rename: dict[str, str]
    fixed: dict[str, Any]
    trials: int
    next_node: str
    seed: int

    def __init__(
        self,
        covariances: dict[str, str],
        directions: dict[str, Any],
        rename: dict[str, str],
        fixed: dict[str, Any],
        trials: int,
        next_node: str,
        seed: int,
    ) -> None:
        known = is_whole(trials) and next_node == MODEL_NODE
        super().__init__(
            name="TableDesign",
            suggested_experiment_status=ExperimentStatus.INITIALIZATION,
            transition_criteria=enough_trials(trials, next_node) if known else None,
        )
        self.covariances = covariances
        self.directions = directions
        self.rename = rename
        self.fixed = fixed
        self.trials = trials
        self.next_node = next_node
        self.seed = seed
        self._queue: list[tuple[TParameterization, bool]] = []

    def update_generator_state(self, experiment: Experiment, data: Data) -> None:
        """Order points of the search space by what the tables say of them, or at random where most trials fail."""
        self.check_options()
        undirected = sorted(set(self.covariances) - set(self.directions))
        if undirected:
            raise altered(f"'directions' lacks {undirected}")
        self.directions = covered_metrics(experiment, self.directions)
        self.covariances = covered_metrics(experiment, self.covariances)
        check_points_left(experiment)
        covs = {name: recall(fingerprint, experiment) for name, fingerprint in self.covariances.items()}
        for cov in covs.values():
            attach(experiment, cov)
        covs = {
            name: for_experiment(cov, experiment.search_space, self.rename, self.fixed) for name, cov in covs.items()
        }
        # Deduplication by Ax fails where there are fewer points than asked for.
        adapter = Generators.SOBOL(experiment=experiment, seed=self.seed, deduplicate=False)
        drawn = [dict(arm.parameters) for arm in adapter.gen(n=CANDIDATES).arms]
        arms = [dict(arm.parameters) for arm in experiment.arms_by_name.values()]
        points = [point for i, point in enumerate(drawn) if point not in drawn[:i] and point not in arms]
        n = len(points)
        if not n:
            self._queue = []
            return
        tuned, tried = tuned_space(experiment.search_space), tried_points(experiment)
        full = [completed(point, experiment.search_space) for point in points]
        spacing = Spacing(unit_inputs(full, tuned), unit_inputs(tried, tuned), least_distance(len(tuned.names)))
        if is_discredited(failures(experiment), len(set(data.full_df.get("trial_index", ())))):
            order = scattered_design(spacing, n, self.seed)
        else:
            order = self._by_table(experiment, covs, full, tried, spacing)
        self._queue = [
            (points[i], clearance >= spacing.least)
            for i, clearance in zip(order, spacing.clearances(order), strict=True)
        ]

    def _by_table(
        self,
        experiment: Experiment,
        covs: dict[str, Covariance],
        points: list[TParameterization],
        tried: list[TParameterization],
        spacing: Spacing,
    ) -> Int[np.ndarray, " n"]:
        """Return the order of points by what the tables say of them."""
        n, failed = len(points), failed_points(experiment)
        tried = [point for point in tried if point not in failed]
        Z = {name: self._coordinates(cov, experiment, points + tried + failed) for name, cov in covs.items()}
        signs = objective_signs(experiment, self.covariances)
        if len(signs) == 1:
            ((name, sign),) = signs.items()
            direction = self.directions[name] if sign > 0 else turned(self.directions[name])
            of_points, of_tried, of_failed = np.split(Z[name], [n, n + len(tried)])
            return covs[name].first_design(of_points, direction, n, present=of_tried, failed=of_failed, spacing=spacing)
        merits = [sign * covs[name].merit(Z[name][:n], self.directions[name]) for name, sign in signs.items()]
        views = {cov.fingerprint: trained(cov).fixed.views(Z[name]) for name, cov in covs.items()}
        joint, joint_Z = SeveralTables.of([view for each in views.values() for view in each])
        merit = -distance_to_front(np.column_stack(merits))
        return upper_confidence_design(merit, joint.correlation, joint_Z[:n], n, present=joint_Z[n:], spacing=spacing)

    def _coordinates(self, cov: Covariance, experiment: Experiment, points: list[TParameterization]) -> np.ndarray:
        space = experiment.search_space
        names = target_names(cov.space, space, *concerning(cov.space, space, self.rename, self.fixed))
        raw = np.empty((len(points), len(cov.space.names)))
        for j, parameter in enumerate(cov.space.parameters):
            values = [
                p[names[parameter.name]] if parameter.name in names else self.fixed[parameter.name] for p in points
            ]
            # A number may lie between the whole ones or levels of the table.
            raw[:, j] = [parameter.to_raw(value) for value in values] if parameter.indexed_levels else values
        return np.asarray(cov.space.to_coordinates(raw, cov.frame))

    def get_next_candidate(self, pending_parameters: list[TParameterization]) -> TParameterization:
        """Return the best point that is neither in the experiment nor pending, and warn if it is near another one."""
        left = [(point, far) for point, far in self._queue if point not in pending_parameters]
        if not left:
            raise MkboError(
                f"the search space has no further points to try before data come in, of {CANDIDATES} drawn; complete "
                "trials with their data"
            )
        point, far = left[0]
        if not far:
            warnings.warn(
                f"the search space has no room for one more first trial far from all others, of {CANDIDATES} points "
                f"drawn: {point} is nearer to one than it should be; complete trials with their data, or ask for fewer",
                SpaceWarning,
                stacklevel=2,
            )
        return point


def enough_trials(trials: int, next_node: str, observed: int = 1) -> list[TransitionCriterion]:
    """Return criteria: `trials` trials in the experiment that have not failed, and data of `observed` of them."""
    return [
        MinTrials(
            threshold=trials,
            transition_to=next_node,
            use_all_trials_in_exp=True,
            not_in_statuses=[TrialStatus.FAILED, TrialStatus.ABANDONED],
        ),
        MinTrials(
            threshold=observed,
            transition_to=next_node,
            use_all_trials_in_exp=True,
            only_in_statuses=[TrialStatus.COMPLETED, TrialStatus.EARLY_STOPPED],
            count_only_trials_with_data=True,
        ),
    ]
