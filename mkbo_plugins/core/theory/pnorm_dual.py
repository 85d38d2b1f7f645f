r"""The dual problem of p-norm support vector machines, ``1/p + 1/(2q) = 1``.

With features ``Phi`` (N, M), ``s = Phi' alpha`` and a norm of order 2q or 2,

.. math:: \min_\alpha \tfrac{1}{2q} \|s\|^{2q} + \epsilon \|\alpha\|_1 - t'\alpha,
          \quad lower \le \alpha \le upper, \quad \sum_i \alpha_i = 0.

Regression has targets t = y and bounds -C, C; classification t = +-1, epsilon = 0 and ``0 <= t_i alpha_i <= C``.
The primal is ``1/p ||w||^p + C sum_i loss_i`` with the dual norm, solved by ``w = sgn(s) |s|^(2q-1)`` in the norm of
order 2q and ``w = ||s||^(2q-2) s`` in that of order 2.
"""

import warnings
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from mkbo_plugins.errors import FitError

SOLVER_TOLERANCE = 1e-11
"""Relative gap and residuals at which the interior point method stops, if it can reach them."""

ACCEPTED_GAP = 1e-6
"""Relative duality gap up to which a solution, and the weights that its dual coefficients give, are accurate enough."""

REFINEMENTS = 4
"""Steps of the refinement; each may end where one more coefficient reaches an end."""

FAR, RESCALINGS = 1e-2, 8
"""Share of C below which the largest coefficient asks for a smaller C, and how often this is done."""


class Solution(NamedTuple):
    """Dual coefficients (N,), and primal weights (M,)."""

    alpha: Float[np.ndarray, " N"]
    weights: Float[np.ndarray, " M"]


@dataclass(frozen=True)
class Dual:
    """A dual problem.

    Parameters
    ----------
    features
        Phi, (N, M), best with columns of mean 0: coefficients sum to zero, so that a shift changes nothing but rounding
        errors and the bias.
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

    features: Float[np.ndarray, "N M"]
    target: Float[np.ndarray, " N"]
    lower: Float[np.ndarray, " N"]
    upper: Float[np.ndarray, " N"]
    C: float
    epsilon: float
    q: int
    separable: bool

    def penalty(self, s: Float[np.ndarray, " M"]) -> float:
        """Return ``||s||^(2q) / (2q)``."""
        powers = np.sum(s ** (2 * self.q)) if self.separable else np.sum(s**2) ** self.q
        return float(powers) / (2 * self.q)

    def weights(self, alpha: Float[np.ndarray, " N"]) -> Float[np.ndarray, " M"]:
        """Return the primal weights w, (M,): the gradient of the penalty at s."""
        s = self.features.T @ alpha
        # 2q - 1 is odd, so that the power keeps the sign.
        return s ** (2 * self.q - 1) if self.separable else np.sum(s**2) ** (self.q - 1) * s

    def value(self, alpha: Float[np.ndarray, " N"]) -> float:
        """Return the dual objective, to be maximised."""
        penalty = self.penalty(self.features.T @ alpha)
        return float(self.target @ alpha - self.epsilon * np.abs(alpha).sum() - penalty)

    def sums(self, w: Float[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
        """Return the s whose weights are w, (M,): the inverse of `weights` without alpha."""
        power = 1 / (2 * self.q - 1)
        if self.separable:
            return np.sign(w) * np.abs(w) ** power
        size = float(np.linalg.norm(w))
        return w * size ** (power - 1) if size else w

    def scaled(self, w: Float[np.ndarray, " M"], vectors: Float[np.ndarray, "M ..."]) -> Float[np.ndarray, "M ..."]:
        """Return vectors, (M,) or (M, n), times the root of the curvature at the sums of w, up to a factor."""
        if self.separable:
            return (np.abs(self.sums(w)) ** (self.q - 1) * vectors.T).T
        direction = w / (float(np.linalg.norm(w)) or 1.0)
        return vectors + ((2 * self.q - 1) ** 0.5 - 1) * np.multiply.outer(direction, direction @ vectors)

    def free(self, alpha: Float[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
        """Return which coefficients are strictly between zero and their bounds, (N,)."""
        return (alpha != 0) & (alpha > self.lower) & (alpha < self.upper)

    def margins(self, values: Float[np.ndarray, " N"]) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
        """Return the loss-free interval of the bias for each row, (N,), from values w'phi(x_i).

        A row whose bound is zero on one side has no loss on the other.
        """
        rest = self.target - values
        low = np.where(self.upper > 0, rest - self.epsilon, -np.inf)
        return low, np.where(self.lower < 0, rest + self.epsilon, np.inf)

    def bias(self, values: Float[np.ndarray, " N"]) -> float:
        """Return the bias that meets the optimality conditions: the minimiser of the loss, or its middle.

        The loss has slope -C times the number of `low` ends to start with, and every end raises it by C.
        """
        low, high = self.margins(values)
        low, high = low[np.isfinite(low)], high[np.isfinite(high)]
        ends = np.sort(np.concatenate([low, high]))
        return float(ends[len(low) - 1] + ends[len(low)]) / 2

    def primal(self, w: Float[np.ndarray, " M"]) -> float:
        """Return the primal objective of weights w with the best bias, to be minimised."""
        values = self.features @ w
        bias = self.bias(values)
        low, high = self.margins(values)
        loss = np.maximum(low - bias, 0) + np.maximum(bias - high, 0)
        # ||w||^p = ||s||^(2q), and 1/p = (2q - 1) / (2q)
        return (2 * self.q - 1) * self.penalty(self.sums(w)) + self.C * float(loss.sum())

    def gap(self, solution: Solution) -> float:
        """Return the duality gap relative to the larger objective, 0 where both are zero.

        Any weights bound the optimum from above, any coefficients from below, whether or not they belong together.
        """
        primal, dual = self.primal(solution.weights), self.value(solution.alpha)
        size = max(abs(primal), abs(dual))
        return (primal - dual) / size if size else 0.0

    def with_bound(self, C: float) -> "Dual":
        """Return the problem with another price of the loss."""
        return replace(self, C=C, lower=self.lower * (C / self.C), upper=self.upper * (C / self.C))

    @property
    def unit(self) -> float:
        """Largest magnitude of the centred target, 1 for a constant one."""
        return float(np.abs(self.target - self.target.mean()).max()) or 1.0


def solve(problem: Dual) -> Solution:
    """Return dual coefficients, exactly zero or at their bounds where the optimum is, and weights.

    The weights are those that belong to the coefficients, or others where rounding errors in s spoil these, as they do
    where features are large and nearly cancel.

    Raises
    ------
    ImportError
        If CVXPY is not installed.
    FitError
        If the solver finds no solution.
    """
    alpha, w = _interior_point(problem)
    bounded = problem
    for _ in range(RESCALINGS):
        largest = float(np.abs(alpha).max())
        if not 0 < largest < FAR * bounded.C:
            break
        # A smaller C that no coefficient reaches has the same optimum, which the solver resolves better.
        bounded = problem.with_bound(10 * largest)
        alpha, w = _interior_point(bounded)
    alpha = _at_ends(bounded, alpha, w)
    # A refinement may end worse than it began, so that all of its steps are candidates.
    steps = [(alpha, w)]
    for _ in range(REFINEMENTS):
        w = min((_on_margins(bounded, alpha, start) for start in (w, problem.weights(alpha))), key=problem.primal)
        alpha = _fitted(bounded, alpha, w)
        w = min(w, problem.weights(alpha), key=problem.primal)
        steps.append((alpha, w))
    own = min((Solution(alpha, problem.weights(alpha)) for alpha, _ in steps), key=lambda one: abs(problem.gap(one)))
    if problem.gap(own) <= ACCEPTED_GAP:
        return own
    alphas, weights = zip(*steps, strict=True)
    return Solution(max(alphas, key=problem.value), min(weights, key=problem.primal))


def _interior_point(problem: Dual) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " M"]]:
    """Return coefficients and, as the multipliers of ``s = Phi' alpha``, weights."""
    try:
        import cvxpy as cp
    except ImportError as error:
        raise ImportError("p-norm machines need CVXPY; install it with: pip install 'mkbo_plugins[pnorm]'") from error
    q, unit = problem.q, problem.unit
    target = (problem.target - problem.target.mean()) / unit  # the coefficients sum to zero
    # In units of C and of the target every term is of order 1 or less.
    scale = (problem.C ** (2 * q - 1) / unit) ** (1 / (2 * q))
    features = scale * problem.features
    # A feature of size m > 1 has weights of order 1/m and thus sums of order 1/m^(1/(2q - 1)).
    sizes = np.maximum(np.sqrt(np.mean(features**2, axis=0)), 1.0)
    order = sizes ** (-1 / (2 * q - 1))
    a, z = cp.Variable(len(target)), cp.Variable(len(sizes))
    # CVXPY's second-order cones for an even power hold for a base that is not negative, so the square comes first.
    if problem.separable:
        squares = cp.Variable(len(sizes))
        penalty, cone = cp.power(squares, q) @ order ** (2 * q) / (2 * q), squares >= cp.square(z)
    else:
        squares = cp.Variable()
        penalty, cone = cp.power(squares, q) / (2 * q), squares >= cp.sum_squares(cp.multiply(order, z))
    sums = cp.multiply(order / sizes, z) == (features / sizes).T @ a
    bounds = [a >= problem.lower / problem.C, a <= problem.upper / problem.C, cp.sum(a) == 0]
    objective = penalty + problem.epsilon / unit * cp.norm1(a) - target @ a
    program = cp.Problem(cp.Minimize(objective), [sums, cone, *bounds])
    tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), SOLVER_TOLERANCE)
    try:
        with warnings.catch_warnings():
            # The duality gap, computed afterwards, says how accurate the solution is.
            warnings.filterwarnings("ignore", "Solution may be inaccurate")
            program.solve(solver=cp.CLARABEL, **tolerances)
    except cp.SolverError as error:
        raise FitError(f"the convex solver failed: {error}; try smaller C, smaller q or inputs of order 1") from error
    if a.value is None:
        raise FitError(f"the convex solver ended as {program.status!r}; try smaller C, smaller q or inputs of order 1")
    return problem.C * a.value, -scale * unit * sums.dual_value / sizes


def _at_ends(problem: Dual, alpha: Float[np.ndarray, " N"], w: Float[np.ndarray, " M"]) -> Float[np.ndarray, " N"]:
    """Put coefficients that are not free to the nearest of zero and their bounds, and the sum to zero.

    At the optimum a coefficient is at an end or its row's residual is at a margin; the smaller distance tells which.
    """
    values = problem.features @ w
    low, high = (np.abs(end - problem.bias(values)) for end in problem.margins(values))
    ends = np.stack([problem.lower, np.zeros_like(alpha), problem.upper])
    alpha = np.clip(alpha, problem.lower, problem.upper)
    distances = np.abs(alpha - ends)
    room = distances.min(axis=0)
    free = room / problem.C > np.minimum(low, high) / problem.unit
    alpha = np.where(free, alpha, ends[distances.argmin(axis=0), np.arange(len(alpha))])
    room = np.where(free, room, 0.0)
    # The sum is mended by coefficients in proportion to how far they are from their ends.
    return alpha - alpha.sum() * room / room.sum() if room.any() else alpha


def _on_margins(problem: Dual, alpha: Float[np.ndarray, " N"], w: Float[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
    """Return the weights nearest to w for which rows of free coefficients are at their margins up to a bias."""
    free = problem.free(alpha)
    if not free.any():
        return w
    rows = problem.features[free]
    excess = problem.target[free] - problem.epsilon * np.sign(alpha[free]) - rows @ w
    # Differences from means leave the bias open; so scaled, a least step of w is a least one of its sums s.
    system = problem.scaled(w, (rows - rows.mean(axis=0)).T).T
    return w + problem.scaled(w, np.linalg.lstsq(system, excess - excess.mean(), rcond=None)[0])


def _fitted(problem: Dual, alpha: Float[np.ndarray, " N"], w: Float[np.ndarray, " M"]) -> Float[np.ndarray, " N"]:
    """Move the free coefficients so that their sums s fit those of w, or until the first of them is free no more."""
    free = problem.free(alpha)
    if not free.any():
        return alpha
    rows = problem.features[free]
    # Without its mean over the rows, a step keeps the sum of the coefficients.
    system = problem.scaled(w, (rows - rows.mean(axis=0)).T)
    deviation = problem.scaled(w, problem.sums(w) - problem.features.T @ alpha)
    solution = np.linalg.lstsq(system, deviation, rcond=None)[0]
    step = np.zeros_like(alpha)
    step[free] = solution - solution.mean()
    # A coefficient stays on its side of zero, where the penalty of its size has a kink.
    end = np.where(step > 0, np.where(alpha < 0, 0.0, problem.upper), np.where(alpha > 0, 0.0, problem.lower))
    reach = np.divide(end - alpha, step, out=np.full_like(step, np.inf), where=step != 0)
    length = min(1.0, float(reach.min()))
    return np.where(reach <= length, end, alpha + length * step)
