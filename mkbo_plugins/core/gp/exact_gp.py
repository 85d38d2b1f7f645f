"""Exact Gaussian process, given its covariance at the data: evidence, prediction and leave-one-out."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Shaped
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri


@dataclass(frozen=True, eq=False)
class ExactGP:
    """A Gaussian process of constant mean conditioned on data.

    Parameters
    ----------
    factor
        Lower Cholesky factor of the covariance of the data with noise, (n, n).
    mean
        The constant.
    residual
        Data minus the constant, (n,).
    """

    factor: Float[np.ndarray, "n n"]
    mean: float
    residual: Float[np.ndarray, " n"]

    @classmethod
    def conditioned(
        cls, covariance: Float[np.ndarray, "n n"], y: Float[np.ndarray, " n"], mean: float | None = None
    ) -> "ExactGP":
        """Condition on values y (n,) whose covariance, noise included, is (n, n).

        Without a `mean`, it is the most likely one, 1' K^-1 y / 1' K^-1 1.

        Raises
        ------
        LinAlgError
            If the covariance is not positive definite.
        """
        factor = cholesky(covariance, lower=True)
        if mean is None:
            ones = cho_solve((factor, True), np.ones_like(y))
            mean = float(ones @ y / ones.sum())
        return cls(factor, mean, y - mean)

    @cached_property
    def dual(self) -> Float[np.ndarray, " n"]:
        """The vector K^-1 (y - mean), (n,)."""
        return cho_solve((self.factor, True), self.residual)

    @cached_property
    def inverse(self) -> Float[np.ndarray, "n n"]:
        """The inverse of the covariance of the data with noise, (n, n)."""
        # LAPACK's inverse from the factor takes a third of the operations of solving for an identity matrix.
        lower, _ = dpotri(self.factor, lower=1)
        return np.tril(lower) + np.tril(lower, -1).T

    @property
    def deviance(self) -> float:
        """Minus twice the log evidence, without its constant n log(2 pi)."""
        return float(self.residual @ self.dual + 2 * np.log(np.diag(self.factor)).sum())

    @property
    def log_evidence(self) -> float:
        """Logarithm of the density of the data."""
        return -(self.deviance + len(self.residual) * math.log(2 * math.pi)) / 2

    def evidence_slope(self) -> Float[np.ndarray, "n n"]:
        """Return the gradient of the log evidence in the covariance, (n, n).

        The most likely constant adds nothing, since the evidence is stationary in it.
        """
        return (np.outer(self.dual, self.dual) - self.inverse) / 2

    def predict_mean(self, cross: Float[np.ndarray, "m n"]) -> Float[np.ndarray, " m"]:
        """Return the mean (m,) from covariances with the data, (m, n)."""
        return self.mean + cross @ self.dual

    def predict(
        self, cross: Float[np.ndarray, "m n"], prior: Float[np.ndarray, " m"] | float
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and variance, each (m,), from covariances with the data (m, n) and prior variances (m,)."""
        return self.predict_mean(cross), prior - (self.whitened(cross) ** 2).sum(axis=0)

    def whitened(self, cross: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "n m"]:
        """Return the whitened cross-covariance V (n, m) from covariances with the data (m, n).

        V'V is what the data take away from the prior covariance.
        """
        return solve_triangular(self.factor, cross.T, lower=True, check_finite=False)

    def solve(self, cross: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "n m"]:
        """Return K^-1 cross', (n, m), for covariances with the data (m, n)."""
        return cho_solve((self.factor, True), cross.T, check_finite=False)


def symmetric_inverse(covariance: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """Return the inverse, (n, n), of a covariance that rounding may have left without a Cholesky factor."""
    inverse = np.linalg.inv(covariance)
    return (inverse + inverse.T) / 2


def held_out_residuals(
    inverse: Float[np.ndarray, "n n"], dual: Float[np.ndarray, " n"], groups: Shaped[np.ndarray, " n"] | None = None
) -> Float[np.ndarray, " n"]:
    """Return value minus held-out prediction for each value, (n,), hyperparameters and mean kept.

    Source: Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, equations 5.10 to 5.12.

    Parameters
    ----------
    inverse
        Inverse of the covariance of the values, noise included, (n, n).
    dual
        The inverse times the values minus their mean, (n,).
    groups
        Group labels, (n,), held out together; None holds out single values.
    """
    if groups is None:
        return dual / np.diag(inverse)
    residuals = np.empty_like(dual)
    for label in np.unique(groups):
        held_out = groups == label
        residuals[held_out] = np.linalg.solve(inverse[np.ix_(held_out, held_out)], dual[held_out])
    return residuals


def held_out_log_density(inverse: Float[np.ndarray, "n n"], dual: Float[np.ndarray, " n"]) -> float:
    """Return the summed log density of each value given the others; source and arguments as `held_out_residuals`."""
    precision = np.diag(inverse)
    return float(np.sum(np.log(precision) - np.log(2 * np.pi) - dual**2 / precision) / 2)
