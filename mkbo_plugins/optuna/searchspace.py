"""Which of a study's parameters a pre-trained covariance speaks of, and points of them in raw units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from optuna.trial import FrozenTrial, TrialState

from mkbo_plugins.optuna.distributions import Distributions, parameter_of, single_level, values_at
from mkbo_plugins.space.matching import check_names
from mkbo_plugins.space.parameters import Level
from mkbo_plugins.space.space import ParameterSpace


@dataclass(frozen=True)
class SearchSpace:
    """The parameters that are proposed together, and those that are constant.

    Parameters
    ----------
    distributions
        All of them, by name, as the study describes them.
    target
        Those that vary, with the constraints of the table's space.
    fixed
        Constant values of the table's parameters, by name.
    constant
        Those of parameters of the study, by name.
    """

    distributions: Distributions
    target: ParameterSpace
    fixed: Mapping[str, Any]
    constant: Mapping[str, Level]

    @classmethod
    def of(cls, pretrained: ParameterSpace, distributions: Distributions, fixed: Mapping[str, Any]) -> "SearchSpace":
        """Return the parameters of distributions.

        Raises
        ------
        SpaceError
            If a pre-trained parameter has no distribution and is not fixed, has both, or is of another kind.
        """
        check_names(
            pretrained,
            list(distributions),
            fixed,
            lacks=f"the study, with {sorted(distributions)}, lacks",
            within="in the study",
            remedy="; where they appear in some trials only, say so by distributions={name: distribution}",
        )
        constant = {name: single_level(d) for name, d in distributions.items() if d.single()}
        own = {name: value for name, value in constant.items() if name in pretrained.names}
        parameters = tuple(
            parameter_of(name, d, pretrained[name] if name in pretrained.names else None)
            for name, d in distributions.items()
            if name not in constant
        )
        everywhere = {**fixed, **own}
        constraints = pretrained.without(everywhere).constraints if pretrained.constraints else ()
        return cls(distributions, ParameterSpace(parameters, constraints), everywhere, constant)

    @classmethod
    def of_table(cls, pretrained: ParameterSpace, fixed: Mapping[str, Any]) -> "SearchSpace":
        """Return the table's own parameters, for a study of which nothing is known yet."""
        return cls({}, pretrained.without(fixed), fixed, {})

    def has(self, levels: Mapping[str, Level]) -> bool:
        """Return whether a trial, given as levels by name, has all parameters, and the constant ones at their value."""
        present = all(name in levels for name in self.target.names)
        return present and all(levels.get(name, value) == value for name, value in self.constant.items())

    def raw(self, points: Sequence[Mapping[str, Level]]) -> Float[np.ndarray, "n d"]:
        """Return points of the parameters that vary, (n, d) in raw units."""
        return self.target.to_raw(list(points)) if points else np.empty((0, len(self.target.names)))

    def values(self, point: Mapping[str, Level]) -> dict[str, Any]:
        """Return the study's values at a point, those of constant parameters left to the study."""
        return {name: values_at(d, point[name])[0] for name, d in self.distributions.items() if name in point}


def common_distributions(trials: Sequence[FrozenTrial], needed: set[str]) -> Distributions:
    """Return what completed trials with all the parameters needed have in common, each as the latest describes it.

    Parameters of the study that completed trials without the needed ones have too are left out: which parameters there
    are may depend on them, and a model that sees the one kind of trial alone knows nothing of that.

    Parameters
    ----------
    trials
        Trials, in their order. Where no completed one has the parameters, others tell of the needed ones alone: more of
        theirs may be to come.
    needed
        Names of parameters.
    """
    completed = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    having = [trial for trial in completed if needed <= trial.distributions.keys()]
    if not having:
        unfinished = [trial for trial in trials if needed <= trial.distributions.keys()]
        latest = unfinished[-1].distributions if unfinished else {}
        return {name: d for name, d in latest.items() if name in needed}
    others = {name for trial in completed if not needed <= trial.distributions.keys() for name in trial.distributions}
    common = set.intersection(*(set(trial.distributions) for trial in having))
    return {name: d for name, d in having[-1].distributions.items() if name in needed | (common - others)}
