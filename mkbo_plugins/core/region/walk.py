"""Even draws from a polytope, and small steps within it."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb, lcm

import numpy as np
from jaxtyping import Bool, Float, Int

from mkbo_plugins.core.region.polytope import Polytope
from mkbo_plugins.errors import SpaceError

CIRCUITS = 200
"""Most directions along edges among which a step chooses."""

ZERO = 1e-9
"""What is taken as zero, in units in which continuous coordinates run from 0 to 1."""


@dataclass(frozen=True, eq=False)
class Walk:
    """Hit-and-run within a polytope (Smith, Operations Research 32, 1296, 1984), many points at a time.

    Continuous coordinates move along random directions, and along the edges that these have, to a place drawn evenly
    between the ends of the polytope. Whole ones move by lattice vectors, for which the continuous ones make up where
    an equality asks for it. Every step keeps the even distribution and all constraints.

    Parameters
    ----------
    polytope
        Where to walk; it must have points.
    """

    polytope: Polytope

    def draws(self, n: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Return `n` points, (n, d), spread evenly.

        Raises
        ------
        SpaceError
            If there is so little room that double precision cannot keep the constraints.
        """
        starts = self._starts
        y = starts[rng.integers(len(starts), size=n)]
        if not self._whole.any():
            y = rng.dirichlet(np.ones(len(starts)), size=n) @ starts
        for _ in range(30 + 10 * y.shape[1]):
            y = self._whole_steps(y, rng, np.inf)
            for directions in (self._shaped(n, rng), self._along_edges(n, rng)):
                low, high = self._ends(y, directions)
                y = y + rng.uniform(low, high)[:, None] * directions
        X = self._raw(y)
        kept = X[self.polytope.contains(X)]
        if n and not len(kept):
            raise SpaceError("the constraints leave too little room for double precision; widen one of them or a bound")
        return kept if len(kept) == n else kept[rng.integers(len(kept), size=n)]

    def near(self, X: Float[np.ndarray, "n d"], width: float, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Return a point near each of some points (n, d), (n, d); `width` is that of steps as a share of ranges."""
        y, n = (X - self.polytope.lower) / self._unit, len(X)
        moved = self._whole_steps(y, rng, width)
        y = np.where(rng.random(n)[:, None] < 0.5, moved, y)
        basis = self._free
        directions = rng.normal(0.0, width, y.shape) @ basis @ basis.T
        edges = self._along_edges(n, rng) * rng.normal(0.0, width, (n, 1))
        directions = np.where(rng.random(n)[:, None] < 0.5, edges, directions)
        _, high = self._ends(y, directions)
        found = self._raw(y + np.minimum(high, 1.0)[:, None] * directions)
        return np.where(self.polytope.contains(found)[:, None], found, X)

    def on_steps(self, X: Float[np.ndarray, "n d"], decimals: Int[np.ndarray, " d"]) -> Float[np.ndarray, "n d"]:
        """Return points (n, d) of the polytope with continuous coordinates rounded where that keeps its constraints.

        Where all can be, all are; else some make up for the others by what equalities ask of them; a point where
        neither is possible stays.

        Parameters
        ----------
        X
            Points, (n, d).
        decimals
            Number of decimals of each coordinate, (d,), negative for tens and so on.
        """
        found, todo = X.copy(), np.arange(len(X))
        inside = self.polytope
        for rounding in (None, np.floor, np.ceil):
            for columns, neat in [(None, True), *((c, n) for c in self._pivots for n in (True, False))]:
                tried = np.where(self._whole, X[todo], _to_decimals(X[todo], decimals, rounding))
                tried = np.clip(tried, inside.lower, inside.upper)
                if columns is not None:
                    tried[:, columns] = self._solved(tried, columns)
                    tried = _to_decimals(tried, decimals) if neat else tried
                fits = inside.contains(tried)
                found[todo[fits]], todo = tried[fits], todo[~fits]
                if not len(todo):
                    return found
        return found

    def _solved(self, X: Float[np.ndarray, "n d"], columns: Int[np.ndarray, " r"]) -> Float[np.ndarray, "n r"]:
        """Return coordinates, (n, r), that solve the equalities, given the others of points (n, d)."""
        E, e = self._raw_equalities
        rest = e - np.delete(X, columns, axis=1) @ np.delete(E, columns, axis=1).T
        return rest @ np.linalg.pinv(E[:, columns]).T

    @cached_property
    def _whole(self) -> Bool[np.ndarray, " d"]:
        return self.polytope.whole

    @cached_property
    def _unit(self) -> Float[np.ndarray, " d"]:
        """What one is, in each coordinate: its range, or one where it is whole."""
        return np.where(self._whole, 1.0, self.polytope.upper - self.polytope.lower)

    def _raw(self, y: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return points in the polytope's units, free of what rounding has added up to."""
        E, e = self._equalities
        inverse = np.linalg.pinv(np.where(self._whole, 0.0, E))
        top = (self.polytope.upper - self.polytope.lower) / self._unit
        for _ in range(3):
            y = np.clip(np.where(self._whole, np.round(y), y - (y @ E.T - e) @ inverse.T), 0.0, top)
        return np.clip(self.polytope.lower + self._unit * y, self.polytope.lower, self.polytope.upper)

    @cached_property
    def _rows(self) -> tuple[Float[np.ndarray, "m d"], Float[np.ndarray, " m"]]:
        """All constraints as rows and what these are at most, in units of coordinates and of their largest entry."""
        p = self.polytope
        rows, d = p.matrix * self._unit, len(p.lower)
        weight, offset = np.abs(rows).max(axis=1), p.matrix @ p.lower
        rows = rows / weight[:, None]
        G = np.concatenate([rows, -rows, np.eye(d), -np.eye(d)])
        h = np.concatenate(
            [(p.most - offset) / weight, (offset - p.least) / weight, (p.upper - p.lower) / self._unit, np.zeros(d)]
        )
        return G[np.isfinite(h)], h[np.isfinite(h)]

    @cached_property
    def _tight(self) -> Bool[np.ndarray, " m"]:
        """Which rows leave no room, so that they are equalities."""
        from scipy.optimize import linprog

        G, h = self._rows
        room = [-linprog(row, A_ub=G, b_ub=h, bounds=(None, None)).fun for row in G]
        return h + np.array(room) <= ZERO

    @cached_property
    def _equalities(self) -> tuple[Float[np.ndarray, "r d"], Float[np.ndarray, " r"]]:
        G, h = self._rows
        return G[self._tight], h[self._tight]

    @cached_property
    def _raw_equalities(self) -> tuple[Float[np.ndarray, "r d"], Float[np.ndarray, " r"]]:
        E, e = self._equalities
        return E / self._unit, e + (E / self._unit) @ self.polytope.lower

    @cached_property
    def _inequalities(self) -> tuple[Float[np.ndarray, "m d"], Float[np.ndarray, " m"]]:
        G, h = self._rows
        return G[~self._tight], h[~self._tight]

    @cached_property
    def _free(self) -> Float[np.ndarray, "d f"]:
        """Orthonormal directions in which continuous coordinates can move, (d, f)."""
        return self._null_space(np.flatnonzero(~self._whole))

    def _null_space(self, columns: Int[np.ndarray, " c"]) -> Float[np.ndarray, "d f"]:
        from scipy.linalg import null_space

        E, _ = self._equalities
        basis = np.zeros((E.shape[1], 0))
        if len(columns):
            found = null_space(E[:, columns], rcond=ZERO) if len(E) else np.eye(len(columns))
            basis = np.zeros((E.shape[1], found.shape[1]))
            basis[columns] = found
        return basis

    @cached_property
    def _edges(self) -> Float[np.ndarray, "e d"]:
        """Directions that change as few continuous coordinates as equalities allow, (e, d), largest entry 1."""
        return self._circuits(np.flatnonzero(~self._whole))

    def _circuits(self, columns: Int[np.ndarray, " c"]) -> Float[np.ndarray, "e d"]:
        E, _ = self._equalities
        rank = int(np.linalg.matrix_rank(E[:, columns], tol=ZERO)) if len(E) and len(columns) else 0
        found = []
        for chosen in _subsets(columns, rank + 1):
            basis = self._null_space(chosen)
            if basis.shape[1] == 1:
                found.append(basis[:, 0] / np.abs(basis).max())
        return np.array(found).reshape(-1, E.shape[1])

    @cached_property
    def _pivots(self) -> list[Int[np.ndarray, " r"]]:
        """Sets of continuous coordinates that can be solved for."""
        E, _ = self._equalities
        columns = np.flatnonzero(~self._whole)
        rank = int(np.linalg.matrix_rank(E[:, columns], tol=ZERO)) if len(E) and len(columns) else 0
        if not rank:
            return []
        sets = _subsets(columns, rank)[:50]
        return [s for s in sets if np.linalg.matrix_rank(E[:, s], tol=ZERO) == rank]

    @cached_property
    def _lattice(self) -> Float[np.ndarray, "v d"]:
        """Moves of whole coordinates, (v, d), continuous ones making up for them where an equality asks for it."""
        E, _ = self._equalities
        d, columns = E.shape[1], np.flatnonzero(self._whole)
        single = np.eye(d)[columns]
        pairs = [s + sign * t for s, t in combinations(single, 2) for sign in (-1.0, 1.0)]
        moves = [*single, *pairs, *(_whole_multiple(v) for v in self._circuits(columns))]
        inverse = np.linalg.pinv(np.where(self._whole, 0.0, E))
        completed = [move - inverse @ (E @ move) for move in moves if move is not None]
        kept = [move for move in completed if np.abs(E @ move).max(initial=0.0) <= ZERO]
        return np.array(kept).reshape(-1, d)

    @cached_property
    def _starts(self) -> Float[np.ndarray, "s d"]:
        """Points to start from, (s, d): corners, or points inside for different whole coordinates."""
        p, rng = self.polytope, np.random.default_rng(0)
        d = len(p.lower)
        directions = np.concatenate([np.eye(d), -np.eye(d), rng.normal(size=(8 + 2 * d, d))]) / (p.upper - p.lower)
        corners = [corner for corner in map(p.extreme, directions) if corner is not None]
        y = (np.array(corners) - p.lower) / self._unit
        if not self._whole.any():
            centre = self._centre(y[0])
            return 0.9 * np.unique(y, axis=0) + 0.1 * centre
        _, first = np.unique(y[:, self._whole], axis=0, return_index=True)
        return np.array([self._centre(y[i]) for i in first])

    def _centre(self, y: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """Return the point of most room that has the whole coordinates of a point, (d,)."""
        from scipy.optimize import linprog

        (G, h), (E, e) = self._inequalities, self._equalities
        free = ~self._whole
        if not free.any():
            return y
        room = np.abs(G[:, free]).max(axis=1, initial=0.0)
        found = linprog(
            np.append(np.zeros(free.sum()), -1.0),
            A_ub=np.column_stack([G[:, free], room]),
            b_ub=h - G[:, ~free] @ y[~free] + ZERO,
            A_eq=np.column_stack([E[:, free], np.zeros(len(E))]) if len(E) else None,
            b_eq=e - E[:, ~free] @ y[~free] if len(E) else None,
            bounds=[(None, None)] * int(free.sum()) + [(0, 1)],
        )
        if found.x is None:
            return y
        centre = y.copy()
        centre[free] = found.x[:-1]
        return centre

    @cached_property
    def _shape(self) -> Float[np.ndarray, "f d"]:
        """Directions whose random mixtures are as long, on average, as the polytope is wide, (f, d)."""
        basis = self._free
        spread = np.cov(self._starts @ basis, rowvar=False, ddof=0).reshape(basis.shape[1], basis.shape[1])
        variances, axes = np.linalg.eigh(spread) if basis.shape[1] else (np.ones(0), np.zeros((0, 0)))
        variances = np.maximum(variances, 1e-4 * max(variances.max(initial=0.0), 1e-12))
        return (basis @ axes * np.sqrt(variances)).T

    def _shaped(self, n: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
        directions = rng.normal(size=(n, len(self._shape))) @ self._shape
        return directions / np.maximum(np.abs(directions).max(axis=1, keepdims=True), 1e-300)

    def _along_edges(self, n: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
        edges = self._edges
        return edges[rng.integers(len(edges), size=n)] if len(edges) else np.zeros((n, len(self._whole)))

    def _whole_steps(
        self, y: Float[np.ndarray, "n d"], rng: np.random.Generator, width: float
    ) -> Float[np.ndarray, "n d"]:
        """Return points after a move of whole coordinates, at most as far as a share of their ranges, 1 at least."""
        if not len(self._lattice):
            return y
        directions = self._lattice[rng.integers(len(self._lattice), size=len(y))]
        low, high = self._ends(y, directions)
        if np.isfinite(width):
            widest = float(np.max((self.polytope.upper - self.polytope.lower)[self._whole]))
            most = max(1.0, round(width * widest))
            low, high = np.maximum(low, -most), np.minimum(high, most)
        low, high = np.ceil(low - ZERO).astype(int), np.floor(high + ZERO).astype(int)
        return y + rng.integers(np.minimum(low, 0), np.maximum(high, 0) + 1)[:, None] * directions

    def _ends(
        self, y: Float[np.ndarray, "n d"], directions: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Return how far points can move backwards and forwards along directions, (n,) each."""
        G, h = self._inequalities
        speed, room = directions @ G.T, np.maximum(h - y @ G.T, 0.0)
        moving = np.abs(speed) > 1e-12
        ratio = room / np.where(moving, speed, 1.0)
        high = np.where(moving & (speed > 0), ratio, np.inf).min(axis=1, initial=np.inf)
        low = np.where(moving & (speed < 0), ratio, -np.inf).max(axis=1, initial=-np.inf)
        still = ~np.isfinite(low) | ~np.isfinite(high)
        return np.where(still, 0.0, low), np.where(still, 0.0, high)


def _to_decimals(
    X: Float[np.ndarray, "n d"],
    decimals: Int[np.ndarray, " d"],
    rounding: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Float[np.ndarray, "n d"]:
    """Return coordinates rounded to decimals, to the nearest ones or otherwise, with no digits behind these."""
    stepped = X if rounding is None else rounding(X * 10.0**decimals) / 10.0**decimals
    return np.array([[round(float(v), int(k)) for v, k in zip(x, decimals, strict=True)] for x in stepped])


def _subsets(columns: Int[np.ndarray, " c"], size: int) -> list[Int[np.ndarray, " s"]]:
    """Return all subsets of a size, or many random ones."""
    if not 0 < size <= len(columns):
        return []
    if comb(len(columns), size) <= CIRCUITS:
        return [np.array(chosen) for chosen in combinations(columns, size)]
    rng = np.random.default_rng(0)
    return [np.sort(rng.choice(columns, size, replace=False)) for _ in range(CIRCUITS)]


def _whole_multiple(direction: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"] | None:
    """Return the shortest whole multiple of a direction, if there is one of small numbers."""
    least = np.abs(direction[np.abs(direction) > ZERO]).min()
    shares = [Fraction(float(v / least)).limit_denominator(1000) for v in direction]
    multiple = np.array([float(share * lcm(*(s.denominator for s in shares))) for share in shares])
    exact = np.abs(multiple / np.abs(multiple).max() - direction / np.abs(direction).max()).max() <= ZERO
    return multiple if exact else None
