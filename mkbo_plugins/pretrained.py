"""The pre-trained covariance: fitted, frozen, comparable, and saved as one small file."""

import math
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mkbo_plugins.core.covariance import FixedCovariance
from mkbo_plugins.core.design import upper_confidence_design
from mkbo_plugins.core.evaluator import CertifiedEvaluator, Choice
from mkbo_plugins.core.form_model import Points
from mkbo_plugins.core.forms import get_form
from mkbo_plugins.core.two_layer import squared_exponential_profile
from mkbo_plugins.core.verdict import Verdict, judge
from mkbo_plugins.errors import KernelError, TableError
from mkbo_plugins.parameters import Frame, is_finite_number, is_number
from mkbo_plugins.space import ParameterSpace, as_array

if TYPE_CHECKING:
    from mkbo_plugins.core.kernels import FreeKernel

GRAM_FORMS = ("base", "reweighted", "normalised", "two_layer", "moment")
FEWEST = 3
"""Values of a target below which nothing can be judged."""

Direction = Literal["same", "opposite", "unknown"]


@dataclass(frozen=True)
class TrainingRecord:
    """What the table was and how the machine was chosen; nothing here enters the covariance.

    Parameters
    ----------
    target
        Name of the table's target column.
    rows
        Number of rows trained on.
    target_mean, target_spread
        Mean and standard deviation of the target over these rows, after the logarithm if one was taken.
    task
        ``"regression"`` or ``"classification"``.
    trainer
        ``"svm"`` or ``"gp"``.
    C, epsilon
        Box bound and tube half-width of the support vector machine; None for trainer ``"gp"``. A classifier has no
        epsilon.
    loo_mse
        Leave-one-out mean squared error, conditional on coordinate weights learned from all rows. Of labels, -1 and 1,
        that of predicted labels with both classes weighing the same: four times the error rate.
    notes
        Remarks worth a look, such as a best value at the edge of the grid.
    """

    target: str
    rows: int
    target_mean: float
    target_spread: float
    task: str
    trainer: str
    C: float | None
    epsilon: float | None
    loo_mse: float
    notes: tuple[str, ...] = ()

    @property
    def explained(self) -> float:
        """Share of the target's variance that held-out predictions explain; of labels, Youden's index.

        Youden's index is 1 - 2 error rate with both classes weighing the same, 0 for guesses.
        """
        if self.task == "classification":
            return 1 - self.loo_mse / 2
        return 1 - self.loo_mse / self.target_spread**2


@dataclass(frozen=True)
class PretrainedCovariance:
    """A covariance function pre-trained on a table of condensed knowledge.

    Made by `pretrain` or `load`; two of them are equal when everything in them is.

    Parameters
    ----------
    space
        The table's parameters in raw units.
    frame
        How they map to frame coordinates; fixed here, whatever bounds an optimiser uses.
    fixed
        The machine and its re-weighted kernel in frame coordinates.
    record
        What it was trained on and how.
    log_target
        Whether the machine was trained on the logarithm of the target.
    """

    space: ParameterSpace
    frame: Frame
    fixed: FixedCovariance
    record: TrainingRecord
    log_target: bool = False

    def __post_init__(self) -> None:
        d, support = len(self.space.coordinate_names), self.support
        if support.shape[1] != d or self.kernel.dimension not in (None, d):
            raise KernelError(f"support and weights must have the space's {d} coordinates, got {support.shape[1]}")

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for values in (self.support, self.alpha):  # pickling makes arrays writable
            values.setflags(write=False)

    def __repr__(self) -> str:
        """Return one line: target, parameters, rows and quality."""
        return (
            f"PretrainedCovariance(target={self.record.target!r}, parameters={list(self.space.names)}, "
            f"rows={self.record.rows}, explained={self.record.explained:.2f}, trainer={self.record.trainer!r})"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> "PretrainedCovariance":
        """Return itself, since nothing in it can change."""
        return self

    @property
    def kernel(self) -> "FreeKernel":
        """The free kernel, with its weights."""
        return self.fixed.decision.kernel

    @property
    def support(self) -> np.ndarray:
        """Support vectors in frame coordinates, (n_sv, d)."""
        return self.fixed.decision.table.points

    @property
    def alpha(self) -> np.ndarray:
        """Dual coefficients, (n_sv,), in units of the (logarithm of the) target."""
        return self.fixed.decision.table.alpha

    @property
    def bias(self) -> float:
        """Constant term of the decision function, in units of the (logarithm of the) target."""
        return self.fixed.decision.bias

    @property
    def weights(self) -> np.ndarray:
        """Coordinate weights lambda_j, (d,)."""
        weights = self.kernel.weights
        return np.ones(len(self.space.coordinate_names)) if weights is None else np.asarray(weights)

    @property
    def sigma(self) -> float | None:
        """Squared length scale in frame coordinates; None for kernels without one, whose weights carry the scale."""
        return getattr(self.kernel, "sigma", None)

    @property
    def C(self) -> float | None:
        """Box bound on |alpha_i|, or None for trainer ``"gp"``."""
        return self.record.C

    @property
    def epsilon(self) -> float | None:
        """Half-width of the insensitive tube, or None for trainer ``"gp"`` and for labels."""
        return self.record.epsilon

    @property
    def loo_mse(self) -> float:
        """Leave-one-out mean squared error in squared units of the (logarithm of the) target, as in the record."""
        return self.record.loo_mse

    @property
    def evaluator(self) -> CertifiedEvaluator:
        """What evaluates the re-weighted kernel; ``describe()`` says how, `with_evaluator` changes it."""
        return self.fixed.kernel.evaluator

    def with_evaluator(self, choice: Choice = "auto", tolerance: float = 1e-10) -> "PretrainedCovariance":
        """Return the same covariance, evaluated in another way; nothing of this is saved.

        Parameters
        ----------
        choice
            ``"auto"``: the cheapest way that meets the tolerance, by estimated cost and certified error;
            ``"features"``: explicit features; ``"pairs"``: the sum over pairs of support vectors; ``"extended"``: that
            sum in double-double arithmetic, slow.
        tolerance
            Largest error of K^E(x, x'), relative to sqrt(K^E(x, x) K^E(x', x')), between 1e-14 and 1e-2.

        Raises
        ------
        KernelError
            If an argument is not as described.
        """
        CertifiedEvaluator(self.kernel, (self.fixed.decision.table,), self.support.shape[1], choice, tolerance)
        return replace(self, fixed=replace(self.fixed, choice=choice, tolerance=tolerance))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical content, as hexadecimal digits."""
        from mkbo_plugins.artefact import content_fingerprint

        return content_fingerprint(self)

    def to_coordinates(self, X: Any) -> np.ndarray:
        """Return frame coordinates, (n, d), of points in raw units, as `ParameterSpace.to_raw` accepts them."""
        return np.asarray(self.space.to_coordinates(self.space.to_raw(X), self.frame))

    def gram(self, X: Any, X2: Any = None, form: str = "reweighted", *, s: float = 1.0) -> np.ndarray:
        """Return the Gram matrix between points in raw units.

        Parameters
        ----------
        X, X2
            Points in raw units, n and n' of them, as `ParameterSpace.to_raw` accepts them; None means X2 is X.
        form
            ``"base"``, the free kernel K_2; ``"reweighted"``, the raw K^E; ``"normalised"``, K^E normalised;
            ``"two_layer"``, exp(-d^2 / (2 s)) with d^2 the feature distance of K^E over its mean diagonal;
            ``"moment"``, the product of standardised decision functions.
        s
            Squared length scale of ``"two_layer"``.

        Returns
        -------
        ndarray
            Covariances, (n, n').

        Raises
        ------
        SpaceError
            If a point is not one of the space.
        KernelError
            If `form` or `s` is not as described, or points lie so far outside the bounds that the result overflows.
        """
        if form not in GRAM_FORMS:
            raise KernelError(f"form must be one of {list(GRAM_FORMS)}, got {form!r}")
        if not (is_number(s) and s > 0 and (s == math.inf or is_finite_number(s))):
            raise KernelError(f"s must be a number above 0, got {s!r:.60}")
        Z = self.to_coordinates(X)
        Z2 = None if X2 is None else self.to_coordinates(X2)
        if X2 is None and len(Z) == 0:
            return np.empty((0, 0))
        value = self.fixed.part(get_form(form).parts[0], Z, Z2)
        if form == "reweighted":
            value = value * self.fixed.mean_diagonal
        if form == "two_layer":
            value = squared_exponential_profile(value, s)
        return _finite(np.asarray(value))

    def gram_error(self, X: Any, X2: Any = None) -> np.ndarray:
        """Return bounds on the errors of the re-weighted Gram matrix, relative to sqrt(K^E(x, x) K^E(x', x')).

        Where K^E(x, x) itself is zero up to rounding, a relative error has no meaning and is infinite.

        Parameters
        ----------
        X, X2
            Points in raw units, as for `gram`.

        Returns
        -------
        ndarray
            Bounds, (n, n').
        """
        Z = self.to_coordinates(X)
        _, P, Q = self.evaluator.prepare(Z, None if X2 is None else self.to_coordinates(X2))
        of_x, of_y = (np.where(R.vanishing, np.inf, R.error / np.where(R.vanishing, 1.0, R.diagonal)) for R in (P, Q))
        return np.sqrt(np.multiply.outer(of_x, of_y))

    def predict(self, X: Any) -> np.ndarray:
        """Return the machine's prediction g(x) in the table's units, (n,), at points in raw units.

        Of labels, it is the decision value: above 0 for the label that counts as 1.
        """
        g = np.asarray(self.fixed.decision(self.to_coordinates(X)))
        return _finite(np.exp(g) if self.log_target else g)

    def starting_points(self, n: int, direction: Direction = "unknown", *, seed: int = 0) -> list[dict[str, Any]]:
        """Propose first experiments from the table alone, before the target has any data.

        Parameters
        ----------
        n
            Number of points.
        direction
            ``"same"`` if a large table target speaks for a good experiment, ``"opposite"`` if a small one does,
            ``"unknown"`` for points that fill the space.
        seed
            Seed of the candidates.

        Returns
        -------
        list of mappings
            Points as names and values in raw units, best first. Each maximises the predicted (or, for
            ``"opposite"``, the negated) standardised target plus one posterior standard deviation of the base
            kernel given the points before it, so they lie as far apart as the length scales learned ask for.

        Raises
        ------
        MkboError
            If an argument is not as described, or fewer than `n` different points were found in the space.
        """
        if direction not in ("same", "opposite", "unknown"):
            raise KernelError(f"direction must be 'same', 'opposite' or 'unknown', got {direction!r}")
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise KernelError(f"n must be a whole number of at least 1, got {n!r}")
        raw = self.space.sobol(max(1024, 8 * n), seed)
        raw = raw[np.sort(np.unique(raw, axis=0, return_index=True)[1])]
        if len(raw) < n:
            raise KernelError(f"n = {n} asks for more points than the {len(raw)} different ones found; ask for fewer")
        if direction == "unknown":
            return self.space.from_raw(raw[:n])
        Z = np.asarray(self.space.to_coordinates(raw, self.frame))
        merit = self.fixed.standardised_decision(Z) * (1 if direction == "same" else -1)
        return self.space.from_raw(raw[upper_confidence_design(merit, self.kernel, Z, n)])

    def verdict(self, X: Any, y: Any) -> Verdict:
        """Return whether the table helps a target, judged by the evidence of models with and without it.

        Parameters
        ----------
        X
            The target's points in raw units, n of them, as `ParameterSpace.to_raw` accepts them.
        y
            Its values, (n,).

        Raises
        ------
        MkboError
            If points are not of the space, or values are not n finite numbers that differ.

        Notes
        -----
        It compares how likely the values are, which is not yet checked against the trials that tables save; see
        `mkbo_plugins.core.verdict.judge` for a case where the two differ.
        """
        raw = self.space.to_raw(X)
        values = as_array(y, "y")
        if values.shape != (len(raw),) or not np.isfinite(values).all():
            raise TableError(f"y must be {len(raw)} finite numbers, one for each point, got shape {values.shape}")
        if len(values) < FEWEST or np.ptp(values) == 0:
            raise TableError(f"a verdict needs at least {FEWEST} values that are not all equal, got {len(values)}")
        frame, unit = (np.asarray(self.space.to_coordinates(raw, name)) for name in (self.frame, "unit"))
        return judge(self.fixed, Points(frame, unit), values)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the covariance to a file, atomically: an existing file is replaced as a whole or not at all.

        Returns
        -------
        Path
            The file written.

        Raises
        ------
        ArtefactError
            If the file cannot be written, or the covariance holds something no file can.
        """
        from mkbo_plugins.artefact import save

        return save(self, Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PretrainedCovariance":
        """Read a covariance written by `save`.

        Raises
        ------
        ArtefactError
            If the file is missing, damaged, altered, of another kind, or of a newer version.
        """
        from mkbo_plugins.artefact import load

        return load(Path(path))


def _finite(values: np.ndarray) -> np.ndarray:
    faulty = np.argwhere(~np.isfinite(values))
    if len(faulty):
        raise KernelError(
            f"the result overflows at point {int(faulty[0][0])} (counting from 0): a point lies too far outside the "
            "bounds; check its units"
        )
    return values
