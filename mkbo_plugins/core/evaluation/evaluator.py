"""Choice between the ways to evaluate a re-weighted kernel, by cost and by certified error.

Explicit features are exact to their certificate inside a box around the frame and give positive semi-definite Gram
matrices by construction; the pair sum works anywhere, in double precision where its error estimate allows, else in
double-double arithmetic.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace
from mkbo_plugins.core.evaluation.box_features import (
    CUT_SHARE,
    LOG_LARGEST,
    MAX_MONOMIALS,
    RADII,
    SEARCH_RADII,
    SLACK,
    BoxFeatures,
    largest_coordinate,
    smallest_box,
)
from mkbo_plugins.core.evaluation.extended_pairs import ExtendedPairSum
from mkbo_plugins.core.evaluation.feature_sum import PRODUCT_COST, FeatureSum
from mkbo_plugins.core.evaluation.features import EPS
from mkbo_plugins.core.evaluation.mixed_pairs import MixedPairSum
from mkbo_plugins.core.evaluation.pair_blocks import PairBlocks, compose
from mkbo_plugins.core.evaluation.pair_sum import PairSum
from mkbo_plugins.core.evaluation.prepared import VANISHING, Prepared, ScaledSum, SumForm
from mkbo_plugins.core.evaluation.value_cache import ValueCache
from mkbo_plugins.core.kernels import FreeKernel
from mkbo_plugins.core.points import WeightedPoints
from mkbo_plugins.errors import KernelError

Choice = Literal["auto", "features", "pairs", "extended"]
CHOICES: tuple[Choice, ...] = ("auto", "features", "pairs", "extended")

EXTENDED_COST = 80.0
"""Time of the pair sum in double-double arithmetic, in units of the one in double precision."""

FARTHEST = 1e70
"""Coordinates from which on even exponents overflow."""

PAIR_SHARE = 0.5
"""Error allowed to the pair sum in units of the tolerance: unlike features left out, its rounding can make a Gram
matrix indefinite."""

NOTHING = -1e5
"""Logarithm of a factor that makes zero of any number."""

SUSPECT = 1e-16
"""Mantissas of diagonals from which down they may be rounded coefficients and no more."""

KEPT_POINTS = 4
"""Sets of points that are kept ready, such as the training inputs of a model."""

KEPT_RESULTS = 4
"""Results that are kept: of points with themselves and with the training inputs, values and gradients."""


@dataclass(frozen=True, eq=False)
class CertifiedEvaluator:
    """Evaluator of the undamped values S(u) of a re-weighted kernel that keeps its error below a tolerance.

    Parameters
    ----------
    base
        The free kernel.
    tables
        The weighted points of each re-weighting; none for the free kernel itself.
    dimension
        Number of coordinates of a point.
    choice
        ``"auto"``: the cheapest way that meets the tolerance; or always ``"features"``, ``"pairs"`` or ``"extended"``
        (the pair sum in double-double arithmetic).
    tolerance
        Largest error of an entry, relative to the root of the product of both diagonals. Where no way keeps it, since
        diagonals nearly vanish, points are made ready in the one of least error, which they state.
    norm
        Evaluator of the kernel by the root of whose diagonal, undamped, each argument is divided; None where arguments
        are damped as those of `base`.
    unit
        Unit of the damped kernel beside which smaller diagonals do not count: errors are relative to it where a
        diagonal is smaller, as is enough for distances in this unit. None means errors relative to diagonals.
    radius
        One of `SEARCH_RADII`: half-width of the box whose features are used for all points in it, so that entries of
        all sets of points are of one covariance. None means those of the smallest box for each.

    Raises
    ------
    KernelError
        If an argument is not as described.
    """

    base: FreeKernel
    tables: tuple[WeightedPoints, ...]
    dimension: int
    choice: Choice = "auto"
    tolerance: float = 1e-10
    norm: "CertifiedEvaluator | None" = None
    unit: float | None = None
    radius: float | None = None
    _points: ValueCache = field(default_factory=lambda: ValueCache(KEPT_POINTS), init=False, repr=False)
    _values: ValueCache = field(default_factory=lambda: ValueCache(KEPT_RESULTS), init=False, repr=False)
    _others: ValueCache = field(default_factory=lambda: ValueCache(1), init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.choice, str) or self.choice not in CHOICES:
            raise KernelError(f"choice must be one of {list(CHOICES)}, got {self.choice!r}")
        if not isinstance(self.tolerance, int | float | np.floating) or not 1e-14 <= self.tolerance <= 1e-2:
            raise KernelError(f"tolerance must lie between 1e-14 and 1e-2, got {self.tolerance!r}")
        if self.choice == "extended" and self.base.exponent_rate is None:
            raise KernelError("extended precision is there for exponential series; others have few enough features")
        if self.radius is not None and self.radius not in SEARCH_RADII:
            raise KernelError(f"radius must be one of {list(SEARCH_RADII)}, got {self.radius!r}")

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def prepare(self, X: Float[Array, "n d"], Y: Float[Array, "m d"] | None = None) -> tuple[Prepared, Prepared]:
        """Return two sets of points made ready for one and the same way to evaluate S.

        Parameters
        ----------
        X, Y
            Points (n, d) and (m, d), float64; None means Y is X, and gives the same object twice.
        """
        n, m = X.shape[0], (X if Y is None else Y).shape[0]
        P, *others = self.ready((X,) if Y is None else (X, Y), (n, m), n * m)
        return P, others[0] if others else P

    def ready(self, sets: Sequence[Float[Array, "_n d"]], sizes: tuple[int, int], entries: int) -> list[Prepared]:
        """Return sets of points made ready for the cheapest way to evaluate S that meets the tolerance at all of them.

        Parameters
        ----------
        sets
            Points, (n, d) each, float64.
        sizes
            Numbers of the points that meet one another.
        entries
            Number of entries that are asked for.
        """
        best: tuple[tuple[int, float], list[Prepared]] | None = None
        for form in self._candidates(sets, sizes, entries):
            points, unresolved, errors = zip(*self._made_ready(form, sets), strict=True)
            # A diagonal that one form cannot tell from zero another one may.
            rank = sum(unresolved), max(max(errors) / self._limit(form), 1.0)
            if rank == (0, 1.0) or self.choice != "auto":
                return list(points)
            if best is None or rank < best[0]:
                best = rank, list(points)
        assert best is not None
        return best[1]

    def ready_from_point(self, x: Float[Array, "1 d"], Y: Float[Array, "m d"]) -> tuple[Prepared, Prepared]:
        """Return what `prepare` does for a point that moves among others, most often made ready with them before."""
        reach, Q = self._others.get("others", (Y,), partial(self._serving, x))
        if largest_coordinate(x) <= reach:
            P, unresolved, error = self._prepared(Q.form, x)
            if unresolved == 0 and error <= self._limit(Q.form):
                return P, Q
        P, Q = self.prepare(x, Y)
        return P, Q

    def common_features(self, X: Float[Array, "n d"], Y: Float[Array, "m d"]) -> FeatureSum | None:
        """Return the features of points (n, d) if they are those of others (m, d) too and cost less than the pair sum.

        Whether they meet the tolerance, `serves` says.
        """
        features, entries = self._features_within(self._box(largest_coordinate(X))), X.shape[0] * Y.shape[0]
        if features is None or self._features_within(self._box(largest_coordinate(X, Y))) is not features:
            return None
        fewer, more = sorted((X.shape[0], Y.shape[0]))
        too_costly = features.cost(fewer, more, entries) > self.pairs.terms * (entries + 3 * fewer)
        return None if too_costly else features

    def serves(self, features: FeatureSum, *sets: Float[Array, "_n d"]) -> bool:
        """Return whether features meet the tolerance at sets of points, (n, d) each."""
        return max(made.error for made in self._made_ready(features, sets)) <= self._limit(features)

    def _serving(self, x: Float[Array, "1 d"], Y: Float[Array, "m d"]) -> tuple[float, Prepared]:
        """Return up to which coordinates of a point the way chosen for it holds, and the others made ready for that."""
        _, Q = self.prepare(x, Y)
        reach = largest_coordinate(x, Y)
        return smallest_box(reach) or reach, Q

    def _limit(self, form: SumForm) -> float:
        """Return the error allowed to a form, for features beside what was left out of them at all points."""
        share = 1.0 if self.unit is None else 1 - CUT_SHARE
        return self.tolerance * (share if isinstance(form, FeatureSum) else PAIR_SHARE)

    def _made_ready(self, form: SumForm, sets: Sequence[Float[Array, "_n d"]]) -> "list[_Ready]":
        """Return sets of points made ready for a form, or as they were made ready a moment ago."""
        return [self._points.get(id(form), (Z,), partial(self._prepared, form)) for Z in sets]

    def _prepared(self, form: SumForm, X: Float[Array, "n d"]) -> "_Ready":
        P = replace(self._with_rounded_coefficients(form.prepare(X)), log_damping=self.log_damping(X))
        return _Ready(P, P.unresolved() if self.unit is None else 0, self._worst_error(P))

    def _worst_error(self, P: Prepared) -> float:
        if self.unit is None:
            return P.worst_error()
        xp = array_namespace(P.points)
        return P.worst_error(self.unit * xp.exp(-xp.clip(2 * (P.half_log_scale + P.log_damping), -700.0, None)))

    def _with_rounded_coefficients(self, P: Prepared) -> Prepared:
        """Return points whose errors include diagonals that rounded coefficients alone may make.

        Coefficients of a support vector machine sum to zero up to their last digit; finer arithmetic would take what is
        left of it for a diagonal.
        """
        few = P.diagonal <= SUSPECT
        if not self.tables or not bool(few.any()):
            return P
        xp = array_namespace(few)
        Q = self._absolute.prepare(P.points[few])
        largest = Q.diagonal * xp.exp(xp.clip(2 * (Q.half_log_scale - P.half_log_scale[few]), None, 700.0))
        rounding, error = EPS**2 * largest, xp.asarray(P.error, copy=True)
        error[few] = xp.where(P.diagonal[few] <= rounding, xp.maximum(error[few], rounding), error[few])
        return replace(P, error=error)

    @cached_property
    def _absolute(self) -> PairSum:
        """The pair sum of points and coefficients without their signs, so that nothing cancels."""
        tables = tuple(WeightedPoints(np.abs(table.points), np.abs(table.alpha)) for table in self.tables)
        return PairSum(compose(self.base, tables, self.dimension))

    def shared(self, key: Hashable, P: Prepared, Q: Prepared, compute: Callable[[], Array]) -> Array:
        """Return a result between points that batches share, kept for as long as they are the points kept ready."""
        return self._values.get((key, P, Q), (), compute)

    def pointwise(self, U: Float[Array, "... d"]) -> ScaledSum:
        """Return S at points U (..., d), each result (...), for kernels of any number of arguments."""
        xp = array_namespace(U)
        roots = xp.sqrt(xp.abs(U))
        P, _ = self.prepare(xp.reshape(roots, (-1, U.shape[-1])))
        return P.form.pointwise(U)

    def log_damping(self, X: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        """Return the logarithm of what each argument is multiplied by, (...), for points (..., d)."""
        if self.norm is None:
            return self.base.log_damping(X)
        xp = array_namespace(X)
        P, _ = self.norm.prepare(xp.reshape(xp.astype(X, xp.float64), (-1, X.shape[-1])))
        root = xp.log(xp.where(P.vanishing, xp.ones_like(P.diagonal), P.diagonal)) / 2
        damping = xp.where(P.vanishing, xp.full_like(root, NOTHING), -root - P.half_log_scale)
        return xp.astype(xp.reshape(damping, X.shape[:-1]), X.dtype)

    def log_damping_gradient(self, X: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        """Return the gradient of `log_damping` in each point, of the shape of `X`, float64."""
        if self.norm is None:
            # The log damping is -r sum_j lambda_j x_j^2.
            return -2 * self.base.damping_rate * self.base.weighted(X)
        xp = array_namespace(X)
        P, _ = self.norm.prepare(xp.reshape(X, (-1, X.shape[-1])))
        inverse = xp.where(P.vanishing, xp.zeros_like(P.diagonal), -0.5 / xp.clip(P.diagonal, VANISHING, None))
        return xp.reshape(inverse[:, None] * P.diagonal_gradient, X.shape)

    def features(self, radius: float = 1.0, *, precise: bool = False, costly: bool = False) -> FeatureSum | None:
        """Return the features of a box around the frame, or None where they would be too many.

        Arguments are as for `BoxFeatures.within`.
        """
        return self._features.within(radius, precise=precise, costly=costly)

    @cached_property
    def _features(self) -> BoxFeatures:
        return BoxFeatures(self.base, self.tables, self.tolerance, self.unit, self._most_features)

    @cached_property
    def pairs(self) -> PairSum:
        """The pair sum in double precision."""
        return PairSum(self._blocks)

    @cached_property
    def extended(self) -> PairSum:
        """The pair sum in double-double arithmetic."""
        return ExtendedPairSum(self._blocks)

    @cached_property
    def mixed(self) -> PairSum:
        """The pair sum in the least precision that each entry needs."""
        return MixedPairSum(self._blocks, PAIR_SHARE * self.tolerance)

    @cached_property
    def _blocks(self) -> PairBlocks:
        return compose(self.base, self.tables, self.dimension)

    def describe(self) -> str:
        """Return in words how points inside the frame are evaluated."""
        features = self.features() if self.choice in ("auto", "features") else None
        if features is not None:
            monomials = features.monomials
            return (
                f"{len(monomials):,} explicit features up to degree {monomials.degrees[-1]}, error at most "
                f"{self.tolerance:g}; few or far points by {self.pairs.describe()}"
            )
        kind = " in double-double arithmetic" if self.choice == "extended" else ""
        return f"{self.pairs.describe()}{kind}, error kept below {self.tolerance:g} where possible"

    def _candidates(
        self, sets: Sequence[Float[Array, "_n d"]], sizes: tuple[int, int], entries: int
    ) -> Iterator[SumForm]:
        """Yield the ways to try, the cheapest first, made only when their turn comes."""
        reach = largest_coordinate(*sets)
        radius = self._box(reach)
        features = self._features_within(radius)
        if self.choice == "features" and features is None:
            raise KernelError(
                "features cannot be had for these points: they lie too far outside the frame, or would need more "
                f"than {MAX_MONOMIALS:,} features; use choice='auto'"
            )
        if self.choice == "extended" and not reach < FARTHEST:
            raise KernelError(
                f"points lie {FARTHEST:g} half-widths or more from the middle of the frame, where sums in extended "
                "precision overflow; use choice='auto'"
            )
        if self.choice != "auto":
            yield features if features is not None and self.choice == "features" else getattr(self, self.choice)
        elif not reach < FARTHEST:
            yield self.pairs
        else:
            yield from self._by_cost(features, radius, sizes, entries)

    def _box(self, reach: float) -> float | None:
        """Return the radius of the box whose features hold for points with a largest coordinate, if any."""
        if not reach < FARTHEST:
            return None
        if self.base.exponent_rate is None:
            # Nothing is left out of a finite series, so that its features hold everywhere until they overflow.
            return RADII[0] if self.base.degree_limit * math.log(max(reach, 1.0)) < LOG_LARGEST else None
        if self.radius is not None:
            return self.radius if reach <= self.radius * SLACK else None
        return smallest_box(reach)

    def _features_within(self, radius: float | None) -> FeatureSum | None:
        """Return the features of a box, or None without one or where another way is chosen."""
        return None if radius is None or self.choice not in ("auto", "features") else self.features(radius)

    def _by_cost(
        self, features: FeatureSum | None, radius: float | None, sizes: tuple[int, int], entries: int
    ) -> Iterator[SumForm]:
        """Yield ways to evaluate S, the cheapest first, and last what is too costly unless nothing else will do."""
        fewer, more = sorted(sizes)
        of_pairs = self.pairs.terms * (entries + 3 * fewer)
        costs: dict[str, float] = {"pairs": of_pairs}
        if self.base.exponent_rate is not None:
            costs["mixed"] = EXTENDED_COST * of_pairs
        if features is not None:
            costs["features"] = features.cost(fewer, more, entries)
        for name in sorted(costs, key=costs.__getitem__):
            if name == "pairs" and features is not None and not self._pairs_hold:
                continue
            if name != "features":
                yield getattr(self, name)
            elif features is not None and radius is not None:
                yield features
                refined = self.features(radius, precise=True)
                if refined is not None:
                    yield refined
        if features is None and radius is not None and self.base.exponent_rate is None:
            # Sums of finite series are not to be had in extended precision, but features are as exact.
            costly = self.features(radius, costly=True)
            if costly is not None:
                yield costly

    @cached_property
    def _pairs_hold(self) -> bool:
        """Whether the plain pair sum meets the tolerance over a sample of the frame, so that it is worth a try."""
        sample = np.random.default_rng(0).uniform(-1, 1, (32, self.dimension))
        P = replace(self.pairs.prepare(sample), log_damping=self.log_damping(sample))
        return self._worst_error(P) <= PAIR_SHARE * self.tolerance

    @property
    def _most_features(self) -> int:
        """Number of features from which on the pair sum costs less, if there is a choice."""
        return int(min(MAX_MONOMIALS, 2 * self.pairs.terms / PRODUCT_COST)) if self.choice == "auto" else MAX_MONOMIALS


class _Ready(NamedTuple):
    """Points made ready, how many diagonals finer arithmetic might tell from zero, and the largest error."""

    points: Prepared
    unresolved: int
    error: float
