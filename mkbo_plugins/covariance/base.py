"""What every covariance has: what optimisers ask of it, designs and verdicts, and its saved form."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core.components.directed_mean import DirectedMean
from mkbo_plugins.core.components.protocols import FixedComponents
from mkbo_plugins.core.evaluation.evaluator import Choice
from mkbo_plugins.core.forms import DEFAULT_FORM, Form, get_form
from mkbo_plugins.core.gp.design import upper_confidence_design
from mkbo_plugins.core.gp.spacing import Spacing
from mkbo_plugins.covariance.directions import Directions, signs_of
from mkbo_plugins.covariance.saved import Saved
from mkbo_plugins.covariance.starting_points import starting_points
from mkbo_plugins.errors import KernelError, MkboError, SpaceError, TableError
from mkbo_plugins.space.levels import widened
from mkbo_plugins.space.parameters import Frame, FurtherLevels, is_finite_number, is_number
from mkbo_plugins.space.space import ParameterSpace, as_array

if TYPE_CHECKING:
    from mkbo_plugins.core.gp.bayes_factor import Verdict

GRAM_FORMS = ("base", "reweighted", "normalised", "two_layer", "moment")


class Covariance(Saved):
    """A covariance function pre-trained on one table or on several.

    Attributes
    ----------
    space
        The tables' parameters in raw units.
    frame
        How they map to frame coordinates.
    fixed
        The parts that no optimiser refits, over frame coordinates.
    """

    if TYPE_CHECKING:  # fields of the one class are computed in the other

        @property
        def space(self) -> ParameterSpace:
            """The tables' parameters."""

        @property
        def frame(self) -> Frame:
            """How they map to frame coordinates."""

        @property
        def fixed(self) -> FixedComponents:
            """The parts that no optimiser refits."""

    @abstractmethod
    def with_evaluator(self, choice: Choice = "auto", tolerance: float = 1e-10) -> "Covariance":
        """Return the same covariance, evaluated in another way."""

    def with_levels(self, levels: Mapping[str, FurtherLevels]) -> Self:
        """Return the same covariance for targets with further levels of categorical parameters.

        A new level has a coordinate of its own, which is 0 in every row of the table, so that nothing changes between
        known levels, and the mean of their weights. With equal weights, K_2, and K_4 with two rows of the table, are
        between it and a known level, or another new one, exactly what they are between two known levels; so K^E is
        between it and a known one. What the table says of single levels is no feature of a new one: its K^E with
        itself is of what levels have in common, which leaves about half of the squared feature distance of known
        levels, and none between two new ones, which only K_2 and the stock covariance tell from one another. The
        table's prediction for it is of what levels have in common, too, near the mean over them.

        Where levels are described by numbers, a further one is the point that its numbers say, in the coordinates of
        the others, and all that holds of points of the space holds of it.

        Parameters
        ----------
        levels
            Further levels by parameter, in a list, or, where levels have descriptors, as mappings of these to numbers,
            ``{"ligand": {"XPhos": {"pKa": 9.7}}}``. Hosts find those of a target's space themselves; this is for
            `starting_points`, for kernels and frames built by hand, and for descriptors where a host knows names alone.

        Raises
        ------
        SpaceError
            If `levels` is no mapping, a name is no categorical parameter, a level is there already, or it has not the
            descriptors of the others.
        """
        if not isinstance(levels, Mapping):
            raise SpaceError(f"levels must be a mapping of names to further levels, got {type(levels).__name__}")
        return self._widened(widened(self.space, levels), levels) if levels else self

    @abstractmethod
    def _widened(self, space: ParameterSpace, new: Mapping[str, FurtherLevels]) -> Self:
        """Return the same covariance over the widened space."""

    @abstractmethod
    def gram(self, X: Any, X2: Any = None, form: str = "reweighted", *, s: Any = 1.0) -> Float[np.ndarray, "n m"]:
        """Return the Gram matrix between points in raw units."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Covariance":
        """Return itself, since nothing in it can change."""
        return self

    @property
    def tables(self) -> int:
        """Number of tables that have parts and scales of their own."""
        return self.fixed.tables

    @property
    @abstractmethod
    def targets(self) -> tuple[str, ...]:
        """Name of each table's target."""

    def form(self, name: str) -> Form:
        """Return the covariance model called `name` for this number of tables.

        Raises
        ------
        KernelError
            If there is none of this name.
        """
        return get_form(name, self.tables)

    def to_coordinates(self, X: Any) -> Float[np.ndarray, "n d"]:
        """Return frame coordinates, (n, d), of points in raw units, as `ParameterSpace.to_raw` accepts them."""
        return np.asarray(self.space.to_coordinates(self.space.to_raw(X), self.frame))

    def signs(self, direction: Directions) -> tuple[float, ...]:
        """Return for each table 1 where a large target speaks for a good experiment, -1 where a small one, else 0.

        Raises
        ------
        KernelError
            If `direction` is neither one of the three words nor one of them for each table, or known where nothing was
            trained that predicts.
        """
        return signs_of(direction, self.tables)

    def is_directed(self, direction: Directions, form: str) -> bool:
        """Return whether a model of a form has a mean that tables direct: whether the direction of one is known.

        Raises
        ------
        KernelError
            If `direction` is not as described for `starting_points`; or if it is known, and `form` is ``"stock"`` or
            nothing was trained that predicts.
        """
        known = any(self.signs(direction))
        if known and form == "stock":
            raise KernelError(
                "form='stock' does without the table, so that its direction has no meaning; leave direction at "
                "'unknown', or choose another form"
            )
        return known

    def directed_mean(self, direction: Directions, *, minimised: bool = False) -> DirectedMean:
        """Return what the mean of a process has beside its constant where directions are known.

        Parameters
        ----------
        direction
            As for `starting_points`. Of several tables, those whose direction is known share the mean.
        minimised
            Whether good experiments have small outcomes.

        Returns
        -------
        DirectedMean
            The mean of the standardised outcome over frame coordinates, up to a constant.

        Raises
        ------
        KernelError
            If `direction` is not as described, known for no table, or known where nothing was trained that predicts.
        """
        signs = self.signs(direction)
        if not any(signs):
            raise KernelError("direction is 'unknown' for every table; a directed mean needs 'same' or 'opposite'")
        return DirectedMean(self.fixed, tuple(-sign for sign in signs) if minimised else signs)

    @abstractmethod
    def merit(self, Z: Float[np.ndarray, "n d"], direction: Directions) -> Float[np.ndarray, " n"]:
        """Return how good the tables say that points are, (n,), in standard deviations of their predictions.

        Parameters
        ----------
        Z
            Frame coordinates, (n, d).
        direction
            As for `starting_points`. Of several tables, the mean of those whose direction is known counts.

        Raises
        ------
        KernelError
            If `direction` is not as described, or known where nothing was trained that predicts.
        """

    def first_design(
        self,
        Z: Float[np.ndarray, "N d"],
        direction: Directions,
        n: int,
        *,
        present: Float[np.ndarray, "P d"],
        failed: Float[np.ndarray, "F d"] | None = None,
        spacing: Spacing,
    ) -> Int[np.ndarray, " n"]:
        """Return which of some points to try first, by what the tables say of them.

        Parameters
        ----------
        Z, present, failed
            Frame coordinates of the candidates, (N, d), of points that have an outcome or will, (P, d), and of those
            that gave none, (F, d): nothing is reached there, but nothing new is to be had either.
        direction
            As for `starting_points`.
        n
            Number of points.
        spacing
            The candidates and the distance that they are to keep.

        Returns
        -------
        ndarray
            Indices of candidates, (n,), in order of choice.
        """
        merit, correlation = self.merit(Z, direction), self.fixed.correlation
        present = present if failed is None else np.concatenate([present, failed])
        return upper_confidence_design(merit, correlation, Z, n, present=present, spacing=spacing)

    def starting_points(self, n: int, direction: Directions = "unknown", *, seed: int = 0) -> list[dict[str, Any]]:
        """Propose first experiments from the table alone, before the target has any data.

        Parameters
        ----------
        n
            Number of points.
        direction
            ``"same"`` if a large table target speaks for a good experiment, ``"opposite"`` if a small one does,
            ``"unknown"`` for points that fill the space. Of several tables, one word for all or one for each.
        seed
            Seed of the candidates.

        Returns
        -------
        list of mappings
            Points as names and values in raw units, best first. Each maximises the predicted (or, for
            ``"opposite"``, the negated) standardised target plus one posterior standard deviation of the base
            kernel given the points before it, among points that are at least `least_distance` of
            `mkbo_plugins.core.gp.spacing` apart in the parameters, however smooth the table is. Of several tables,
            predictions are averaged and kernels multiplied. Of campaigns, each maximises the expected improvement
            on the points before it of a function that is like one of the campaigns.

        Raises
        ------
        MkboError
            If an argument is not as described, or fewer than `n` different points were found in the space.

        Warns
        -----
        SpaceWarning
            If the space has no room for so many points at that distance, so that some are nearer.
        """
        known = any(self.signs(direction))
        choose = partial(self.first_design, direction=direction) if known else None
        return starting_points(self.space, self.frame, n, seed, choose)

    def verdict(self, X: Any, y: Any, form: str = DEFAULT_FORM) -> "Verdict":
        """Return whether what the tables say helps a target, and whether a form suits it.

        Both are judged by the evidence of models with the tables against the stock model.

        Parameters
        ----------
        X
            The target's points in raw units, n of them, as `ParameterSpace.to_raw` accepts them.
        y
            Its values, (n,).
        form
            Name of the form in use.

        Raises
        ------
        MkboError
            If points are not of the space, values are not n finite numbers that differ, or there is no such form.

        Notes
        -----
        It compares how likely the values are, not how many trials the table saves; see
        `mkbo_plugins.core.gp.bayes_factor.judge` for how the two agreed, and for a case where they differ.
        """
        from mkbo_plugins.core.gp.bayes_factor import judge
        from mkbo_plugins.core.gp.form_model import Points

        raw = self.space.to_raw(X)
        values = as_array(y, "y")
        if values.shape != (len(raw),) or not np.isfinite(values).all():
            raise TableError(f"y must be {len(raw)} finite numbers, one for each point, got shape {values.shape}")
        frame, unit = (np.asarray(self.space.to_coordinates(raw, name)) for name in (self.frame, "unit"))
        # Every parameter is a table's, so that a form without a stock covariance has no stock inputs.
        as_used = None if self.form(form).uses_stock else Points(frame, unit[:, :0])
        return judge(self.fixed, Points(frame, unit), values, form=form, as_used=as_used)


def check_covariance(cov: Any) -> None:
    """Raise a `MkboError` unless `cov` is a pre-trained covariance."""
    if not isinstance(cov, Covariance):
        raise MkboError(
            f"cov must be a PretrainedCovariance, got {type(cov).__name__}; read a file with PretrainedCovariance.load"
        )


def check_gram(form: str, scales: Sequence[Any]) -> None:
    """Raise a `KernelError` unless there is a Gram matrix of `form`, and `scales` are squared length scales."""
    if not isinstance(form, str) or form not in GRAM_FORMS:
        raise KernelError(f"form must be one of {list(GRAM_FORMS)}, got {form!r}")
    for s in scales:
        if not (is_number(s) and s > 0 and (s == math.inf or is_finite_number(s))):
            raise KernelError(f"s must be a number above 0, got {s!r:.60}")


def finite(values: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "n ..."]:
    """Return values, one row for each point, or raise a `KernelError` that names the first that is not finite."""
    faulty = np.argwhere(~np.isfinite(values))
    if len(faulty):
        raise KernelError(
            f"the result overflows at point {int(faulty[0][0])} (counting from 0): a point lies too far outside the "
            "bounds; check its units"
        )
    return values
