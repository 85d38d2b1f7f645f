"""Double-double arithmetic: unevaluated sums ``hi + lo`` of two doubles, about 32 digits, for any array namespace.

The pair sum is redone with it where terms cancel beyond double precision. Only elementary operations of the array API
are used, no fused multiply-add, so NumPy and PyTorch agree bit by bit up to the order of additions in `dot`.

Error bounds are in units of ``eps = 2**-104``. They hold while every product of two parts stays within ``2**-969`` and
``2**996``; below, parts underflow and only the absolute error is bounded. Infinities and NaN are not supported.

References
----------
T. J. Dekker, "A floating-point technique for extending the available precision", Numer. Math. 18, 1971.
Y. Hida, X. S. Li, D. H. Bailey, "Algorithms for quad-double precision floating point arithmetic", ARITH-15, 2001.
K. Ozaki, T. Ogita, S. Oishi, S. M. Rump, "Error-free transformations of matrix multiplication by using fast routines of
matrix multiplication and its applications", Numer. Algorithms 59, 2012.
"""

import math
from collections.abc import Iterable
from decimal import Decimal, localcontext
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace, chunks, constant


class DoubleDouble(NamedTuple):
    """The unevaluated sum ``hi + lo`` of float64 arrays of one shape, ``|lo|`` at most half an ulp of `hi`."""

    hi: Float[Array, "*shape"]
    lo: Float[Array, "*shape"]

    def at(self, index: Any) -> "DoubleDouble":
        """Return what both arrays hold at an index."""
        return DoubleDouble(self.hi[index], self.lo[index])

    def like(self, array: Array) -> "DoubleDouble":
        """Return host numbers as arrays like `array`."""
        return DoubleDouble(constant(self.hi, array), constant(self.lo, array))


STEPS_LOG2 = 12
STEPS = 1 << STEPS_LOG2
"""Steps of `exp` from one power of two to the next."""

GRID = 1 << 25
"""Inverse distance of the second table's arguments."""

NEAR = 2840
"""Arguments of the second table to each side of zero: half a step times GRID, rounded up."""

LOWEST = -746.0
"""Where `exp` has underflowed to zero."""

LEAST_POWER = -1078
"""Exponent of the first entry of the table of powers of two."""

THIRD = DoubleDouble(1 / 3, 2.0**-54 / 3)
"""One third."""

TILE = 1 << 14
"""Entries that `exp` works on at once, so that its dozen temporaries stay in the second-level cache."""


def two_sum(a: Float[Array, "..."], b: Float[Array, "..."]) -> DoubleDouble:
    """Return ``a + b`` without error (Knuth)."""
    hi = a + b
    of_b = hi - a
    lo = a - (hi - of_b)
    lo += b - of_b
    return DoubleDouble(hi, lo)


def two_product(a: Float[Array, "..."], b: Float[Array, "..."]) -> DoubleDouble:
    """Return ``a * b`` without error (Dekker), within the range that the module states."""
    hi = a * b
    a_hi, a_lo = _split(a)
    b_hi, b_lo = _split(b)
    lo = a_hi * b_hi - hi
    lo += a_hi * b_lo
    lo += a_lo * b_hi
    lo += a_lo * b_lo
    return DoubleDouble(hi, lo)


def from_double(a: Float[Array, "..."]) -> DoubleDouble:
    """Return doubles as double-doubles."""
    return DoubleDouble(a, array_namespace(a).zeros_like(a))


def scale(a: DoubleDouble, factor: Array) -> DoubleDouble:
    """Return ``a * factor``, exact for factors that are 0 or powers of two with either sign."""
    return DoubleDouble(a.hi * factor, a.lo * factor)


def add(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """Return ``a + b`` with an error of at most ``eps * (|a| + |b|)``, which cancellation may make large."""
    hi, lo = two_sum(a.hi, b.hi)
    lo += a.lo + b.lo
    return _normalise(hi, lo)


def subtract(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """Return ``a - b`` with the error of `add`."""
    return add(a, scale(b, -1.0))


def multiply(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """Return ``a * b`` with a relative error of at most ``2 * eps``."""
    hi, lo = two_product(a.hi, b.hi)
    lo += a.hi * b.lo + a.lo * b.hi
    return _normalise(hi, lo)


def dot(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """Return the inner products of the rows of `a` (n, d) and `b` (p, d), of shape (n, p).

    Rows are cut into slices of so few bits that matrix products of leading slices are exact (Ozaki et al.). The error
    is at most ``eps * d * max|a_i| * max|b_j|`` over the entries of the two rows.
    """
    xp = array_namespace(a.hi, b.hi)
    bits = (47 - math.ceil(math.log2(max(1, a.hi.shape[-1])))) // 2
    a1, a2, a3, a4 = _slices(a, bits)
    b1, b2, b3, b4 = _slices(b, bits)

    def matmul(left: list[Float[Array, "n d"]], right: list[Float[Array, "p d"]]) -> Float[Array, "n p"]:
        return xp.concat(left, axis=-1) @ xp.concat(right, axis=-1).T

    hi, lo = two_sum(matmul([a1], [b1]), matmul([a1, a2], [b2, b1]))
    hi, error = two_sum(hi, matmul([a1, a2, a3], [b3, b2, b1]))
    lo += error + matmul([a1, a2, a3, a4], [b4, b3 + b4, b2 + (b3 + b4), b.hi])
    return two_sum(hi, lo)


def sum_axis(a: DoubleDouble, axis: int) -> DoubleDouble:
    """Return the sum over one axis by halves.

    The error is at most ``((log2(count) + 3) / 2)**2 * eps`` of the sum of absolute values.
    """
    xp = array_namespace(a.hi)
    hi, lo = (xp.moveaxis(part, axis, 0) for part in a)
    total = from_double(xp.zeros(hi.shape[1:], dtype=hi.dtype, device=device(hi)))
    while count := hi.shape[0]:
        if count % 2:
            total = add(total, DoubleDouble(hi[-1, ...], lo[-1, ...]))
        half = count // 2
        low = lo[:half, ...] + lo[half : 2 * half, ...]
        hi, lo = two_sum(hi[:half, ...], hi[half : 2 * half, ...])
        lo += low
    return total


def exp(x: DoubleDouble) -> DoubleDouble:
    """Return ``exp(x)`` for x below 709 with a relative error of at most ``6 * eps``, 3e-31.

    Below -671 the low part is subnormal and the absolute error is at most ``2**-1073``; below -745.14 the result is 0.

    With ``x = k step + i / GRID + d`` it is ``2**m * roots[j] * near_one[i] * exp(d)`` for ``k = m STEPS + j``, and
    ``|d| < 2**-26`` needs the series only to its third term, beyond the first in double precision.
    """
    xp = array_namespace(x.hi)
    step, host_tables = _exp_tables()
    tables = [constant(table, x.hi) for table in host_tables]
    flat = DoubleDouble(*(xp.reshape(part, (-1,)) for part in x))
    tiles = [_exp_tile(flat.at(part), step, tables) for part in chunks(flat.hi.shape[0], TILE)]
    return DoubleDouble(*(xp.reshape(xp.concat(part), x.hi.shape) for part in zip(*tiles, strict=True)))


def expm1(x: DoubleDouble) -> DoubleDouble:
    """Return ``exp(x) - 1`` for x from -2**-16 to 2**-16 with a relative error of at most ``6 * eps``."""
    xp = array_namespace(x.hi)
    one, third = xp.ones_like(x.hi), DoubleDouble(*(xp.full_like(x.hi, part) for part in THIRD))
    # Of the series x (1 + x/2 (1 + x/3 (1 + ...))) the rest is so small that its leading half suffices.
    series = two_sum(one, x.hi / 4 * (1 + x.hi / 5 * (1 + x.hi / 6 * (1 + x.hi / 7))))
    series = add(from_double(one), multiply(multiply(x, third), series))
    return multiply(x, add(from_double(one), multiply(scale(x, 0.5), series)))


def log(values: Float[np.ndarray, "..."]) -> DoubleDouble:
    """Return the logarithms of host doubles from 1e-290 to 1e290, with an error of ``(8 + |log|) * eps``."""
    first = np.log(values)
    ratio = multiply(exp(from_double(-first)), from_double(values))
    excess = subtract(ratio, from_double(np.ones_like(first)))
    # log(1 + t) is t - t**2 / 2 to t**3, 1e-39 at most.
    return add(DoubleDouble(first, -0.5 * excess.hi**2), excess)


def _split(a: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Return two halves of 26 bits whose sum is `a` (Veltkamp)."""
    hi = a * 134217729.0  # 2**27 + 1
    hi = hi - (hi - a)
    return hi, a - hi


def _normalise(hi: Float[Array, "*shape"], lo: Float[Array, "*shape"]) -> DoubleDouble:
    """Return ``hi + lo`` without error where ``|hi| >= |lo|`` (Dekker)."""
    total = hi + lo
    return DoubleDouble(total, lo - (total - hi))


def _slices(a: DoubleDouble, bits: int) -> list[Float[Array, "n d"]]:
    """Return three slices of at most ``bits + 2`` bits below each row's maximum, and the remainder, as doubles."""
    xp = array_namespace(a.hi)
    hi, lo = a
    anchor = xp.max(xp.abs(hi), axis=-1, keepdims=True) * 2.0 ** (53 - bits)
    slices = []
    for _ in range(3):
        # Adding a large number rounds to multiples of its last bit.
        leading = hi + anchor
        leading -= anchor
        slices.append(leading)
        hi, lo = two_sum(hi - leading, lo)
        anchor = anchor * 2.0**-bits
    return [*slices, hi]


def _exp_tile(x: DoubleDouble, step: tuple[float, ...], tables: list[Array]) -> DoubleDouble:
    xp = array_namespace(x.hi)
    underflow = x.hi < LOWEST
    hi, lo = xp.where(underflow, LOWEST, x.hi), xp.where(underflow, 0.0, x.lo)

    steps = xp.round(hi * (1 / sum(step)))
    # The first product is exact, and so is the difference of two nearly equal numbers.
    hi, lo = two_sum(hi - steps * step[0], lo)
    hi, error = two_sum(hi, steps * -step[1])
    lo += error
    lo -= steps * step[2]
    near = xp.round(hi * GRID)
    hi -= near * (1 / GRID)
    rest = hi + lo
    lo += rest * rest * (0.5 + rest * (1 / 6))

    count = xp.astype(steps, xp.int64)
    root, factor, power = count & (STEPS - 1), xp.astype(near, xp.int64) + NEAR, (count >> STEPS_LOG2) - LEAST_POWER
    root_hi, root_lo, factor_hi, factor_lo, power = (
        xp.take(table, index, axis=0) for table, index in zip(tables, (root, root, factor, factor, power), strict=True)
    )
    product = multiply(DoubleDouble(root_hi, root_lo), DoubleDouble(factor_hi, factor_lo))
    return scale(add(product, multiply(product, DoubleDouble(hi, lo))), power)


@cache
def _exp_tables() -> tuple[tuple[float, ...], tuple[np.ndarray, ...]]:
    """Compute from 50 digits log(2) / STEPS in three parts, and the tables: two of pairs (hi, lo), and powers of 2."""
    with localcontext(prec=50):
        step = Decimal(2).ln() / STEPS
        # 30 bits times a number of steps, below 2**23, are exact.
        first = round(step * 2**42) / 2**42
        second = round((step - Decimal(first)) * 2**72) / 2**72
        third = float(step - Decimal(first) - Decimal(second))
        # Half the root, so that the smallest subnormal number is its product with a power of two.
        root, near = step.exp(), (1 / Decimal(GRID)).exp()
        roots = _from_decimals(root**j / 2 for j in range(STEPS))
        near_one = _from_decimals(near**i for i in range(-NEAR, NEAR + 1))
    powers = np.array([math.ldexp(1.0, exponent + 1) for exponent in range(LEAST_POWER, 1023)])
    return (first, second, third), (*roots, *near_one, powers)


def _from_decimals(values: Iterable[Decimal]) -> DoubleDouble:
    pairs = [(hi := float(value), float(value - Decimal(hi))) for value in values]
    return DoubleDouble(*np.array(pairs).T.copy())
