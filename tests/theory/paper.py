"""Formulas of Shilton et al., arXiv 1802.05370, written out from its text in arithmetic of 40 digits.

Nothing here uses the package. Numbers are exact or mpmath's; points are sequences of them.
"""

from itertools import combinations, product
from math import factorial

import mpmath
import numpy as np

mp = mpmath.mp.clone()
mp.dps = 40

POINTS = ((0.5, -0.75), (-0.25, 1.0), (0.875, 0.125), (-0.625, -0.5), (0.375, 0.25), (1.0, -0.375))
"""Points whose coordinates doubles hold exactly."""
ALPHA = (0.75, -1.25, 0.5, 1.0, -0.625, -0.375)
"""Coefficients that sum to zero, as those of a machine with a bias do."""


def exact(values):
    """Return numbers, or rows of them, as mpmath's, without rounding."""
    try:
        return [exact(value) for value in values]
    except TypeError:
        return mp.mpf(float(values))


def close(found, expected, rtol=1e-13, atol=0.0):
    """Assert that doubles are those of the brute force."""
    np.testing.assert_allclose(found, np.array(expected, dtype=float), rtol=rtol, atol=atol)


def total(terms):
    """Return the sum of numbers."""
    return mp.fsum(terms)


def times(*vectors):
    """Return the elementwise product of vectors."""
    return [mp.fprod(values) for values in zip(*vectors, strict=True)]


def semi_inner_product(*vectors):
    """Return <<a, a', ...>>_m = <1, a a' ...>."""
    return total(times(*vectors))


def inner(a, b):
    """Return <a, b>."""
    return semi_inner_product(a, b)


def norm(a, p=2):
    """Return the norm of order p of a vector."""
    return total(abs(value) ** p for value in a) ** (mp.one / p)


def linear(*x):
    """Return K_m^lin of table 1."""
    return semi_inner_product(*x)


def polynomial(q):
    """Return K_m^poly of table 1."""
    return lambda *x: (1 + semi_inner_product(*x)) ** q


def exponential(sigma):
    """Return K_m^exp of table 1."""
    return lambda *x: mp.exp(semi_inner_product(*x) / mp.mpf(sigma))


def squared_exponential(sigma):
    """Return K_m^se of table 1, with the squares that it lacks."""
    return lambda *x: mp.exp((2 * semi_inner_product(*x) - total(norm(one) ** 2 for one in x)) / (2 * mp.mpf(sigma)))


def series(*kappa):
    """Return K_m = h(<<x, ...>>_m) of theorem 2, h with coefficients kappa."""
    return lambda *x: total(
        mp.mpf(value) * semi_inner_product(*x) ** degree for degree, value in enumerate(kappa) if value
    )


def normalised(kernel):
    """Return the normalised free kernel of definition 3."""
    return lambda *x: kernel(*x) / mp.fprod(mp.sqrt(kernel(one, one)) for one in x)


def reweighted(kernel, points, alpha):
    """Return K_m^E of theorem 3."""
    pairs = list(product(zip(points, alpha, strict=True), repeat=2))
    return lambda *x: total(a * b * kernel(left, right, *x) for (left, a), (right, b) in pairs)


def two_layer(kernel, scale):
    """Return the squared exponential of the kernel's feature distance, K_2^se(K(x, x'))."""
    return lambda x, y: mp.exp(-(kernel(x, x) + kernel(y, y) - 2 * kernel(x, y)) / (2 * mp.mpf(scale)))


def exponents(n, degree):
    """Return all k_1, ..., k_n >= 0 of sum up to a degree."""
    return [k for k in product(range(degree + 1), repeat=n) if sum(k) <= degree]


def monomial(k, x):
    """Return x_1^k_1 ... x_n^k_n."""
    return mp.fprod(value**power for value, power in zip(x, k, strict=True))


def multinomial(k):
    """Return (sum of k)! over the product of factorials of k."""
    result = factorial(sum(k))
    for power in k:
        result //= factorial(power)
    return result


def tau_squared(kappa, k):
    """Return tau_k^2 of theorem 2; kappa is a function of the degree."""
    return mp.mpf(kappa(sum(k))) * multinomial(k)


def gram(kernel, points, others=None):
    """Return values between points."""
    return [[kernel(x, y) for y in (points if others is None else others)] for x in points]


def flattened(kernel, points, q):
    """Return the values of L of theorem 1 between all q-tuples of points, as a matrix."""
    tuples = list(product(points, repeat=q))
    return mp.matrix([[kernel(*left, *right) for right in tuples] for left in tuples])


def asymmetry(kernel, points, q):
    """Return the largest change of a value when two arguments are exchanged."""
    changes = [mp.zero]
    for x in product(points, repeat=2 * q):
        for i, j in combinations(range(2 * q), 2):
            swapped = list(x)
            swapped[i], swapped[j] = x[j], x[i]
            changes.append(abs(kernel(*x) - kernel(*swapped)))
    return max(changes)


def tensor_sum(kernel, order, points, alpha, *last):
    """Return the sum over i_1, ..., i_order of alpha_(i_1) ... alpha_(i_order) K(x_(i_1), ..., x_(i_order), last)."""
    return total(
        mp.fprod(alpha[i] for i in index) * kernel(*(points[i] for i in index), *last)
        for index in product(range(len(points)), repeat=order)
    )


class Posterior:
    """Posterior of a Gaussian process with prior covariance `kernel`, of zero mean, given values with noise nu^2."""

    def __init__(self, kernel, points, y, noise):
        self.kernel, self.points = kernel, points
        covariance = mp.matrix(gram(kernel, points))
        self.inverse = (covariance + noise * mp.eye(len(points))) ** -1
        self.y = mp.matrix(y)

    def cross(self, x):
        """Return k_t(x)."""
        return mp.matrix([self.kernel(one, x) for one in self.points])

    def mean(self, x):
        """Return mu_t(x)."""
        return (self.cross(x).T * self.inverse * self.y)[0]

    def variance(self, x):
        """Return sigma_t^2(x)."""
        return self.kernel(x, x) - (self.cross(x).T * self.inverse * self.cross(x))[0]


def probability_of_improvement(mean, deviation, best):
    """Return a^PI."""
    return mp.ncdf((mean - best) / deviation)


def expected_improvement(mean, deviation, best):
    """Return a^EI."""
    z = (mean - best) / deviation
    return (mean - best) * mp.ncdf(z) + deviation * mp.npdf(z)


def upper_confidence_bound(mean, deviation, beta):
    """Return a^UCB."""
    return mean + mp.sqrt(beta) * deviation
