"""Which monomials a re-weighted kernel needs in a box around the frame, with a certificate for those left out.

A re-weighted kernel is ``S(u) = sum_k w_k^2 u^k``. Monomials are enumerated by degree, each child raising its parent
by one coordinate not before the parent's last one, so that each occurs once. A branch below child c is left out when
a bound B on its whole weight, ``sum_k w_k^2 R^{2|k|}`` over the branch, is small beside the weight of an ancestor l.
Inside the box ``|x_j| <= R`` everything left out then adds at most ``sum_l charge_l (x/R)^{2l}`` to K(x, x), an error
relative to K(x, x) itself at every point, also where K(x, x) is small.

The bound follows from ``(sum_i c_i a_i)^2 <= sum_i |c_i| sum_i |c_i| a_i^2``,
``multinomial(c + m) <= multinomial(c) multinomial(m) binomial(|c| + |m|, |m|)`` and the multinomial theorem, which
sum a branch to the derivative ``h^(|c|)(s) / |c|!`` at ``s = R^2 sum_j lambda_j z_j^2`` over the coordinates that the
branch raises. It is a sum of positive terms, so that nothing cancels.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from mkbo_plugins.core.arrays import chunks
from mkbo_plugins.core.evaluation.features import CHUNK, Weights, monomial_weights, monomials
from mkbo_plugins.core.evaluation.monomials import Monomials, subset
from mkbo_plugins.core.kernels import FreeKernel
from mkbo_plugins.core.points import WeightedPoints

MAX_EXPONENT = 300.0
"""Largest exponent of h in the box, and largest logarithm of a squared monomial there, for which features are tried."""

BRANCH_SHARES = (1e-3, 2e-4, 4e-5, 8e-6)
"""Weights of branches, relative to an ancestor and in units of the tolerance, below which they are left out."""

TRIMMED_SHARES = (*(10.0 ** -np.arange(1, 5.5, 0.5)), 0.0)
"""Weights, relative to an ancestor and in units of the tolerance, below which childless monomials are dropped."""


class Truncation(NamedTuple):
    """Monomials kept, their weights, and what the others may add."""

    monomials: Monomials
    weights: Weights
    charges: Float[np.ndarray, " M"]
    """Bound on the weights left out, each charged to a monomial kept, (M,), in units of x^{2k}."""


class _Layer(NamedTuple):
    """Monomials of one degree; `best` is the largest weight among a monomial and its ancestors.

    `squared` are squared weights at the corner of the box, `at_most` the same with what rounding may have taken.
    """

    exponents: Int[np.ndarray, "M d"]
    parents: Int[np.ndarray, " M"]
    raised: Int[np.ndarray, " M"]
    log_factor: Float[np.ndarray, " M"]
    value: Float[np.ndarray, " M"]
    error: Float[np.ndarray, " M"]
    squared: Float[np.ndarray, " M"]
    at_most: Float[np.ndarray, " M"]
    best: Float[np.ndarray, " M"]
    best_index: Int[np.ndarray, " M"]


class _Enumeration(NamedTuple):
    """All monomials looked at as one layer, and what the branches left out may add to each."""

    layer: _Layer
    charges: Float[np.ndarray, " M"]


def truncate(
    base: FreeKernel,
    tables: Sequence[WeightedPoints],
    radius: float,
    tolerance: float,
    max_monomials: int,
) -> Truncation | None:
    """Return the monomials that carry a re-weighted kernel in a box, or None where there are too many.

    Parameters
    ----------
    base, tables
        The free kernel and the weighted points of each re-weighting.
    radius
        Half-width R of the box.
    tolerance
        Largest share of a diagonal that may be left out; half of it is aimed at over a sample of the box.
    max_monomials
        Number of monomials above which the attempt is given up.
    """
    bound = _BranchBound(base, tables, radius)
    if bound.largest_exponent > MAX_EXPONENT:
        return None
    # Larger shares enumerate fewer monomials, so that the first that suffices is the cheapest.
    for branch_share in BRANCH_SHARES:
        enumeration = _enumerate(base, tables, bound, branch_share * tolerance, max_monomials)
        if enumeration is None:
            return None
        layer = enumeration.layer
        enumerated = Monomials(layer.exponents, layer.parents, layer.raised)
        trims = [_trim(enumerated, enumeration, share * tolerance) for share in TRIMMED_SHARES]
        for (mask, charges), share in zip(trims, _largest_shares(enumerated, layer.squared, trims), strict=True):
            if share <= tolerance / 2:
                # Charges bound weights at the corner of the box, and have R^{2|k|} in them.
                to_units = np.exp(-2 * enumerated.degrees[mask] * math.log(radius))
                weights = Weights(layer.value[mask], layer.error[mask])
                return Truncation(subset(enumerated, mask), weights, charges[mask] * to_units)
    return None


def _enumerate(
    base: FreeKernel, tables: Sequence[WeightedPoints], bound: "_BranchBound", branch_tolerance: float, limit: int
) -> _Enumeration | None:
    """Return the monomials whose branches are not small, or None where there are too many."""
    d = bound.points.shape[1]
    none, zero = np.zeros(1, int), np.zeros(1)
    layer = _Layer(np.zeros((1, d), np.int64), none, none, zero, zero, zero, zero, zero, zero, none)
    layers: list[_Layer] = []
    charged_to, charge = [none[:0]], [zero[:0]]
    count = 0
    while len(layer.exponents):
        log_scale = 2 * len(layers) * math.log(bound.radius)
        # A squared monomial at the corner of the box must be a number.
        if count + len(layer.exponents) > limit or log_scale > MAX_EXPONENT:
            return None
        layer = _with_weights(layer, base, tables, log_scale, count)
        layers.append(layer)
        children, (to, weights) = _children(layer, bound, branch_tolerance, count)
        charged_to.append(to)
        charge.append(weights)
        count += len(layer.exponents)
        layer = children
    charges = np.zeros(count)
    # Many branches are charged to one monomial, of which a sum by index would keep the last.
    np.add.at(charges, np.concatenate(charged_to), np.concatenate(charge))
    return _Enumeration(_joined(layers), charges)


def _joined(layers: Sequence[_Layer]) -> _Layer:
    return _Layer(*(np.concatenate(part) for part in zip(*layers, strict=True)))


def _scaled_squares(
    weights: Float[np.ndarray, " M"], log_scale: Float[np.ndarray, " M"] | float
) -> Float[np.ndarray, " M"]:
    """Return ``weights^2 exp(log_scale)``, where the second factor alone may overflow."""
    with np.errstate(divide="ignore"):
        return np.exp(2 * np.log(np.abs(weights)) + log_scale)


def _sample(dimension: int) -> Float[np.ndarray, "n d"]:
    """Return points of the unit box, its axes and a corner among them, (n, dimension)."""
    rng = np.random.default_rng(0)
    # Near axes and the origin few features are left, so that one left out counts most there.
    spread = rng.uniform(-1, 1, (60, dimension)) * rng.choice([1.0, 1.0, 0.1, 0.0], (60, dimension))
    return np.vstack([np.ones((1, dimension)), np.eye(dimension), spread])


def _largest_shares(
    enumerated: Monomials,
    squared: Float[np.ndarray, " M"],
    trims: Sequence[tuple[Bool[np.ndarray, " M"], Float[np.ndarray, " M"]]],
) -> Float[np.ndarray, " trims"]:
    """Return, for each trim, the largest share of a diagonal that may have been left out over a sample of the box."""
    left_out = np.stack([np.where(mask, charges, 0.0) for mask, charges in trims])
    weights = np.stack([np.where(mask, squared, 0.0) for mask, _ in trims])
    points = _sample(enumerated.exponents.shape[1])
    largest = np.zeros(len(trims))
    # Few points at a time, as monomials may be many.
    for rows in chunks(len(points), 8):
        squares = enumerated.evaluate(points[rows]) ** 2
        lost, diagonal = left_out @ squares, weights @ squares
        shares = np.divide(lost, diagonal, out=np.zeros_like(lost), where=diagonal > 0)
        largest = np.maximum(largest, shares.max(axis=1))
    return largest


class _BranchBound:
    """Bound on the weight of the branch below a monomial."""

    def __init__(self, base: FreeKernel, tables: Sequence[WeightedPoints], radius: float) -> None:
        self.base, self.radius = base, radius
        # Only the first is summed row by row: the longest, for which largest values alone would be too loose.
        tables = sorted(tables, key=lambda table: -len(table.alpha))
        scaled = [np.abs(table.alpha) * np.exp(self.base.log_damping(table.points)) for table in tables]
        self.points = tables[0].points
        # Of further tables the largest value of each monomial is enough: their sums are bounded term by term.
        self.others = [table.points for table in tables[1:]]
        factor = math.prod(float(c.sum()) ** 2 for c in scaled[1:])
        self.coefficients = scaled[0] * scaled[0].sum() * factor
        squared = radius**2 * np.asarray(self.base.weighted(self.points**2))
        for points in self.others:
            squared = squared * (points**2).max(axis=0)
        # A branch raises only coordinates from the one raised last on.
        self.sums = np.cumsum(squared[:, ::-1], axis=1)[:, ::-1]
        self.largest_exponent = float((self.base.exponent_rate or 0.0) * self.sums[:, 0].max(initial=0.0))

    def __call__(self, exponents: Int[np.ndarray, "M d"]) -> Float[np.ndarray, "M d"]:
        """Return logarithms of bounds (F, d) below monomials (F, d) of one degree, by the coordinate raised next.

        They lack the factor ``multinomial(k) lambda^k R^{2|k|}`` of the child.
        """
        degree = int(exponents[0].sum()) + 1
        log_tails = np.stack([self.base.log_tail(degree, sums) for sums in self.sums.T], axis=1)
        # Tails of high degrees vanish or overflow, their ratios do not.
        largest_tail = np.max(log_tails, axis=0)
        factors = self.coefficients[:, None] * np.exp(log_tails - largest_tail) * self.points**2
        bounds = np.empty(exponents.shape)
        for rows in chunks(len(exponents), CHUNK // len(self.points)):
            bounds[rows] = monomials(self.points, exponents[rows]) ** 2 @ factors
            for points in self.others:
                largest = np.max(monomials(points, exponents[rows]) ** 2, axis=1)
                bounds[rows] *= largest[:, None] * np.max(points**2, axis=0)
        with np.errstate(divide="ignore"):
            return np.log(bounds) + largest_tail


def _with_weights(
    layer: _Layer, base: FreeKernel, tables: Sequence[WeightedPoints], log_scale: float, offset: int
) -> _Layer:
    """Put each monomial's own weight beside the largest one of its ancestors."""
    weights = monomial_weights(base, tables, layer.exponents)
    squared = _scaled_squares(weights.value, log_scale)
    larger = squared > layer.best
    return layer._replace(
        value=weights.value,
        error=weights.error,
        squared=squared,
        at_most=_scaled_squares(np.abs(weights.value) + weights.error, log_scale),
        best=np.where(larger, squared, layer.best),
        best_index=np.where(larger, offset + np.arange(len(squared)), layer.best_index),
    )


def _children(
    layer: _Layer, bound: _BranchBound, tolerance: float, offset: int
) -> tuple[_Layer, tuple[Int[np.ndarray, " charges"], Float[np.ndarray, " charges"]]]:
    """Return the children whose branches are kept, and the charges for the others."""
    base: FreeKernel = bound.base
    degree, d = int(layer.exponents[0].sum()), layer.exponents.shape[1]
    weights = np.ones(d) if base.weights is None else np.asarray(base.weights)
    layers: list[_Layer] = []
    ended = degree >= base.degree_limit
    bounds = np.zeros_like(layer.exponents, dtype=float) if ended else bound(layer.exponents)
    charged_to, charges = [np.zeros(0, int)], [np.zeros(0)]
    for j in range(0 if ended else d):
        parents = np.flatnonzero(layer.raised <= j)
        if not len(parents):
            continue
        exponents = layer.exponents[parents].copy()
        exponents[:, j] += 1
        # log of multinomial(k) lambda^k R^{2|k|}, from that of the parent
        gain = math.log(weights[j]) + 2 * math.log(bound.radius) + math.log(degree + 1)
        log_factor = layer.log_factor[parents] + gain - np.log(exponents[:, j])
        weight = np.exp(log_factor + bounds[parents, j])
        # In units of the box a monomial is at most any ancestor, so that one of them can pay for a whole branch.
        dropped = weight <= tolerance * layer.best[parents]
        charged_to.append(layer.best_index[parents[dropped]])
        charges.append(weight[dropped])
        continued = parents[~dropped]
        layers.append(
            _Layer(*(part[continued] for part in layer))._replace(
                exponents=exponents[~dropped],
                parents=continued + offset,
                raised=np.full(len(continued), j),
                log_factor=log_factor[~dropped],
            )
        )
    children = _joined([_Layer(*(part[:0] for part in layer)), *layers])
    return children, (np.concatenate(charged_to), np.concatenate(charges))


def _trim(
    enumerated: Monomials, enumeration: _Enumeration, tolerance: float
) -> tuple[Bool[np.ndarray, " M"], Float[np.ndarray, " M"]]:
    """Drop childless monomials of small weight, the highest degrees first; return the mask kept and the charges.

    Branch bounds ignore that terms of a weight cancel, so many a monomial enumerated turns out not to be needed.
    """
    layer, charges = enumeration.layer, enumeration.charges.copy()
    mask, needed = np.ones(len(enumerated), bool), np.zeros(len(enumerated), bool)
    # From the highest degree down, as a monomial is computed from its parent and may go only after its children.
    for start, stop in reversed(list(pairwise(enumerated.layers[1:]))):
        rows = np.arange(start, stop)
        parents = enumerated.parents[rows]
        total = layer.at_most[rows] + charges[rows]
        drop = ~needed[rows] & (total <= tolerance * layer.best[parents])
        mask[rows[drop]] = False
        np.add.at(charges, layer.best_index[parents[drop]], total[drop])
        needed[parents[~drop]] = True
    return mask, charges
