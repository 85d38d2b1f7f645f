"""The pre-trained covariance: fitted, frozen, comparable, and saved as one small file."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core.components.components import PretrainedComponents
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.core.components.directed_mean import DirectedMean
from mkbo_plugins.core.components.several import SeveralTables
from mkbo_plugins.core.evaluation.evaluator import CertifiedEvaluator, Choice
from mkbo_plugins.core.evaluation.features import EPS
from mkbo_plugins.core.forms import get_form
from mkbo_plugins.core.gp.design import portfolio_design
from mkbo_plugins.core.gp.spacing import Spacing
from mkbo_plugins.core.reweighted.two_layer import squared_exponential_profile
from mkbo_plugins.covariance.base import Covariance, check_gram, finite
from mkbo_plugins.covariance.campaigns import (
    CampaignRecord,
    SharedFit,
    decode_campaigns,
    encode_campaigns,
    resembling,
)
from mkbo_plugins.covariance.content import (
    Reader,
    decode_kernel,
    decode_points,
    decode_space,
    encode_kernel,
    encode_points,
    encode_space,
)
from mkbo_plugins.covariance.directions import Directions
from mkbo_plugins.covariance.limits import CANCELLED, DIAGONAL, SPREAD, TABLES, VALUE
from mkbo_plugins.covariance.ranked import RankedTarget
from mkbo_plugins.covariance.record import TrainingRecord
from mkbo_plugins.covariance.widening import widened_components
from mkbo_plugins.errors import ArtefactError, KernelError, TableError
from mkbo_plugins.space.parameters import FRAMES, Frame, FurtherLevels
from mkbo_plugins.space.space import ParameterSpace, as_array

if TYPE_CHECKING:
    from mkbo_plugins.core.kernels import FreeKernel


class TrainedCovariance(Covariance):
    """A covariance with a machine for each table, which predicts the table's target."""

    if TYPE_CHECKING:  # fields of the one class are computed in the other

        @property
        def fixed(self) -> PretrainedComponents | SeveralTables:
            """The parts that no optimiser refits."""

        @property
        def members(self) -> "tuple[PretrainedCovariance, ...]":
            """The covariance of each table; that of one table has itself as its only member."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Name of each table's target."""
        return tuple(member.record.target for member in self.members)

    def merit(self, Z: Float[np.ndarray, "n d"], direction: Directions) -> Float[np.ndarray, " n"]:
        """Return how good the tables say that points are, (n,), as `Covariance.merit` describes it."""
        signs = self.signs(direction)
        return DirectedMean(self.fixed, signs, share=1.0)(Z) if any(signs) else np.zeros(len(Z))


@dataclass(frozen=True)
class PretrainedCovariance(TrainedCovariance, kind="record"):
    """A covariance function pre-trained on a table of condensed knowledge.

    Made by `pretrain` or `load`; two of them are equal when everything in them is. What it shares with covariances of
    several tables is described under `mkbo_plugins.covariance.base.Covariance`.

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
    earlier
        What further tables, by which the kernel is re-weighted too, were and how their machines were chosen.
    campaigns
        What the campaigns were whose mean is predicted, in the order of `fixed.campaigns`; empty for a table of
        one alone. Predictions are normal scores then.
    ranked
        Scores and values of the target if the machine was trained on normal scores of its ranks, else None.
    shared
        How campaigns were learned from, for `mkbo_plugins.add_campaign`; None of one table, and in older files.
    """

    space: ParameterSpace
    frame: Frame
    fixed: PretrainedComponents
    record: TrainingRecord
    log_target: bool = False
    earlier: tuple[TrainingRecord, ...] = ()
    campaigns: tuple[CampaignRecord, ...] = ()
    ranked: RankedTarget | None = None
    shared: SharedFit | None = None

    def __post_init__(self) -> None:
        d = len(self.space.coordinate_names)
        found = {table.points.shape[1] for table in (*self.fixed.earlier, self.fixed.decision.table)}
        if found != {d} or self.kernel.dimension not in (None, d):
            raise KernelError(
                f"support and weights must have the space's {d} coordinates, got {', '.join(map(str, sorted(found)))}"
            )
        if len(self.earlier) != len(self.fixed.earlier):
            raise KernelError(f"{len(self.fixed.earlier)} further tables need as many records, got {len(self.earlier)}")
        pooled = self.fixed.campaigns
        if pooled is not None and (pooled.points.shape[1] != d or pooled.kernel.dimension not in (None, d)):
            raise KernelError(f"points and weights of campaigns must have the space's {d} coordinates")
        described = 0 if pooled is None else len(pooled.bias)
        if len(self.campaigns) != described:
            raise KernelError(f"{described} campaigns need as many records, got {len(self.campaigns)}")

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        arrays = [array for table in self.fixed.kernel.tables for array in (table.points, table.alpha)]
        if self.fixed.campaigns is not None:
            arrays += [self.fixed.campaigns.points, self.fixed.campaigns.alpha, self.fixed.campaigns.bias]
        for array in arrays:  # pickling makes them writable
            array.setflags(write=False)

    def __repr__(self) -> str:
        """Return one line: target, parameters, rows and quality."""
        return (
            f"PretrainedCovariance(target={self.record.target!r}, parameters={list(self.space.names)}, "
            f"rows={self.record.rows}, explained={self.record.explained:.2f}, trainer={self.record.trainer!r})"
        )

    @property
    def members(self) -> "tuple[PretrainedCovariance, ...]":
        """Itself alone; see `CombinedCovariance` for several."""
        return (self,)

    @property
    def kernel(self) -> "FreeKernel":
        """The free kernel, with its weights."""
        return self.fixed.decision.kernel

    @property
    def support(self) -> Float[np.ndarray, "N d"]:
        """Support vectors in frame coordinates, (n_sv, d)."""
        return self.fixed.decision.table.points

    @property
    def alpha(self) -> Float[np.ndarray, " N"]:
        """Dual coefficients, (n_sv,), in units of the (logarithm of the) target."""
        return self.fixed.decision.table.alpha

    @property
    def bias(self) -> float:
        """Constant term of the decision function, in units of the (logarithm of the) target."""
        return self.fixed.decision.bias

    @property
    def weights(self) -> Float[np.ndarray, " d"]:
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
            Largest error of K^E(x, x'), relative to sqrt(K^E(x, x) K^E(x', x')), between 1e-14 and 1e-2. Where
            K^E(x, x) nearly vanishes, as that of an exponential kernel may close to the middle of the frame, even
            double-double arithmetic may not keep it; `gram_error` says what holds.

        Raises
        ------
        KernelError
            If an argument is not as described.
        """
        CertifiedEvaluator(self.kernel, self.fixed.kernel.tables, self.support.shape[1], choice, tolerance)
        return replace(self, fixed=replace(self.fixed, choice=choice, tolerance=tolerance))

    def _widened(self, space: ParameterSpace, new: Mapping[str, FurtherLevels]) -> "PretrainedCovariance":
        return replace(self, space=space, fixed=widened_components(self.fixed, self.space, new))

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
        """Return which of some points to try first, as `Covariance.first_design`, those of campaigns as a portfolio."""
        (sign,), campaigns = self.signs(direction), self.fixed.campaigns
        if campaigns is None or not sign:
            return super().first_design(Z, direction, n, present=present, failed=failed, spacing=spacing)
        return portfolio_design(sign * campaigns(Z), n, present=sign * campaigns(present), spacing=spacing)

    def gram(self, X: Any, X2: Any = None, form: str = "reweighted", *, s: float = 1.0) -> Float[np.ndarray, "n m"]:
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
        check_gram(form, [s])
        Z = self.to_coordinates(X)
        Z2 = None if X2 is None else self.to_coordinates(X2)
        if X2 is None and len(Z) == 0:
            return np.empty((0, 0))
        return finite(np.asarray(self.gram_of_coordinates(Z, Z2, form, s)))

    def gram_of_coordinates(
        self, Z: Float[np.ndarray, "n d"], Z2: Float[np.ndarray, "m d"] | None, form: str, s: float
    ) -> Float[np.ndarray, "n m"]:
        """Return `gram` between frame coordinates (n, d) and (n', d), with nothing checked."""
        (name,) = get_form(form).parts
        value = self.fixed.components((name,), Z, Z2)[name].value
        if form == "reweighted":
            return value * self.fixed.mean_diagonal
        return squared_exponential_profile(value, s) if form == "two_layer" else value

    def gram_error(self, X: Any, X2: Any = None) -> Float[np.ndarray, "n m"]:
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
        P, Q = self.evaluator.prepare(Z, None if X2 is None else self.to_coordinates(X2))
        of_x, of_y = (np.where(R.vanishing, np.inf, R.error / np.where(R.vanishing, 1.0, R.diagonal)) for R in (P, Q))
        # Values leave their scales by an exponential, whose exponent is rounded.
        logs = [np.abs(R.half_log_scale) + 4 * np.abs(self.kernel.log_damping(R.points)) for R in (P, Q)]
        return np.sqrt(np.multiply.outer(of_x, of_y)) + 4 * EPS * (2 + np.add.outer(*logs))

    def predict(self, X: Any) -> Float[np.ndarray, " n"]:
        """Return the machine's prediction g(x) in the table's units, (n,), at points in raw units.

        Of labels, it is the decision value: above 0 for the label that counts as 1. Of campaigns, it is the mean of
        what they predict, each in standard deviations of the normal scores of its own outcomes' ranks.
        """
        return finite(self.predict_at_coordinates(self.to_coordinates(X)))

    def predict_at_coordinates(self, Z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Return `predict` at frame coordinates (n, d), with nothing checked."""
        g = np.asarray(self.fixed.prediction(Z))
        if self.campaigns:
            return g
        g = g if self.ranked is None else self.ranked.value_of(g)
        return np.exp(g) if self.log_target else g

    def most_like(self, X: Any, y: Any) -> tuple[tuple[str, float], ...]:
        """Return the campaigns in the order of how well their predictions rank a target's outcomes, best first.

        Parameters
        ----------
        X
            The target's points in raw units, n of them, as `ParameterSpace.to_raw` accepts them.
        y
            Its outcomes, (n,), at least three of which differ.

        Returns
        -------
        tuple of (name, correlation)
            Spearman's rank correlation of outcomes and predictions; negative where good and bad are exchanged.

        Raises
        ------
        KernelError
            If the covariance is not of campaigns.
        MkboError
            If points are not of the space, or outcomes not as described.
        """
        if self.fixed.campaigns is None:
            raise KernelError("this covariance is of one table; pre-train on campaigns with by= (--by)")
        values, Z = as_array(y, "y"), self.to_coordinates(X)
        plain = values.dtype.kind in "fiu" and values.shape == (len(Z),) and np.isfinite(values).all()
        if not plain or len(np.unique(values)) < 3:
            raise TableError(f"y must be {len(Z)} finite numbers, one for each point, at least three of them different")
        return resembling(self.fixed.campaigns(Z), values, [campaign.name for campaign in self.campaigns])

    def to_content(self) -> dict[str, Any]:
        """Return what a saved file holds."""
        tables = zip(self.fixed.earlier, self.earlier, strict=True)
        earlier = [encode_points(table) | {"record": record.to_content()} for table, record in tables]
        # Files of a single table know nothing of further ones.
        further: dict[str, Any] = {"earlier": earlier} if earlier else {}
        if self.fixed.campaigns is not None:
            further["campaigns"] = encode_campaigns(self.fixed.campaigns, self.campaigns, self.shared)
        if self.ranked is not None:
            further["ranked"] = self.ranked.to_content()
        return further | {
            **encode_points(self.fixed.decision.table),
            "bias": self.bias,
            "decision_mean": self.fixed.decision_mean,
            "decision_spread": self.fixed.decision_spread,
            "frame": self.frame,
            "kernel": encode_kernel(self.kernel),
            "log_target": self.log_target,
            "mean_diagonal": self.fixed.mean_diagonal,
            "record": self.record.to_content(),
            **encode_space(self.space),
        }

    @classmethod
    def from_content(cls, content: Reader) -> "PretrainedCovariance":
        """Return the covariance saved as `content`; raises `MkboError` where it is none."""
        decision = DecisionFunction(
            decode_kernel(content.below("kernel")), decode_points(content), content.number("bias", VALUE)
        )
        mean_diagonal, spread = content.number("mean_diagonal", DIAGONAL), content.number("decision_spread", SPREAD)
        campaigns, records, shared = (
            decode_campaigns(content.below("campaigns")) if "campaigns" in content.values else (None, (), None)
        )
        pooled = [] if campaigns is None else [campaigns.alpha, campaigns.bias]
        largest = max(float(np.abs(values).max()) for values in (decision.table.alpha, *pooled))
        if min(spread, mean_diagonal**0.5) < CANCELLED * largest:
            raise ArtefactError(
                f"{content.path}'decision_spread' and 'mean_diagonal', {spread:g} and {mean_diagonal:g}, are too small "
                f"beside {largest:g} in 'alpha'"
            )
        earlier = content.each_below("earlier", TABLES - 1) if "earlier" in content.values else []
        return cls(
            space=decode_space(content),
            frame=content.text("frame", FRAMES),  # type: ignore[arg-type]
            fixed=PretrainedComponents(
                decision,
                mean_diagonal=mean_diagonal,
                decision_mean=content.number("decision_mean", VALUE),
                decision_spread=spread,
                earlier=tuple(map(decode_points, earlier)),
                campaigns=campaigns,
            ),
            record=TrainingRecord.from_content(content.below("record")),
            log_target=content.flag("log_target"),
            earlier=tuple(TrainingRecord.from_content(table.below("record")) for table in earlier),
            campaigns=records,
            ranked=RankedTarget.from_content(content.below("ranked")) if "ranked" in content.values else None,
            shared=shared,
        )


def trained(cov: Covariance) -> TrainedCovariance:
    """Return a covariance as one with trained machines, for what shows or asks them.

    Raises
    ------
    KernelError
        If it has none.
    """
    if not isinstance(cov, TrainedCovariance):
        raise KernelError("a kernel mixture holds no machine trained on a table; use a PretrainedCovariance here")
    return cov


def only_table(cov: Covariance) -> PretrainedCovariance:
    """Return the covariance of the only table, for what is about a single one.

    Raises
    ------
    KernelError
        If there are several, or it has no trained machine.
    """
    cov = trained(cov)
    if cov.tables > 1:
        raise KernelError(
            f"this shows one table, and the covariance combines {cov.tables}, of {list(cov.targets)}; pass one of "
            "them, cov.members[0] and so on"
        )
    return cov.members[0]
