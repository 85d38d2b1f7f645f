"""Kernel ridge regression on many rows in the span of few of them, with exact leave-one-out.

``g(x) = mean + sum_z alpha_z K_2(z, x)`` over m landmarks z minimises the weighted squared errors of all N rows plus a
penalty times ``alpha' K_2 alpha``; it is the mean of a Gaussian process approximated by its subset of regressors
(Quinonero-Candela and Rasmussen, J. Mach. Learn. Res. 6 (2005) 1939-1959). Time grows with N m^2, memory with m^2.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.linalg import cholesky, eigh, solve_triangular

from mkbo_plugins.core.kernels import FreeKernel

PENALTIES = np.geomspace(1e-4, 10.0, 11)
"""Penalties to try, in units of the mean of K_2(z, z) over the landmarks."""

BLOCK = 4_000
"""Rows that are dealt with at a time."""

JITTER = 1e-10
"""What is added to the diagonal between landmarks, in units of its mean, so that it has a Cholesky factor."""


@dataclass(frozen=True)
class LandmarkFit:
    """The regression of least leave-one-out error over the penalties.

    Parameters
    ----------
    values, errors
        Its values at the landmarks and their standard errors, (m,) each, for noise of the mean squared residual.
    alpha, bias
        Coefficients of K_2 at the landmarks, (m,), and the mean.
    residuals
        Held-out prediction minus value of each row, (N,), given kernel, penalty and mean.
    """

    values: Float[np.ndarray, " m"]
    errors: Float[np.ndarray, " m"]
    alpha: Float[np.ndarray, " m"]
    bias: float
    residuals: Float[np.ndarray, " N"]


def landmark_fit(
    kernel: FreeKernel,
    X: Float[np.ndarray, "N d"],
    y: Float[np.ndarray, " N"],
    landmarks: Float[np.ndarray, "m d"],
    sample_weight: Float[np.ndarray, " N"] | None = None,
    groups: Shaped[np.ndarray, " N"] | None = None,
    penalties: Float[np.ndarray, " p"] = PENALTIES,
) -> LandmarkFit:
    """Fit all rows in the span of landmarks; the penalty is the one of least leave-one-out error.

    Parameters
    ----------
    kernel
        Free kernel K_2.
    X, y
        Points, (N, d), and values, (N,).
    landmarks
        Points that span the functions, (m, d).
    sample_weight
        Positive weights of the squared errors, (N,).
    groups
        Group labels, (N,), held out together; None holds out single rows.
    penalties
        Those to choose from, in units of the mean of K_2(z, z).

    Raises
    ------
    LinAlgError, ValueError
        If double precision does not hold the Gram matrix.
    """
    weight = np.ones(len(y)) if sample_weight is None else sample_weight / np.mean(sample_weight)
    mean, root = float(np.average(y, weights=weight)), np.sqrt(weight)
    residual = root * (y - mean)
    basis = _Basis.of(kernel, landmarks)
    blocks = list(_blocks(np.arange(len(y)) if groups is None else groups))
    second, first = np.zeros((len(landmarks),) * 2), np.zeros(len(landmarks))
    for rows in blocks:
        F = root[rows, None] * basis(X[rows])
        second += F.T @ F
        first += F.T @ residual[rows]
    spectrum, vectors = eigh(second)
    shrinkage = 1 / (np.maximum(spectrum, 0.0)[:, None] + basis.unit * penalties)
    coefficients = shrinkage * (vectors.T @ first)[:, None]
    left = np.empty((len(y), len(penalties)))
    for rows in blocks:
        F = (root[rows, None] * basis(X[rows])) @ vectors
        misfit = F @ coefficients - residual[rows, None]
        if groups is None:
            left[rows] = misfit / (1 - F**2 @ shrinkage)
        else:
            for label in np.unique(groups[rows]):
                held = groups[rows] == label
                left[rows[held]] = _without(F[held], misfit[held], shrinkage)
    squared = np.mean(left**2, axis=0)
    best = int(np.argmin(squared))
    F = basis(landmarks) @ vectors
    variances = squared[best] * (F**2 @ shrinkage[:, best])
    alpha = basis.pulled(vectors @ coefficients[:, best])
    return LandmarkFit(mean + F @ coefficients[:, best], np.sqrt(variances), alpha, mean, left[:, best] / root)


@dataclass(frozen=True, eq=False)
class _Basis:
    """Functions whose squared coefficients sum to ``alpha' K_2 alpha``."""

    kernel: FreeKernel
    landmarks: Float[np.ndarray, "m d"]
    factor: Float[np.ndarray, "m m"]
    unit: float

    @classmethod
    def of(cls, kernel: FreeKernel, landmarks: Float[np.ndarray, "m d"]) -> "_Basis":
        gram = np.asarray(kernel.gram(landmarks))
        unit = float(np.mean(gram.diagonal()))
        return cls(kernel, landmarks, cholesky(gram + JITTER * unit * np.eye(len(gram)), lower=True), unit)

    def __call__(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n m"]:
        return solve_triangular(self.factor, np.asarray(self.kernel.gram(self.landmarks, X)), lower=True).T

    def pulled(self, coefficients: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """Return coefficients of K_2 at the landmarks, (m,), that give what these of the functions do."""
        return solve_triangular(self.factor, coefficients, lower=True, trans="T")


def _blocks(groups: Shaped[np.ndarray, " N"]) -> Iterator[Int[np.ndarray, " n"]]:
    """Yield numbers of rows, (n,), about `BLOCK` of them at a time, groups whole."""
    _, members, counts = np.unique(groups, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    # A group belongs to the block in which it begins.
    starts = np.searchsorted((ends - counts) // BLOCK, np.arange(1, 1 + (len(members) - 1) // BLOCK))
    yield from np.split(np.argsort(members, kind="stable"), (ends - counts)[starts[starts < len(ends)]])


def _without(
    F: Float[np.ndarray, "s m"], misfit: Float[np.ndarray, "s p"], shrinkage: Float[np.ndarray, "m p"]
) -> Float[np.ndarray, "s p"]:
    """Return the misfit (s, p) of s rows, with features (s, m), that are held out together, for each of p penalties."""
    left = np.empty_like(misfit)
    for column, (of, by) in enumerate(zip(misfit.T, shrinkage.T, strict=True)):
        if len(F) <= F.shape[1]:
            left[:, column] = np.linalg.solve(np.eye(len(F)) - (F * by) @ F.T, of)
        else:
            # The same by the identity of Woodbury, where more rows are held out than there are features.
            left[:, column] = of + F @ np.linalg.solve(np.diag(1 / by) - F.T @ F, F.T @ of)
    return left
