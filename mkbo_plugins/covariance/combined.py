"""Pre-trained covariances of several tables as one, in which each table keeps its own scales."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add, mul
from typing import Any

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.components.several import SeveralTables
from mkbo_plugins.core.evaluation.evaluator import Choice
from mkbo_plugins.covariance.base import check_gram, finite
from mkbo_plugins.covariance.content import Reader
from mkbo_plugins.covariance.limits import TABLES
from mkbo_plugins.covariance.pretrained import PretrainedCovariance, TrainedCovariance
from mkbo_plugins.errors import KernelError, SpaceError
from mkbo_plugins.space.parameters import Frame, FurtherLevels, Parameter, is_finite_number
from mkbo_plugins.space.space import ParameterSpace


@dataclass(frozen=True)
class CombinedCovariance(TrainedCovariance, kind="members"):
    """Covariances pre-trained on several tables, which may share all, some or none of their parameters.

    The covariance models of `mkbo_plugins.core.forms` sum over tables, each with scales of its own that the optimiser
    fits, so that a useless table fades away. What it shares with covariances of one table is described under
    `mkbo_plugins.covariance.base.Covariance`.

    Parameters
    ----------
    members
        The covariance of each table, at least two.

    Raises
    ------
    SpaceError
        If frames differ, or a parameter that tables share is not described alike in each.
    KernelError
        If there are fewer than two members, or one is no `PretrainedCovariance`.
    """

    members: tuple[PretrainedCovariance, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        strange = next((m for m in self.members if not isinstance(m, PretrainedCovariance)), None)
        if strange is not None or len(self.members) < 2:
            found = f"{len(self.members)} of them" if strange is None else type(strange).__name__
            raise KernelError(f"members must be two or more of PretrainedCovariance, got {found}")
        frames = [member.frame for member in self.members]
        if len(set(frames)) > 1:
            raise SpaceError(f"the tables' frames must be equal, got {frames}; train all with the same frame=")
        _ = self.space  # raises where it cannot be made

    def __repr__(self) -> str:
        """Return one line: the members."""
        return f"CombinedCovariance({', '.join(map(repr, self.members))})"

    @cached_property
    def space(self) -> ParameterSpace:
        """Parameters of all tables, in order of first appearance."""
        return union_of_spaces([member.space for member in self.members])

    @property
    def frame(self) -> Frame:
        """How they map to frame coordinates, the same for all tables."""
        return self.members[0].frame

    @cached_property
    def fixed(self) -> SeveralTables:
        """The fixed parts of each table over the coordinates of `space`."""
        # By owner, since levels such as "1" and 1 have coordinates of the same name.
        places: dict[str, list[int]] = {}
        for j, owner in enumerate(self.space.coordinate_owners):
            places.setdefault(owner, []).append(j)
        columns = (tuple(j for name in member.space.names for j in places[name]) for member in self.members)
        return SeveralTables(tuple(member.fixed for member in self.members), tuple(columns))

    def with_evaluator(self, choice: Choice = "auto", tolerance: float = 1e-10) -> "CombinedCovariance":
        """Return the same with every member evaluated in another way; see `PretrainedCovariance.with_evaluator`."""
        return CombinedCovariance(tuple(member.with_evaluator(choice, tolerance) for member in self.members))

    def _widened(self, space: ParameterSpace, new: Mapping[str, FurtherLevels]) -> "CombinedCovariance":
        owned = ({name: new[name] for name in new if name in member.space.names} for member in self.members)
        return CombinedCovariance(
            tuple(member.with_levels(own) for member, own in zip(self.members, owned, strict=True))
        )

    def gram(
        self,
        X: Any,
        X2: Any = None,
        form: str = "reweighted",
        *,
        s: float | Sequence[float] = 1.0,
        weights: Sequence[float] | None = None,
    ) -> Float[np.ndarray, "n m"]:
        """Return the Gram matrix between points in raw units.

        Parameters
        ----------
        X, X2
            Points in raw units of `space`, as for `PretrainedCovariance.gram`.
        form
            As there: the weighted sum of the members' Gram matrices; of ``"two_layer"`` the product, as in the
            covariance models.
        s
            Squared length scale of ``"two_layer"``, one for all tables or one for each.
        weights
            Weight of each table in the sum, at least 0; None means 1 for each. ``"reweighted"`` is in units of its
            table's dual coefficients; ``1 / member.fixed.mean_diagonal`` puts tables on one scale, as models see them.

        Returns
        -------
        ndarray
            Covariances, (n, n').

        Raises
        ------
        MkboError
            If a point is not of the space, or an argument not as described.
        """
        scales: list[Any] = list(s) if isinstance(s, (list, tuple, np.ndarray)) else [s] * self.tables
        check_gram(form, scales)
        weights = [1.0] * self.tables if weights is None else list(weights)
        self._check_count(scales, "s")
        self._check_weights(weights, form)
        Z = self.to_coordinates(X)
        if X2 is None and len(Z) == 0:
            return np.empty((0, 0))
        Z2 = Z if X2 is None else self.to_coordinates(X2)
        views = zip(self.members, self.fixed.views(Z), self.fixed.views(Z2), scales, strict=True)
        grams = [
            np.asarray(member.gram_of_coordinates(z, None if X2 is None else z2, form, scale))
            for member, (_, z), (_, z2), scale in views
        ]
        if form == "two_layer":
            return finite(reduce(mul, grams))
        return finite(reduce(add, (weight * gram for weight, gram in zip(weights, grams, strict=True))))

    def to_content(self) -> dict[str, Any]:
        """Return what a saved file holds."""
        return {"members": [member.to_content() for member in self.members]}

    @classmethod
    def from_content(cls, content: Reader) -> "CombinedCovariance":
        """Return the covariance saved as `content`; raises `MkboError` where it is none."""
        return cls(tuple(map(PretrainedCovariance.from_content, content.each_below("members", TABLES))))

    def _check_weights(self, weights: Sequence[Any], form: str) -> None:
        self._check_count(weights, "weights")
        if not all(is_finite_number(weight) and weight >= 0 for weight in weights):
            raise KernelError(f"weights must be finite numbers of at least 0, got {list(weights)!r:.60}")
        if form == "two_layer" and any(weight != 1 for weight in weights):
            raise KernelError("form='two_layer' is a product over tables and has no weights; leave them out")

    def _check_count(self, values: Sequence[Any], name: str) -> None:
        if len(values) != self.tables:
            raise KernelError(f"{name} must have one entry for each of {self.tables} tables, got {len(values)}")


def union_of_spaces(spaces: Sequence[ParameterSpace]) -> ParameterSpace:
    """Return the parameters and constraints of several spaces, in order of first appearance.

    Raises
    ------
    SpaceError
        If a parameter that several have is not described alike in each, or constraints cannot be kept together.
    """
    found: dict[str, Parameter] = {}
    for number, space in enumerate(spaces, 1):
        for parameter in space.parameters:
            known = found.setdefault(parameter.name, parameter)
            if known != parameter:
                raise SpaceError(
                    f"parameter {parameter.name!r} is described as {known.to_spec()} for one table and as "
                    f"{parameter.to_spec()} for table {number}; give all tables one ParameterSpace"
                )
    constraints = dict.fromkeys(constraint for space in spaces for constraint in space.constraints)
    return ParameterSpace(tuple(found.values()), tuple(constraints))
