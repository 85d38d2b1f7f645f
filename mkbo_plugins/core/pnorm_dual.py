r"""The dual problem of p-norm support vector machines, ``1/p + 1/(2q) = 1``.

With features ``Phi`` (N, M), ``s = Phi' alpha`` and a norm of order 2q or 2,

.. math:: \min_\alpha \tfrac{1}{2q} \|s\|^{2q} + \epsilon \|\alpha\|_1 - t'\alpha,
          \quad lower \le \alpha \le upper, \quad \sum_i \alpha_i = 0.

Regression has targets t = y and bounds -C, C; classification t = +-1, epsilon = 0 and ``0 <= t_i alpha_i <= C``.
The primal is ``1/p ||w||^p + C sum_i loss_i`` with the dual norm, solved by ``w = sgn(s) |s|^(2q-1)`` in the norm of
order 2q and ``w = ||s||^(2q-2) s`` in that of order 2.
"""

import warnings
from dataclasses import dataclass

import numpy as np

from mkbo_plugins.errors import FitError

POLISHED = 1e-13
"""Relative duality gap at which refinement stops."""

MAX_STEPS = 30
"""Newton steps of the refinement."""

NEGLIGIBLE = 1e-7
"""Dual coefficients below this share of the largest count as zero; an interior point method has no exact zeros."""


@dataclass(frozen=True)
class Dual:
    """A dual problem.

    Parameters
    ----------
    features
        Phi, (N, M).
    target
        t, (N,).
    lower, upper
        Bounds of alpha, (N,).
    C, epsilon
        Price of the loss, and half-width of the insensitive tube.
    q
        Half the order of the penalty, at least 1.
    separable
        Whether the norm is of order 2q, a sum over features, rather than of order 2.
    """

    features: np.ndarray
    target: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    C: float
    epsilon: float
    q: int
    separable: bool

    def penalty(self, s: np.ndarray) -> float:
        """Return ``||s||^(2q) / (2q)``."""
        powers = np.sum(s ** (2 * self.q)) if self.separable else np.sum(s**2) ** self.q
        return float(powers) / (2 * self.q)

    def weights(self, alpha: np.ndarray) -> np.ndarray:
        """Return the primal weights w, (M,): the gradient of the penalty at s."""
        s = self.features.T @ alpha
        # 2q - 1 is odd, so that the power keeps the sign.
        return s ** (2 * self.q - 1) if self.separable else np.sum(s**2) ** (self.q - 1) * s

    def value(self, alpha: np.ndarray) -> float:
        """Return the dual objective, to be maximised."""
        penalty = self.penalty(self.features.T @ alpha)
        return float(self.target @ alpha - self.epsilon * np.abs(alpha).sum() - penalty)

    def curvature(self, s: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return second derivatives of the penalty in some coefficients, (n, n) for a mask of n rows."""
        features, q = self.features[rows], self.q
        if self.separable:
            return (features * ((2 * q - 1) * s ** (2 * q - 2))) @ features.T
        square, along = float(s @ s), features @ s
        rank_one = 2 * (q - 1) * square ** (q - 2) * np.outer(along, along) if square else 0.0
        return square ** (q - 1) * features @ features.T + rank_one

    def margins(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the loss-free interval of the bias for each row, (N,), from values w'phi(x_i).

        A row whose bound is zero on one side has no loss on the other.
        """
        rest = self.target - values
        low = np.where(self.upper > 0, rest - self.epsilon, -np.inf)
        return low, np.where(self.lower < 0, rest + self.epsilon, np.inf)

    def bias(self, values: np.ndarray) -> float:
        """Return the bias that meets the optimality conditions: the minimiser of the loss, or its middle.

        The loss has slope -C times the number of `low` ends to start with, and every end raises it by C.
        """
        low, high = self.margins(values)
        low, high = low[np.isfinite(low)], high[np.isfinite(high)]
        ends = np.sort(np.concatenate([low, high]))
        return float(ends[len(low) - 1] + ends[len(low)]) / 2

    def primal(self, alpha: np.ndarray) -> float:
        """Return the primal objective of the weights and bias that belong to alpha."""
        values = self.features @ self.weights(alpha)
        bias = self.bias(values)
        low, high = self.margins(values)
        loss = np.maximum(low - bias, 0) + np.maximum(bias - high, 0)
        # ||w||^p = ||s||^(2q), and 1/p = (2q - 1) / (2q)
        return (2 * self.q - 1) * self.penalty(self.features.T @ alpha) + self.C * float(loss.sum())

    def gap(self, alpha: np.ndarray) -> float:
        """Return the duality gap relative to the larger objective, 0 where both are zero."""
        primal, dual = self.primal(alpha), self.value(alpha)
        size = max(abs(primal), abs(dual))
        return (primal - dual) / size if size else 0.0


def solve(problem: Dual) -> np.ndarray:
    """Return the dual coefficients alpha, (N,), from an interior point method; negligible ones are exactly zero.

    Raises
    ------
    ImportError
        If CVXPY is not installed.
    FitError
        If the solver finds no solution.
    """
    try:
        import cvxpy as cp
    except ImportError as error:
        raise ImportError("p-norm machines need CVXPY; install it with: pip install 'mkbo_plugins[pnorm]'") from error
    target = problem.target - problem.target.mean()  # the coefficients sum to zero
    unit = float(np.abs(target).max()) or 1.0
    # In units of C and of the target every term is of order 1 or less.
    scale = (problem.C ** (2 * problem.q - 1) / unit) ** (1 / (2 * problem.q))
    a, z = cp.Variable(len(target)), cp.Variable(problem.features.shape[1])
    # CVXPY's second-order cones for an even power hold for a base that is not negative, so the square comes first.
    squares = cp.Variable(z.size if problem.separable else 1)
    objective = (
        cp.sum(cp.power(squares, problem.q)) / (2 * problem.q) + (problem.epsilon * cp.norm1(a) - target @ a) / unit
    )
    constraints = [
        z == (scale * problem.features).T @ a,
        squares >= (cp.square(z) if problem.separable else cp.sum_squares(z)),
        a >= problem.lower / problem.C,
        a <= problem.upper / problem.C,
        cp.sum(a) == 0,
    ]
    program = cp.Problem(cp.Minimize(objective), constraints)
    try:
        with warnings.catch_warnings():
            # The duality gap, computed afterwards, says how accurate the solution is.
            warnings.filterwarnings("ignore", "Solution may be inaccurate")
            program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    except cp.SolverError as error:
        raise FitError(f"the convex solver failed: {error}; try smaller C, smaller q or inputs of order 1") from error
    if a.value is None:
        raise FitError(f"the convex solver ended as {program.status!r}; try smaller C, smaller q or inputs of order 1")
    return _polished(problem, _feasible(problem, problem.C * a.value))


def _feasible(problem: Dual, alpha: np.ndarray) -> np.ndarray:
    """Put alpha inside its bounds, negligible coefficients to zero, and the sum to zero."""
    largest = float(np.abs(alpha).max())
    near = NEGLIGIBLE * largest
    alpha = np.where(np.abs(alpha) <= near, 0.0, np.clip(alpha, problem.lower, problem.upper))
    alpha = np.where(alpha - problem.lower <= near, problem.lower, alpha) * (alpha != 0)
    alpha = np.where(problem.upper - alpha <= near, problem.upper, alpha) * (alpha != 0)
    free = (alpha != 0) & (alpha > problem.lower) & (alpha < problem.upper)
    room = np.where(free, np.minimum(alpha - problem.lower, problem.upper - alpha), 0.0)
    return alpha - alpha.sum() * room / room.sum() if room.any() else alpha


def _polished(problem: Dual, alpha: np.ndarray) -> np.ndarray:
    """Refine coefficients strictly between zero and their bounds by Newton steps; return those of the smallest gap."""
    best, smallest = alpha, problem.gap(alpha)
    for _ in range(MAX_STEPS):
        if smallest <= POLISHED:
            break
        alpha = _newton_step(problem, alpha)
        gap = problem.gap(alpha)
        if abs(gap) < smallest:
            best, smallest = alpha, abs(gap)
    return best


def _newton_step(problem: Dual, alpha: np.ndarray) -> np.ndarray:
    """Move the free coefficients to the optimum of a quadratic model, or until the first of them is free no more."""
    free = (alpha != 0) & (alpha > problem.lower) & (alpha < problem.upper)
    n = int(free.sum())
    slope = problem.target - problem.epsilon * np.sign(alpha) - problem.features @ problem.weights(alpha)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = problem.curvature(problem.features.T @ alpha, free)
    system[n, n] = 0.0
    solution = np.linalg.lstsq(system, np.append(slope[free], -alpha.sum()), rcond=POLISHED)[0]
    step = np.zeros_like(alpha)
    step[free] = solution[:n]
    # A coefficient stays on its side of zero, where the penalty of its size has a kink.
    end = np.where(step > 0, np.where(alpha < 0, 0.0, problem.upper), np.where(alpha > 0, 0.0, problem.lower))
    reach = np.divide(end - alpha, step, out=np.full_like(step, np.inf), where=step != 0)
    length = min(1.0, float(reach.min()))
    return np.where(reach <= length, end, alpha + length * step)
