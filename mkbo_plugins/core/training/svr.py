"""Support vector regression and classification with bias on a precomputed Gram matrix, and their exact leave-one-out.

``g(x) = sum_i alpha_i K_2(x_i, x) + bias`` with ``|alpha_i| <= C`` (the paper's C/N) and ``sum_i alpha_i = 0``; in
classification alpha_i has the sign of its label. Solved by scikit-learn, whose solver keeps products of rows in single
precision: its predictions are off by up to about 1e-4 standard deviations of the values, whatever its tolerance.
`fit_polished` solves for free coefficients and bias in double precision, if any coefficient is free.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from sklearn.svm import SVC, SVR

from mkbo_plugins.core.training.active_set import Machine, fit_without, polish, span_estimate

MAX_ITERATIONS = 200_000
"""Cap on solver iterations of one fit; a fit that hits it is not trusted."""


MARGIN = 10
"""Tolerances of solvers by which a bound on a held-out residual may be off."""


class _QuietSVR(SVR):
    """Leaves an early stop to `fit_status_`: warnings cannot be caught safely in several threads at once."""

    def _warn_from_fit_status(self) -> None:
        pass


class _QuietSVC(SVC):
    """As `_QuietSVR`."""

    def _warn_from_fit_status(self) -> None:
        pass


class MachineFit(NamedTuple):
    """A fitted support vector machine."""

    alpha: Float[np.ndarray, " N"]
    """Dual coefficients, (N,), zero for rows that are not support vectors."""
    bias: float
    converged: bool


class LeaveOneOut(NamedTuple):
    """Outcome of holding every row out once."""

    error: float
    """Weighted mean squared held-out error, or hinge loss of labels; infinite if the search was abandoned."""
    residuals: Float[np.ndarray, " N"]
    """Held-out prediction minus value, (N,); not filled in where the search was abandoned."""
    converged: bool
    """Whether every fit met its tolerance."""


def fit_svr(
    gram: Float[np.ndarray, "N N"],
    y: Float[np.ndarray, " N"],
    C: float,
    epsilon: float,
    sample_weight: Float[np.ndarray, " N"] | None = None,
    tolerance: float = 1e-6,
) -> MachineFit:
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
    # The solver's tolerance is absolute, so that it is given the target in units of its spread.
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
    return MachineFit(alpha, float(machine.intercept_[0]) * spread + float(np.mean(y)), machine.fit_status_ == 0)


def fit_svc(
    gram: Float[np.ndarray, "N N"],
    y: Float[np.ndarray, " N"],
    C: float,
    sample_weight: Float[np.ndarray, " N"] | None = None,
    tolerance: float = 1e-6,
) -> MachineFit:
    """Fit the classifier of labels `y`, -1 and 1, (N,), on a Gram matrix; other parameters as for `fit_svr`."""
    machine = _QuietSVC(kernel="precomputed", C=C, tol=tolerance, max_iter=MAX_ITERATIONS, cache_size=500)
    machine.fit(gram, y, sample_weight=sample_weight)
    alpha = np.zeros(len(y))
    alpha[machine.support_] = machine.dual_coef_[0]
    return MachineFit(alpha, float(machine.intercept_[0]), bool(np.all(machine.fit_status_ == 0)))


def fit_machine(
    gram: Float[np.ndarray, "N N"],
    y: Float[np.ndarray, " N"],
    C: float,
    epsilon: float,
    sample_weight: Float[np.ndarray, " N"] | None = None,
    tolerance: float = 1e-6,
    *,
    labels: bool = False,
) -> MachineFit:
    """Fit the classifier if values are labels, else the regression; parameters as for `fit_svr`."""
    if labels:
        return fit_svc(gram, y, C, sample_weight, tolerance)
    return fit_svr(gram, y, C, epsilon, sample_weight, tolerance)


def fit_polished(
    gram: Float[np.ndarray, "N N"],
    y: Float[np.ndarray, " N"],
    C: float,
    epsilon: float,
    sample_weight: Float[np.ndarray, " N"] | None = None,
    *,
    labels: bool = False,
) -> MachineFit:
    """Fit as `fit_machine` does, and solve for free coefficients and bias in double precision where it converged."""
    fit = fit_machine(gram, y, C, epsilon, sample_weight, labels=labels)
    found = polish(_machine(gram, y, C, epsilon, fit, sample_weight, labels)) if fit.converged else None
    return fit if found is None else MachineFit(*found, True)


def estimate_leave_one_out(
    gram: Float[np.ndarray, "N N"],
    y: Float[np.ndarray, " N"],
    C: float,
    epsilon: float,
    whole: MachineFit,
    sample_weight: Float[np.ndarray, " N"] | None = None,
    *,
    labels: bool = False,
) -> float:
    """Estimate the error of `leave_one_out` from the fit on all rows alone.

    Replicates are not held out together, so they make it too small; it is for putting machines in order only.
    """
    machine = _machine(gram, y, C, epsilon, whole, sample_weight, labels)
    return float(np.average(_loss(machine, span_estimate(machine)), weights=sample_weight))


def leave_one_out(
    gram: Float[np.ndarray, "N N"],
    y: Float[np.ndarray, " N"],
    C: float,
    epsilon: float,
    sample_weight: Float[np.ndarray, " N"] | None = None,
    groups: Shaped[np.ndarray, " N"] | None = None,
    tolerance: float = 1e-4,
    abandon_above: float = np.inf,
    whole: MachineFit | None = None,
    labels: bool = False,
) -> LeaveOneOut:
    """Hold out every row once, or every group of rows together, and predict it from the others.

    A group none of whose rows is a support vector needs no refit: the fit on all rows already satisfies the
    optimality conditions without it. Where every coefficient is at its bound these leave the bias open, and all
    groups are refitted. Other refits start from the fit on all rows, groups of large estimated error first, so that a
    hopeless search ends soon. Exact means that nothing is estimated: rows that are no support vectors are predicted by
    the fit on all rows, and rows whose absence needs a fit from scratch by that, both as exact as the solver.

    Parameters
    ----------
    gram, y, C, epsilon, sample_weight, tolerance
        As for `fit_svr`.
    groups
        Group labels, (N,); rows of one group are held out together. None holds out single rows.
    abandon_above
        Give up as soon as the error is certain to exceed this value.
    whole
        The fit on all rows with the same settings, if there is one already.
    labels
        Whether values are labels, -1 and 1; `epsilon` must be 0 then. Every class must stay when a group is held out.
    """
    if whole is None:
        whole = fit_machine(gram, y, C, epsilon, sample_weight, tolerance, labels=labels)
    machine = _machine(gram, y, C, epsilon, whole, sample_weight, labels)
    members = np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
    share = np.full(len(y), 1 / len(y)) if sample_weight is None else sample_weight / np.sum(sample_weight)
    residuals, converged = machine.residuals.copy(), whole.converged
    refitted = np.bincount(members, machine.alpha != 0) > 0
    if not machine.free.any():
        refitted[:] = True
    total = float(np.sum((share * _loss(machine, residuals))[~refitted[members]]))
    floor = _least_loss(machine, members, share, tolerance) if groups is None else np.zeros(refitted.size)
    others = float(np.sum(floor[refitted]))
    order = np.argsort(-np.bincount(members, share * _loss(machine, span_estimate(machine))), kind="stable")
    for group in order[refitted[order]]:
        if total + others > abandon_above:
            return LeaveOneOut(np.inf, residuals, converged)
        held = members == group
        # Few rows change place when others go, so the fit on all rows is nearly the one wanted.
        near = fit_without(held, machine, tolerance * float(np.std(y)))
        fit = _fit_others(held, machine, C, sample_weight, tolerance) if near is None else MachineFit(*near, True)
        residuals[held] = gram[held] @ fit.alpha + fit.bias - y[held]
        total += float(np.sum((share * _loss(machine, residuals))[held]))
        others -= float(floor[group])
        converged &= fit.converged
    return LeaveOneOut(total, residuals, converged)


def _machine(
    gram: Float[np.ndarray, "N N"],
    y: Float[np.ndarray, " N"],
    C: float,
    epsilon: float,
    fit: MachineFit,
    sample_weight: Float[np.ndarray, " N"] | None,
    labels: bool,
) -> Machine:
    bounds = np.full(len(y), C) if sample_weight is None else C * sample_weight
    return Machine(gram, y, bounds, epsilon, fit.alpha, fit.bias, labels)


def _loss(machine: Machine, residuals: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Return squared errors, or of labels the hinge loss ``max(0, 1 - y g)``, (N,)."""
    return np.maximum(-machine.y * residuals, 0.0) if machine.labels else residuals**2


def _least_loss(
    machine: Machine, members: Int[np.ndarray, " N"], share: Float[np.ndarray, " N"], tolerance: float
) -> Float[np.ndarray, " N"]:
    """Return lower bounds on the losses of single rows held out, (N,), from the fit on all rows.

    A row is predicted no better without itself: the fit on all rows has the least sum of its loss and what the others
    want, the fit without it the least of the latter. Groups may be predicted better as a whole, so there is none.
    """
    margin = MARGIN * tolerance * float(np.std(machine.y))
    residuals = np.sign(machine.residuals) * np.maximum(np.abs(machine.residuals) - margin, 0.0)
    return np.bincount(members, share * _loss(machine, residuals))


def _fit_others(
    held: Bool[np.ndarray, " N"],
    machine: Machine,
    C: float,
    sample_weight: Float[np.ndarray, " N"] | None,
    tolerance: float,
) -> MachineFit:
    """Fit the rows that are not held from scratch; coefficients of the others, (N,), are zero there."""
    trained = ~held
    fit = fit_machine(
        machine.gram[np.ix_(trained, trained)],
        machine.y[trained],
        C,
        machine.epsilon,
        None if sample_weight is None else sample_weight[trained],
        tolerance,
        labels=machine.labels,
    )
    alpha = np.zeros(len(trained))
    alpha[trained] = fit.alpha
    return fit._replace(alpha=alpha)
