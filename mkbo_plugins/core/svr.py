"""Epsilon-insensitive support vector regression with bias on a precomputed Gram matrix, and its exact leave-one-out.

``g(x) = sum_i alpha_i K_2(x_i, x) + bias`` with ``|alpha_i| <= C`` (the paper's C/N) and ``sum_i alpha_i = 0``; solved
by scikit-learn.
"""

from typing import NamedTuple

import numpy as np
from sklearn.svm import SVR

MAX_ITERATIONS = 200_000
"""Cap on solver iterations of one fit; a fit that hits it is not trusted."""


class _QuietSVR(SVR):
    """Leaves an early stop to `fit_status_`: warnings cannot be caught safely in several threads at once."""

    def _warn_from_fit_status(self) -> None:
        pass


class SVRFit(NamedTuple):
    """A fitted support vector regression."""

    alpha: np.ndarray
    """Dual coefficients, (N,), zero for rows that are not support vectors."""
    bias: float
    converged: bool


class LeaveOneOut(NamedTuple):
    """Outcome of holding every row out once."""

    mean_squared_error: float
    """Weighted mean squared held-out error, infinite if the search was abandoned."""
    residuals: np.ndarray
    """Held-out prediction minus value, (N,); not filled in where the search was abandoned."""
    converged: bool
    """Whether every fit met its tolerance."""


def fit_svr(
    gram: np.ndarray,
    y: np.ndarray,
    C: float,
    epsilon: float,
    sample_weight: np.ndarray | None = None,
    tolerance: float = 1e-6,
) -> SVRFit:
    """Fit the regression on a Gram matrix.

    Parameters
    ----------
    gram
        K_2 between the rows, (N, N).
    y
        Values, (N,).
    C, epsilon
        Box bound on |alpha_i| and half-width of the insensitive tube, in the units of `y`.
    sample_weight
        Positive weights, (N,), which multiply each row's box bound.
    tolerance
        Stopping tolerance of the solver, relative to the spread of `y`.
    """
    spread = float(np.std(y)) or 1.0
    machine = _QuietSVR(
        kernel="precomputed",
        C=C / spread,
        epsilon=epsilon / spread,
        tol=tolerance,
        max_iter=MAX_ITERATIONS,
        cache_size=500,
    )
    machine.fit(gram, (y - np.mean(y)) / spread, sample_weight=sample_weight)
    alpha = np.zeros(len(y))
    alpha[machine.support_] = machine.dual_coef_[0] * spread
    return SVRFit(alpha, float(machine.intercept_[0]) * spread + float(np.mean(y)), machine.fit_status_ == 0)


def leave_one_out_svr(
    gram: np.ndarray,
    y: np.ndarray,
    C: float,
    epsilon: float,
    sample_weight: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    tolerance: float = 1e-4,
    abandon_above: float = np.inf,
) -> LeaveOneOut:
    """Hold out every row once, or every group of rows together, and predict it from the others.

    A group none of whose rows is a support vector needs no refit: the fit on all rows already satisfies the
    optimality conditions without it. Where every coefficient is at its bound these leave the bias open, and all
    groups are refitted.

    Parameters
    ----------
    gram, y, C, epsilon, sample_weight, tolerance
        As for `fit_svr`.
    groups
        Group labels, (N,); rows of one group are held out together. None holds out single rows.
    abandon_above
        Give up as soon as the mean squared error is certain to exceed this value.
    """
    labels = np.arange(len(y)) if groups is None else groups
    share = np.full(len(y), 1 / len(y)) if sample_weight is None else sample_weight / np.sum(sample_weight)
    whole = fit_svr(gram, y, C, epsilon, sample_weight, tolerance)
    residuals = gram @ whole.alpha + whole.bias - y
    bound = C if sample_weight is None else C * sample_weight
    free = (whole.alpha != 0) & (np.abs(whole.alpha) < bound * (1 - 1e-9))
    refitted = np.unique(labels[whole.alpha != 0] if free.any() else labels)
    converged = whole.converged
    total = float(np.sum((share * residuals**2)[~np.isin(labels, refitted)]))
    for label in refitted:
        if total > abandon_above:
            return LeaveOneOut(np.inf, residuals, converged)
        held = labels == label
        kept = ~held
        fit = fit_svr(
            gram[np.ix_(kept, kept)],
            y[kept],
            C,
            epsilon,
            None if sample_weight is None else sample_weight[kept],
            tolerance,
        )
        residuals[held] = gram[np.ix_(held, kept)] @ fit.alpha + fit.bias - y[held]
        total += float(np.sum((share * residuals**2)[held]))
        converged &= fit.converged
    return LeaveOneOut(total, residuals, converged)
