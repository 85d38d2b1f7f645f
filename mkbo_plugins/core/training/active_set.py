"""Support vector machines without some rows, from the fit on all of them, by few changes of the active set.

Every row is outside the machine (``alpha = 0``), free (``0 < |alpha| < bound``) or at its bound. Given this partition,
bias and free coefficients solve the linear system with matrix ``[0, 1'; 1, K_2]``, whose first equation makes all
coefficients sum to zero; they are the fit if no row then violates its condition of optimality.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

MAX_PIVOTS = 60
"""Changes of the active set after which a full solver is the better choice."""

POLISHED = 1e-4
"""Largest violation of a condition, in standard deviations of the values, of a fit that is polished."""

REFINEMENTS = 5
"""Steps of iterative refinement at most."""

_AT_BOUND = 1e-9
_RIDGE = 1e-8


@dataclass(frozen=True, eq=False)
class Machine:
    """A support vector machine with the table it was fitted on.

    Parameters
    ----------
    gram, y
        K_2 between the rows, (N, N), and their values, (N,).
    bounds
        Box bound on the size of each coefficient, (N,).
    epsilon
        Half-width of the insensitive tube.
    alpha, bias
        Dual coefficients, (N,), and constant term.
    labels
        Whether values are labels -1 and 1 of a classifier: then a coefficient has the sign of its label, and a row
        beyond its margin is outside. There is no tube.
    """

    gram: Float[np.ndarray, "N N"]
    y: Float[np.ndarray, " N"]
    bounds: Float[np.ndarray, " N"]
    epsilon: float
    alpha: Float[np.ndarray, " N"]
    bias: float
    labels: bool = False

    @cached_property
    def residuals(self) -> Float[np.ndarray, " N"]:
        """Prediction minus value of each row, (N,)."""
        return self.gram @ self.alpha + self.bias - self.y

    @cached_property
    def at_bound(self) -> Bool[np.ndarray, " N"]:
        """Which coefficients are at their bounds, (N,)."""
        return np.abs(self.alpha) >= self.bounds * (1 - _AT_BOUND)

    @cached_property
    def free(self) -> Bool[np.ndarray, " N"]:
        """Which coefficients are strictly inside their bounds, (N,); F of them."""
        return (np.abs(self.alpha) > self.bounds * _AT_BOUND) & ~self.at_bound

    @cached_property
    def free_rows(self) -> Int[np.ndarray, " F"]:
        """Their numbers, (F,)."""
        return np.flatnonzero(self.free)

    @cached_property
    def pull(self) -> Float[np.ndarray, " N"]:
        """What the coefficients at their bounds add to the prediction of each row, (N,)."""
        return self.gram @ np.where(self.at_bound, self.alpha, 0.0)

    @cached_property
    def border(self) -> Float[np.ndarray, "N s"]:
        """Columns of bias and free coefficients in every row's prediction, (N, 1 + F)."""
        return np.column_stack([np.ones(len(self.y)), self.gram[:, self.free]])

    @cached_property
    def inverse(self) -> Float[np.ndarray, "s s"]:
        """Inverse of the system's matrix, (1 + F, 1 + F); a trace of ridge is for rows that repeat. NaN if singular."""
        system = np.vstack([np.ones(self.border.shape[1]), self.border[self.free]])
        system[0, 0] = 0.0
        system[1:, 1:] += self.ridge * np.eye(len(system) - 1)
        try:
            return np.linalg.inv(system)
        except np.linalg.LinAlgError:
            return np.full_like(system, np.nan)

    @cached_property
    def response(self) -> Float[np.ndarray, "N s"]:
        """``border @ inverse``, (N, 1 + F)."""
        return self.border @ self.inverse

    @cached_property
    def ridge(self) -> float:
        """A number next to nothing beside the diagonal of `gram`."""
        return _RIDGE * float(np.mean(self.gram.diagonal()))


def span_estimate(machine: Machine) -> Float[np.ndarray, " N"]:
    """Estimate held-out prediction minus value of each row, (N,), from the fit on all rows alone.

    Only free coefficients and bias respond to a row's absence: the span rule of Vapnik and Chapelle, Neural
    Computation 12 (2000) 2013-2036. It is exact where no other row changes its place, but is cut off at one standard
    deviation of the values.
    """
    if not machine.free.any():
        # With no free coefficient nothing gives way, and only the row's own term goes.
        return machine.residuals - machine.alpha * machine.gram.diagonal()
    # Squared distance in feature space from what the free rows span: a Schur complement of the system.
    span = machine.gram.diagonal() - np.einsum("ij,ij->i", machine.response, machine.border)
    # For a free row that is one over its entry in the inverse.
    span[machine.free] = 1 / np.maximum(machine.inverse.diagonal()[1:], machine.ridge)
    # Where other rows would change place, the rule can be far off: no single row shall decide.
    spread = float(np.std(machine.y))
    return np.clip(machine.residuals - machine.alpha * span, -spread, spread)


def fit_without(
    held: Bool[np.ndarray, " N"], machine: Machine, tolerance: float
) -> tuple[Float[np.ndarray, " N"], float] | None:
    """Fit all rows but some: the row that violates its condition most changes its place, until none violates it.

    Parameters
    ----------
    held
        Which rows to leave out, (N,), as truth values.
    machine
        The fit on all rows.
    tolerance
        Largest violation of a condition to accept, in the units of the values.

    Returns
    -------
    tuple of array and float, or None
        Coefficients, (N,), zero for the rows left out, and bias. None if the pivots did not come to an end, or if no
        coefficient is strictly inside its bounds, which leaves the bias open.
    """
    if not machine.free.any():
        return None
    state = _ActiveSet(machine, held)
    for _ in range(MAX_PIVOTS):
        if not state.free.any() or not state.solve():
            return None
        outside, size = state.violations()
        if not np.max(np.abs(outside[state.free])) <= tolerance:
            return None  # the system is too ill-conditioned, or not finite
        # Free rows meet their condition by construction; rows held out have none.
        outside[state.free | held] = 0.0
        row = int(np.argmax(outside))
        if outside[row] > tolerance:
            state.enter(row)
            continue
        beyond = np.maximum(size - 1, -size)
        row = int(np.argmax(beyond))
        if beyond[row] > _AT_BOUND:
            state.leave(row, at_bound=size[row] > 1)
        else:
            return (state.alpha, state.bias) if np.any(beyond[state.free] < -_AT_BOUND) else None
    return None


def polish(machine: Machine) -> tuple[Float[np.ndarray, " N"], float] | None:
    """Solve for bias and free coefficients of a fit in double precision.

    The solver behind a fit keeps products of rows in single precision, so that its coefficients are off by more than
    its tolerance. Pivots mend rows that have a wrong place for that; iterative refinement then solves the system.

    Returns
    -------
    tuple of array and float, or None
        Coefficients, (N,), and bias. None where they cannot be had, as in `fit_without`.
    """
    found = fit_without(np.zeros(len(machine.y), bool), machine, POLISHED * float(np.std(machine.y)))
    if found is None:
        return None
    near = replace(machine, alpha=found[0], bias=found[1])
    left = _left(near)
    for _ in range(REFINEMENTS):
        step = near.inverse @ left
        alpha = near.alpha.copy()
        alpha[near.free] += step[1:]
        finer = replace(near, alpha=alpha, bias=near.bias + float(step[0]))
        # The ridge in the inverse may not let go further, and a step must not leave the box.
        if not np.array_equal(finer.free, near.free) or (np.sign(alpha) != np.sign(near.alpha)).any():
            break
        of_finer = _left(finer)
        if not np.max(np.abs(of_finer)) < np.max(np.abs(left)):
            break
        near, left = finer, of_finer
    return near.alpha, near.bias


def _left(machine: Machine) -> Float[np.ndarray, " s"]:
    """Return what sum and free rows' residuals lack of what they should be, (1 + F,)."""
    tube = machine.epsilon * np.sign(machine.alpha)
    return np.concatenate([[-np.sum(machine.alpha)], -(machine.residuals + tube)[machine.free]])


class _ActiveSet:
    """A partition of the rows into outside, free and at the bound, and the machine that it makes.

    Parameters
    ----------
    machine
        The fit on all rows, which the partition starts from.
    held
        Rows that are outside and stay there, (N,), as truth values.
    """

    def __init__(self, machine: Machine, held: Bool[np.ndarray, " N"]) -> None:
        self.machine = machine
        self.free, self.bound = machine.free & ~held, machine.at_bound & ~held
        self.sign = np.where(self.free | self.bound, np.sign(machine.alpha), 0.0)
        self.alpha, self.bias, self.residual = machine.alpha, machine.bias, -machine.residuals
        self._fixed = np.where(self.bound, self.sign * machine.bounds, 0.0)
        # Rows held out at their bounds no longer add to the others' predictions.
        lost = machine.at_bound & held
        self._pull = machine.pull - machine.alpha[lost] @ machine.gram[lost]

    def enter(self, row: int) -> None:
        """Let a coefficient move freely that was outside or at its bound."""
        if self.bound[row]:
            self._fix(row, 0.0)
        else:
            self.sign[row] = np.sign(self.residual[row])
        self.free[row], self.bound[row] = True, False

    def leave(self, row: int, *, at_bound: bool) -> None:
        """Fix a free coefficient at its bound or at zero; without a tube, one of regression goes on beyond it."""
        if not (at_bound or self.machine.labels or self.machine.epsilon > 0):
            self.sign[row] = -self.sign[row]
            return
        self.free[row], self.bound[row] = False, at_bound
        self.sign[row] *= at_bound
        self._fix(row, self.sign[row] * self.machine.bounds[row])

    def _fix(self, row: int, value: float) -> None:
        self._pull += (value - self._fixed[row]) * self.machine.gram[row]
        self._fixed[row] = value

    def violations(self) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
        """Return how far each residual is beyond where its row's place wants it, and alpha over bound of free rows."""
        machine = self.machine
        within = machine.epsilon - self.sign * self.residual
        short = machine.y * self.residual if machine.labels else np.abs(self.residual) - machine.epsilon
        outside = np.where(self.bound, within, short)
        return outside, np.where(self.free, self.sign * self.alpha / machine.bounds, 0.5)

    def solve(self) -> bool:
        """Find bias and free coefficients that give free rows the residual ``epsilon * sign``; say if there are any.

        The system differs from the machine's own in few rows, so its solution follows from that one's inverse by a
        Schur complement: one bordering row for each coefficient that has become free, or is so no longer.
        """
        machine, ours = self.machine, self.machine.free_rows
        dropped = 1 + np.flatnonzero(~self.free[ours])
        added = np.flatnonzero(self.free & ~machine.free)
        # What bias and free coefficients have to make up for.
        wanted = machine.y - machine.epsilon * self.sign - self._pull
        solution = machine.inverse @ np.concatenate([[-np.sum(self._fixed)], wanted[ours]])
        border, of_added = machine.border[added], machine.gram[added]
        columns = np.hstack([machine.inverse[:, dropped], machine.response[added].T])
        schur = -np.vstack([columns[dropped], border @ columns])
        schur[len(dropped) :, len(dropped) :] += of_added[:, added] + machine.ridge * np.eye(len(added))
        try:
            extra = np.linalg.solve(schur, np.concatenate([-solution[dropped], wanted[added] - border @ solution]))
        except np.linalg.LinAlgError:
            return False
        solution -= columns @ extra
        # Zero by construction, up to rounding.
        solution[dropped] = 0.0
        of_new = extra[len(dropped) :]
        self.alpha = self._fixed.copy()
        self.alpha[ours] += solution[1:]
        self.alpha[added] = of_new
        self.bias = float(solution[0])
        self.residual = machine.y - self._pull - machine.border @ solution - of_new @ of_added
        return True
