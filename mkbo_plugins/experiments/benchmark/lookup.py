"""Exact Gaussian processes over a pool, their fixed parts being computed once for each candidate tried."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.core.gp.moments import Moments, posterior_moments
from mkbo_plugins.core.gp.pool import Known, Pool, PoolParts
from mkbo_plugins.core.gp.posterior import FormPosterior, PosteriorDensity
from mkbo_plugins.core.mixture.kernel_mixture import fit_kernel_mixture
from mkbo_plugins.covariance.pretrained import PretrainedCovariance
from mkbo_plugins.errors import MkboWarning
from mkbo_plugins.experiments.benchmark.problems import Problem
from mkbo_plugins.files import write_atomically
from mkbo_plugins.pretraining.training import pretrain
from mkbo_plugins.space.parameters import Frame


@dataclass(frozen=True, eq=False)
class LookupParts(PoolParts):
    """The fixed parts of a covariance between candidates, with matrices in a folder, which many campaigns need.

    Parameters
    ----------
    folder
        Where matrices between all candidates are kept.
    """

    folder: Path

    def computed(self, name: str) -> np.ndarray:
        """Return a component between all candidates, (M, M), from the folder if it is there."""
        path = self.folder / f"{name}.npy"
        if not path.exists():
            buffer = BytesIO()
            np.save(buffer, super().computed(name))
            write_atomically(path, buffer.getvalue())
        return np.load(path, mmap_mode="r")


@dataclass(frozen=True, eq=False)
class TriedParts(PoolParts):
    """The same, from the candidates tried to all, of a pool too large for matrices between all."""

    _rows: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    _diagonals: dict[str, np.ndarray] = field(default_factory=dict)

    def components(
        self, names: Iterable[str], X: np.ndarray, Y: np.ndarray | None = None, *, elementwise: bool = False
    ) -> dict[str, Known]:
        """Return what `LookupParts.components` does; elementwise, of candidates with themselves."""
        names = tuple(names)
        if not names:
            return {}
        rows = X[:, 0].astype(int)
        if elementwise:
            return {name: Known(self._diagonal(name)[rows]) for name in names}
        columns = rows if Y is None else Y[:, 0].astype(int)
        return {name: Known(np.stack([self._row(name, int(i))[columns] for i in rows])) for name in names}

    def _row(self, name: str, i: int) -> np.ndarray:
        if (name, i) not in self._rows:
            found = self.fixed.components((name,), self.pool[i : i + 1], self.pool)
            self._rows[name, i] = np.asarray(found[name].value)[0]
        return self._rows[name, i]

    def _diagonal(self, name: str) -> np.ndarray:
        if name not in self._diagonals:
            found = self.fixed.components((name,), self.pool, elementwise=True)
            self._diagonals[name] = np.asarray(found[name].value)
        return self._diagonals[name]


@dataclass(frozen=True, eq=False)
class Lookup:
    """A problem seen through a covariance pre-trained on its table.

    Parameters
    ----------
    problem
        The problem.
    cov
        The covariance.
    folder
        Where what is computed once is kept; None computes it only of candidates tried, and keeps it in memory.
    """

    problem: Problem
    cov: PretrainedCovariance
    folder: Path | None

    @cached_property
    def unit(self) -> np.ndarray:
        """Candidates scaled to [0, 1], (M, k)."""
        return np.asarray(self.problem.space.to_coordinates(self.problem.pool_points, "unit"))

    @cached_property
    def source_unit(self) -> np.ndarray:
        """The table's points scaled to [0, 1], (N, k)."""
        return np.asarray(self.problem.space.to_coordinates(self.problem.source_points, "unit"))

    @cached_property
    def source_z(self) -> np.ndarray:
        """The table's standardised values, (N,)."""
        y = self.problem.source_y
        return (y - y.mean()) / y.std(ddof=1)

    @cached_property
    def parts(self) -> PoolParts:
        """The fixed parts between candidates."""
        pool = self.cov.to_coordinates(self.problem.pool_points)
        return (
            TriedParts(self.cov.fixed, pool) if self.folder is None else LookupParts(self.cov.fixed, pool, self.folder)
        )

    @cached_property
    def decision(self) -> np.ndarray:
        """The standardised decision function at all candidates, (M,)."""
        return np.asarray(self.cov.fixed.standardised_decision(self.parts.pool))

    @cached_property
    def source_process(self) -> FormPosterior:
        """The stock process conditioned on the table."""
        model = FormModel(self.parts, "stock", self.unit.shape[1])  # type: ignore[arg-type]
        n = len(self.source_z)
        density = PosteriorDensity(model, Points(np.empty((n, 0)), self.source_unit), self.source_z, None)
        return density.posterior(density.maximise([density.usual_start]))

    @cached_property
    def source_mean(self) -> np.ndarray:
        """Mean of that process at all candidates, (M,)."""
        return self.source_process.process.predict_mean(self._source_cross)

    def source_moments(self, indices: np.ndarray) -> Moments:
        """Return the moments of that process, which has seen nothing of the candidates tried, (n,)."""
        with_tried = self._source_prior(self.unit[indices]).T
        return posterior_moments(self.source_process.process, self._source_cross, 1.0, with_tried, indices, 0.0)

    @cached_property
    def _source_cross(self) -> np.ndarray:
        return self._source_prior(self.source_unit).T

    def _source_prior(self, unit: np.ndarray) -> np.ndarray:
        """Return the table's stock covariance between points (n, k) and all candidates, (n, M)."""
        model, theta = self.source_process.model, self.source_process.theta
        points, pool = (Points(np.empty((len(Z), 0)), Z) for Z in (unit, self.unit))
        return model.value(model.pairs(points, pool), theta)

    def gram(self, name: str) -> np.ndarray:
        """Return a component of the covariance between all candidates, (M, M)."""
        return self.parts.between_all(name)

    @cached_property
    def mixture_gram(self) -> np.ndarray:
        """The kernel mixture fitted to the table, between all candidates, (M, M)."""
        source = self.cov.to_coordinates(self.problem.source_points)
        return np.asarray(fit_kernel_mixture(source, self.source_z).mixture.gram(self.parts.pool))

    @cached_property
    def candidates(self) -> Pool:
        """The candidates as models of a form see them."""
        return Pool(self.parts, self.unit)


TRAINERS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"gp": {"trainer": "gp"}, "svm": {"trainer": "svm"}, "svm_iso": {"trainer": "svm", "ard": False}}
)
"""Settings of `pretrain` by name; ``svm_iso`` is the paper's machine, with one length scale for all parameters."""


def train(problem: Problem, trainer: str, frame: Frame = "centred") -> PretrainedCovariance:
    """Pre-train on a problem's table with one of `TRAINERS`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MkboWarning)
        return pretrain(
            (problem.source_points, problem.source_y),
            "known",
            problem.space,
            frame=frame,
            task=problem.task,
            n_jobs=1,
            progress=False,
            **TRAINERS[trainer],
        )
