r"""Free kernels: covariance functions of any number of arguments.

With the multi-argument product ``<<x1, ..., xm>> = sum_j weights_j x1_j ... xm_j``, every kernel here is

.. math:: K_m(x_1, ..., x_m) = h(<<x_1, ..., x_m>>) \prod_i \exp(-r \sum_j weights_j x_{ij}^2),

with a power series ``h(c) = sum_q kappa_q c^q`` of non-negative coefficients and a damping rate ``r``, zero for all
but the squared exponential. Theorem 2 of Shilton et al., "Covariance Function Pre-Training with m-Kernels for
Accelerated Bayesian Optimisation" (arXiv 1802.05370): such a kernel is *free*, that is, its feature map
``theta_k(x) = prod_j x_j^{k_j}`` and feature weights
``tau_k^2 = kappa_|k| multinomial(k) prod_j weights_j^{k_j}`` are the same for every m.

Symbols of the paper: ``h``, ``kappa``, ``sigma`` and ``tau`` as there; ``weights`` is lambda, 1 in the paper.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from numbers import Integral, Real
from typing import Any

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace, constant, coordinates
from mkbo_plugins.errors import KernelError


def positive(value: Any, name: str) -> float:
    """Return a finite number above 0 as a float.

    Raises
    ------
    KernelError
        If it is not one; the message calls it `name`.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise KernelError(f"{name} must be a finite number above 0, got {value!r}")
    return float(value)


def not_negative(value: Any, name: str) -> float:
    """Return a finite number of at least 0 as a float.

    Raises
    ------
    KernelError
        If it is not one; the message calls it `name`.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
        raise KernelError(f"{name} must be a finite number of at least 0, got {value!r}")
    return float(value)


def sequence(values: Any, name: str) -> tuple[Any, ...]:
    """Return the items of a list, tuple or vector.

    Raises
    ------
    KernelError
        If `values` is none of these; the message calls it `name`.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise KernelError(f"{name} must be a sequence of numbers, got {values!r}")
    return tuple(values)


@dataclass(frozen=True, kw_only=True)
class FreeKernel(ABC):
    """A free kernel of any number of arguments (Theorem 2).

    Parameters
    ----------
    weights
        Positive weights lambda_j of the coordinates, (d,); None weighs every coordinate by 1 in any dimension.
        For the squared exponential, ``sigma / weights_j`` is the squared length scale of coordinate j.

    Raises
    ------
    KernelError
        If a weight is not a finite number above 0.
    """

    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.weights is not None:
            weights = tuple(
                positive(weight, f"weights[{j}]") for j, weight in enumerate(sequence(self.weights, "weights"))
            )
            object.__setattr__(self, "weights", weights)

    @property
    def dimension(self) -> int | None:
        """Number of coordinates that `weights` fixes, or None when any number is accepted."""
        return None if self.weights is None else len(self.weights)

    @property
    @abstractmethod
    def damping_rate(self) -> float:
        """Rate r of the damping exp(-r ||x||^2) that each argument carries."""

    @property
    @abstractmethod
    def exponent_rate(self) -> float | None:
        """Rate of h(c) = exp(rate * c), or None where h is not an exponential and needs no log scaling."""

    @abstractmethod
    def series(self, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Return h(c) elementwise."""

    @abstractmethod
    def derivative(self, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Return h'(c) elementwise."""

    @abstractmethod
    def second_derivative(self, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Return h''(c) elementwise."""

    @abstractmethod
    def coefficient(self, degree: int) -> float:
        """Return the series coefficient kappa_degree, or 0 beyond the last one."""

    def log_coefficient(self, degree: int) -> float:
        """Return log kappa_degree, minus infinity where the series lacks the degree."""
        kappa = self.coefficient(degree)
        return math.log(kappa) if kappa else -math.inf

    def log_tail(self, degree: int, c: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Return log of ``h^(q)(c) / q!``, the sum over p of kappa_{q+p} binomial(q+p, p) c^p, for c >= 0."""
        coefficients = tuple(
            self.coefficient(q) * math.comb(q, degree) for q in range(degree, int(self.degree_limit) + 1)
        )
        with np.errstate(divide="ignore"):
            return np.log(_horner(coefficients, c))

    @property
    @abstractmethod
    def degree_limit(self) -> float:
        """Highest degree with a non-zero coefficient; infinity for an unending series."""

    def weighted(self, X: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        """Return ``weights * X``, shape of `X`."""
        return X if self.weights is None else X * constant(self.weights, X)

    def log_damping(self, X: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        """Return the logarithm of the damping of each point, (..., n) for points (..., n, d)."""
        return -self.damping_rate * array_namespace(X).sum(self.weighted(X) * X, axis=-1)

    def _evaluate(self, c: Float[Array, "..."], log_damping: Float[Array, "..."]) -> Float[Array, "..."]:
        xp = array_namespace(c)
        if self.exponent_rate is not None:
            return xp.exp(self.exponent_rate * c + log_damping)
        return self.series(c)

    def __call__(self, *points: Array) -> Float[Array, "..."]:
        """Evaluate K_m at m points.

        Parameters
        ----------
        *points
            m >= 1 arrays (..., d) whose leading shapes broadcast.

        Returns
        -------
        array
            Values, of the broadcast leading shape.

        Raises
        ------
        KernelError
            If no point is given or a point has the wrong number of coordinates.
        """
        points = check_points(points, self.dimension)
        xp = array_namespace(*points)
        c = xp.sum(self.weighted(reduce(lambda a, b: a * b, points)), axis=-1)
        return self._evaluate(c, sum(self.log_damping(x) for x in points))

    def gram(self, X: Array, Y: Array | None = None) -> Float[Array, "... n m"]:
        """Return the Gram matrix K_2(X_i, Y_j), (..., n, n'), for points (..., n, d) and (..., n', d)."""
        X, Y = gram_points(X, Y, self.dimension)
        return self.between(X, X if Y is None else Y)

    def between(self, X: Float[Array, "... n d"], Y: Float[Array, "... m d"]) -> Float[Array, "... n m"]:
        """Return `gram` of points that are known to be as it demands."""
        c = self.weighted(X) @ Y.mT
        return self._evaluate(c, self.log_damping(X)[..., :, None] + self.log_damping(Y)[..., None, :])

    def pull(
        self,
        X: Float[Array, "... #n d"],
        Y: Float[Array, "... m d"],
        upstream: Float[Array, "... n m"],
        *,
        second: bool = True,
    ) -> tuple[Float[Array, "... n d"], Float[Array, "... m d"] | None]:
        """Pull a gradient with respect to ``gram(X, Y)``, (..., n, n'), back to X and Y, or only to X.

        Of a single X, several gradients are pulled back at once.
        """
        xp = array_namespace(X, Y)
        c = self.weighted(X) @ Y.mT
        if self.exponent_rate is None:
            slope = upstream * self.derivative(c)
        else:
            log_damping = self.log_damping(X)[..., :, None] + self.log_damping(Y)[..., None, :]
            slope = upstream * xp.exp(self.exponent_rate * c + log_damping)
        of_x = self._pull(slope, X, Y)
        return of_x, self._pull(slope.mT, Y, X) if second else None

    def _pull(
        self, slope: Float[Array, "... n m"], X: Float[Array, "... #n d"], Y: Float[Array, "... #m d"]
    ) -> Float[Array, "... n d"]:
        """Pull a gradient with respect to the exponents, or the arguments of the series, (..., n, n'), back to X."""
        xp = array_namespace(slope)
        of_x = (self.exponent_rate or 1.0) * (slope @ Y)
        if self.damping_rate:
            of_x = of_x - 2 * self.damping_rate * xp.sum(slope, axis=-1)[..., None] * X
        return self.weighted(of_x)


def check_points(points: Sequence[Array], dimension: int | None) -> tuple[Float[Array, "... d"], ...]:
    """Check the arguments of an m-argument kernel call: at least one point, all of one dimension."""
    if not points:
        raise KernelError("a kernel needs at least one point")
    first = coordinates(points[0], dimension, "argument 1")
    return tuple(coordinates(x, first.shape[-1], f"argument {i}") for i, x in enumerate(points, 1))


def gram_points(
    X: Array, Y: Array | None, dimension: int | None
) -> tuple[Float[Array, "... n d"], Float[Array, "... m d"] | None]:
    """Check the arguments of a Gram matrix: points (..., n, d) and (..., n', d); Y=None stays None, meaning Y is X."""
    X = coordinates(X, dimension)
    Y = None if Y is None else coordinates(Y, X.shape[-1], "Y")
    for name, points in (("X", X), ("Y", Y)):
        if points is not None and points.ndim < 2:
            raise KernelError(f"a Gram matrix needs points (n, d), got {name} of shape {tuple(points.shape)}")
    return X, Y


@dataclass(frozen=True)
class Linear(FreeKernel):
    """Linear kernel, h(c) = c."""

    damping_rate = 0.0
    exponent_rate = None
    degree_limit = 1

    def series(self, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return c

    def derivative(self, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return c * 0 + 1

    def second_derivative(self, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return c * 0

    def coefficient(self, degree: int) -> float:
        return float(degree == 1)


@dataclass(frozen=True)
class Polynomial(FreeKernel):
    """Polynomial kernel, h(c) = (1 + c)^degree.

    Parameters
    ----------
    degree
        Integer exponent, at least 1.
    """

    degree: int = 3

    damping_rate = 0.0
    exponent_rate = None

    def __post_init__(self) -> None:
        super().__post_init__()
        degree: Any = self.degree
        if isinstance(degree, bool) or not isinstance(degree, Integral) or degree < 1:
            raise KernelError(f"degree must be an integer of at least 1, got {degree!r}")
        object.__setattr__(self, "degree", int(degree))

    @property
    def degree_limit(self) -> float:
        return self.degree

    def series(self, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return (1 + c) ** self.degree

    def derivative(self, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self.degree * (1 + c) ** (self.degree - 1)

    def second_derivative(self, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self.degree * (self.degree - 1) * (1 + c) ** max(self.degree - 2, 0)

    def coefficient(self, degree: int) -> float:
        return float(math.comb(self.degree, degree))


@dataclass(frozen=True)
class TaylorSeries(FreeKernel):
    """Kernel of a power series given by its coefficients, h(c) = sum_q coefficients[q] c^q.

    Parameters
    ----------
    coefficients
        Non-negative kappa_0, kappa_1, ..., at least one of them positive.
    """

    coefficients: tuple[float, ...] = field(default=())

    damping_rate = 0.0
    exponent_rate = None

    def __post_init__(self) -> None:
        super().__post_init__()
        values = sequence(self.coefficients, "coefficients")
        coefficients = tuple(not_negative(kappa, f"coefficients[{q}]") for q, kappa in enumerate(values))
        if not any(coefficients):
            raise KernelError("coefficients must hold at least one number above 0")
        object.__setattr__(self, "coefficients", coefficients)

    @property
    def degree_limit(self) -> float:
        return max(q for q, kappa in enumerate(self.coefficients) if kappa)

    def series(self, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return _horner(self.coefficients, c)

    def derivative(self, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return _horner(_derived(self.coefficients), c)

    def second_derivative(self, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return _horner(_derived(_derived(self.coefficients)), c)

    def coefficient(self, degree: int) -> float:
        return self.coefficients[degree] if degree < len(self.coefficients) else 0.0


def _derived(coefficients: Sequence[float]) -> tuple[float, ...]:
    return tuple(q * kappa for q, kappa in enumerate(coefficients))[1:]


def _horner(coefficients: Sequence[float], c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return reduce(lambda total, kappa: total * c + kappa, reversed(coefficients), c * 0)


@dataclass(frozen=True)
class _ExponentialSeries(FreeKernel, ABC):
    """Shared series h(c) = exp(c / sigma) of the exponential and squared exponential kernels."""

    sigma: float = 1.0
    exponent_rate: float = field(default=1.0, init=False, repr=False, compare=False)

    degree_limit = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sigma", positive(self.sigma, "sigma"))
        object.__setattr__(self, "exponent_rate", 1 / self.sigma)

    def series(self, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return array_namespace(c).exp(c / self.sigma)

    def derivative(self, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self.series(c) / self.sigma

    def second_derivative(self, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self.series(c) / self.sigma**2

    def coefficient(self, degree: int) -> float:
        return math.exp(self.log_coefficient(degree))

    def log_tail(self, degree: int, c: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        return self.log_coefficient(degree) + c / self.sigma

    def log_coefficient(self, degree: int) -> float:
        return -degree * math.log(self.sigma) - math.lgamma(degree + 1)


@dataclass(frozen=True)
class Exponential(_ExponentialSeries):
    """Exponential kernel, h(c) = exp(c / sigma).

    Parameters
    ----------
    sigma
        Squared length scale, above 0, in squared coordinate units.
    """

    damping_rate = 0.0


@dataclass(frozen=True)
class SquaredExponential(_ExponentialSeries):
    """Squared exponential kernel, the normalised exponential (Definition 3).

    ``K_m = exp((2 <<x1, ..., xm>> - sum_i ||x_i||^2) / (2 sigma))`` with ``||x||^2 = sum_j weights_j x_j^2``, so that
    ``K_2`` is the usual radial basis function with squared length scales ``sigma / weights_j``.

    Parameters
    ----------
    sigma
        Squared length scale, above 0, in squared coordinate units.

    Notes
    -----
    Table 1 of the paper prints the norms without squares, which would give K_2(x, x) != 1.
    """

    @property
    def damping_rate(self) -> float:
        return 1 / (2 * self.sigma)
