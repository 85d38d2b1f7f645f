"""A study's trials as those of a campaign: measured, pending and failed ones, and their constraints."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from mkbo_plugins.errors import TableError
from mkbo_plugins.optuna.searchspace import SearchSpace
from mkbo_plugins.space.levels import as_level
from mkbo_plugins.space.parameters import Level
from mkbo_plugins.tables.requirements import Required, Requirement
from mkbo_plugins.tables.trials import Trials

PROPOSED = "mkbo:proposed"
"""Attribute of a trial with the levels proposed for it, which other processes take for pending before it has them."""

FIRST_LOOK = "mkbo:first_look"
"""The same where nothing was known of the study's parameters, so that the table's own ones were proposed."""

CONSTRAINTS = "constraints"
"""Attribute with the values of `constraints_func`, as Optuna's samplers store them."""


@dataclass(frozen=True, eq=False)
class StudyTrials:
    """Trials of a study that have the parameters of a search space.

    Parameters
    ----------
    trials
        The trials in raw units.
    measured
        Those with a value, in the order of ``trials.X``.
    """

    trials: Trials
    measured: Sequence[FrozenTrial]

    @classmethod
    def of(cls, trials: Sequence[FrozenTrial], space: SearchSpace) -> "StudyTrials":
        """Return what trials, among which the one asked for is not, are to a campaign.

        Pruned trials, whose last intermediate value is none of the objective's, and those whose value is infinite have
        given no outcome and are failed ones; running and enqueued trials are pending.
        """
        having = [(trial, levels) for trial in trials if space.has(levels := known_levels(trial))]
        kinds = {kind: [one for one in having if _kind(one[0]) == kind] for kind in ("measured", "pending", "failed")}
        points = {kind: space.raw([levels for _, levels in ones]) for kind, ones in kinds.items()}
        measured = [trial for trial, _ in kinds["measured"]]
        y = np.array([trial.values[0] for trial in measured], dtype=float)
        return cls(Trials(points["measured"], y, points["pending"], points["failed"]), measured)

    @property
    def required(self) -> list[Required]:
        """The constraints that were stored with the trials, each a value that must be at most 0.

        Trials without any, such as those made before there were constraints, count as meeting none.

        Raises
        ------
        TableError
            If trials have different numbers of them.
        """
        stored = [trial.system_attrs.get(CONSTRAINTS) for trial in self.measured]
        lengths = sorted({len(values) for values in stored if values})
        if len(lengths) > 1:
            raise TableError(
                f"constraints_func gave {lengths[0]} values for some trials and {lengths[-1]} for others; give as many "
                "for each"
            )
        empty = [math.nan] * (lengths[0] if lengths else 0)
        values = np.array([row or empty for row in stored], dtype=float).reshape(len(stored), len(empty))
        known = np.isfinite(values).all(axis=1)
        return [
            Required(Requirement(f"constraint {i}", 0.0, at_least=False), self.trials.X[known], column[known], column)
            for i, column in enumerate(values.T)
        ]


def known_levels(trial: FrozenTrial) -> dict[str, Level]:
    """Return the values of a trial as levels by name; of an unfinished one those it will have, too."""
    values: dict[str, Any] = dict(trial.params)
    if trial.state.is_finished():
        return _as_levels(values)
    proposed: dict[str, Level] = trial.system_attrs.get(PROPOSED) or trial.system_attrs.get(FIRST_LOOK) or {}
    return {**proposed, **_as_levels(enqueued(trial)), **_as_levels(values)}


def is_unknown(trial: FrozenTrial) -> bool:
    """Return whether a trial has begun, but nothing of it is known yet."""
    return trial.state == TrialState.RUNNING and not known_levels(trial)


def enqueued(trial: FrozenTrial) -> Mapping[str, Any]:
    """Return the values that a trial was enqueued with."""
    return trial.system_attrs.get("fixed_params", {})


def _as_levels(values: Mapping[str, Any]) -> dict[str, Level]:
    return {name: as_level(value) for name, value in values.items()}


def _kind(trial: FrozenTrial) -> str:
    if not trial.state.is_finished():
        return "pending"
    return "measured" if trial.state == TrialState.COMPLETE and math.isfinite(trial.values[0]) else "failed"
