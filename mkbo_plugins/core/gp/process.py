"""Gaussian process with an unknown constant mean, given its covariance at the data: evidence and prediction."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular


def held_out_log_density(inverse: np.ndarray, dual: np.ndarray) -> float:
    """Return the summed log density of each value given the others, hyperparameters kept.

    Source: Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, equations 5.10 to 5.12.

    Parameters
    ----------
    inverse
        Inverse of the covariance of the values, noise included, (n, n).
    dual
        The inverse times the values minus their mean, (n,).
    """
    precision = np.diag(inverse)
    return float(np.sum(np.log(precision) - np.log(2 * np.pi) - dual**2 / precision) / 2)


@dataclass(frozen=True, eq=False)
class Process:
    """A Gaussian process conditioned on data, its mean being the most likely constant.

    Parameters
    ----------
    factor
        Lower Cholesky factor of the covariance of the data with noise, (n, n).
    mean
        The constant, 1' K^-1 y / 1' K^-1 1.
    residual
        Data minus the constant, (n,).
    """

    factor: np.ndarray
    mean: float
    residual: np.ndarray

    @classmethod
    def conditioned(cls, covariance: np.ndarray, y: np.ndarray) -> "Process":
        """Condition on values y (n,) whose covariance, noise included, is (n, n).

        Raises
        ------
        LinAlgError
            If the covariance is not positive definite.
        """
        factor = cholesky(covariance, lower=True)
        ones = cho_solve((factor, True), np.ones_like(y))
        mean = float(ones @ y / ones.sum())
        return cls(factor, mean, y - mean)

    @cached_property
    def dual(self) -> np.ndarray:
        """The vector K^-1 (y - mean), (n,)."""
        return cho_solve((self.factor, True), self.residual)

    @cached_property
    def inverse(self) -> np.ndarray:
        """The inverse of the covariance of the data with noise, (n, n)."""
        return cho_solve((self.factor, True), np.eye(len(self.residual)))

    @property
    def log_evidence(self) -> float:
        """Logarithm of the density of the data."""
        n = len(self.residual)
        log_root = np.log(np.diag(self.factor)).sum()
        return float(-self.residual @ self.dual / 2 - log_root - n * math.log(2 * math.pi) / 2)

    def evidence_slope(self) -> np.ndarray:
        """Return the gradient of the log evidence in the covariance, (n, n).

        The constant adds nothing, since the evidence is stationary in it.
        """
        return (np.outer(self.dual, self.dual) - self.inverse) / 2

    def predict_mean(self, cross: np.ndarray) -> np.ndarray:
        """Return the mean (m,) from covariances with the data, (m, n)."""
        return self.mean + cross @ self.dual

    def explained(self, cross: np.ndarray) -> np.ndarray:
        """Return a root V, (n, m), of the covariance that the data explains, V'V."""
        return solve_triangular(self.factor, cross.T, lower=True, check_finite=False)

    def solve(self, cross: np.ndarray) -> np.ndarray:
        """Return K^-1 cross', (n, m), for covariances with the data (m, n)."""
        return cho_solve((self.factor, True), cross.T)
