"""Ready BoTorch models with a pre-trained covariance."""

import copy
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import ChainedInputTransform, InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.likelihoods import Likelihood
from gpytorch.means import ConstantMean, Mean
from gpytorch.module import Module
from gpytorch.settings import max_eager_kernel_size
from jaxtyping import Float
from linear_operator import LinearOperator, to_linear_operator
from torch import Tensor
from torch.distributions import Distribution

from mkbo_plugins.botorch.constraints import warn_of_lost_in_target
from mkbo_plugins.botorch.frame import NamedFrame
from mkbo_plugins.botorch.kernel import PretrainedKernel
from mkbo_plugins.botorch.logarithms import fit_logarithm
from mkbo_plugins.botorch.mean import PretrainedMean
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.core.spread import check_spread
from mkbo_plugins.covariance.base import Covariance, check_covariance
from mkbo_plugins.covariance.directions import Directions
from mkbo_plugins.covariance.target import for_target
from mkbo_plugins.errors import KernelError, MkboError, TableError, TableWarning
from mkbo_plugins.space.levels import levels_by_name
from mkbo_plugins.space.parameters import Numeric
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.ranges import warn_of_units

SMALL_SPREAD = 1e-3
"""Standard deviation of outcomes below which GPyTorch's least variance, 1e-10, is no longer small beside theirs."""

LAZY_FROM = 512
"""Number of test points from which on covariances between them are evaluated if they are asked for."""

UNMOVED = 1e-3
"""Share of a range by which an input transform may move its ends, as one that rounds does."""


class LogNoiseGP(SingleTaskGP):
    """BoTorch's model, which with a covariance of its own is left as it is.

    With another one, the variance of unknown noise is fitted through its logarithm, see `fit_logarithm`; with a
    `PretrainedKernel`, some of several outputs can be chosen by ``subset_output``.
    """

    _observed: Tensor | None = None

    # All parameters by name, since Ax looks for those it may set.
    def __init__(
        self,
        train_X: Float[Tensor, "... n d"],
        train_Y: Float[Tensor, "... n outcomes"],
        train_Yvar: Float[Tensor, "... n outcomes"] | None = None,
        likelihood: Likelihood | None = None,
        covar_module: Module | None = None,
        mean_module: Mean | None = None,
        outcome_transform: OutcomeTransform | _DefaultType | None = DEFAULT,
        input_transform: InputTransform | None = None,
    ) -> None:
        super().__init__(
            train_X, train_Y, train_Yvar, likelihood, covar_module, mean_module, outcome_transform, input_transform
        )
        if covar_module is not None and likelihood is None and train_Yvar is None:
            fit_logarithm(self.likelihood.noise_covar, "noise")
        if isinstance(covar_module, PretrainedKernel) and isinstance(self.mean_module, ConstantMean):
            self._subset_batch_dict = {
                "mean_module.raw_constant": -1,
                "likelihood.noise_covar.raw_noise": -2,
                "covar_module.stock.raw_lengthscale": -3,
                **{f"covar_module.raw_{name}": -1 for name in covar_module.form.hyperparameters},
            }

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the prior or posterior at inputs, as GPyTorch's models do."""
        with max_eager_kernel_size(LAZY_FROM):
            return super().__call__(*args, **kwargs)

    def _get_test_prior_mean_and_covariances(
        self, train_inputs: Iterable[Tensor], test_inputs: Iterable[Tensor], **kwargs: Any
    ) -> tuple[Tensor, LinearOperator, LinearOperator, torch.Size, torch.Size, type[Distribution]]:
        (training,), (test,) = train_inputs, test_inputs
        if test.shape[-2] <= LAZY_FROM and isinstance(self.covar_module, PretrainedKernel):
            # GPyTorch evaluates both covariances one after the other, at nearly twice the cost where points are few.
            batch = torch.broadcast_shapes(training.shape[:-2], test.shape[:-2])
            prior = self.forward(test.expand(*batch, *test.shape[-2:]))
            own, across = map(to_linear_operator, self._prior_covariances(training, test, batch))
        elif test.shape[-2] <= LAZY_FROM or test.shape[:-2] != training.shape[:-2]:
            return super()._get_test_prior_mean_and_covariances([training], [test], **kwargs)
        else:
            # GPyTorch would evaluate the covariances between all test points, of which no more than variances may be
            # asked.
            prior = self.forward(test)
            own, across = prior.lazy_covariance_matrix, self.covar_module(test, training).evaluate_kernel()
        return prior.loc, own, across, prior.batch_shape, prior.event_shape, type(prior)

    def _prior_covariances(
        self, training: Float[Tensor, "... n d"], test: Float[Tensor, "... q d"], batch: torch.Size
    ) -> tuple[Float[Tensor, "*batch q q"], Float[Tensor, "*batch q n"]]:
        """Return the covariances between test points and between them and the training points."""
        kernel, known, expanded = self.covar_module, self._in_common(training), test.expand(*batch, *test.shape[-2:])
        if known is None:
            both, n = kernel.beside(expanded, training), training.shape[-2]
            return both[..., n:], both[..., :n]
        # These, and often test points too, are the same for all fantasies, and they need no gradient.
        both, n = kernel.beside(test, known), known.shape[-2]
        fantasies = kernel(expanded, training[..., n:, :]).to_dense()
        shared = both.expand(*fantasies.shape[:-1], both.shape[-1])
        return shared[..., n:], torch.cat([shared[..., :n], fantasies], dim=-1)

    def _in_common(self, training: Float[Tensor, "... n d"]) -> Float[Tensor, "k d"] | None:
        """Return the training points of the model that this one was made of by fantasies, if it still has them."""
        known = self._observed
        if known is None or (known.dtype, known.device) != (training.dtype, training.device):
            return None
        k = known.shape[-2]
        return known if k < training.shape[-2] and bool((training[..., :k, :] == known).all()) else None

    def get_fantasy_model(self, inputs: Tensor, targets: Tensor, **kwargs: Any) -> "LogNoiseGP":
        """Return GPyTorch's model of more data, which remembers what all its batches have in common."""
        model = super().get_fantasy_model(inputs, targets, **kwargs)
        (training,) = self.train_inputs
        if self._observed is None and training.ndim == 2 and not training.requires_grad:
            model._observed = training
        return model


class PretrainedGP(LogNoiseGP):
    """What `pretrained_gp` returns, as a class, for code that makes models of data itself.

    Such code takes the arguments by name: `botorch.cross_validation.batch_cross_validation` as ``model_init_kwargs``,
    others through `functools.partial`.

    Parameters
    ----------
    train_X, train_Y, train_Yvar
        As for `pretrained_gp`.
    cov
        The pre-trained covariance.
    form
        As for `pretrained_gp`.
    **kwargs
        Further arguments of `pretrained_gp`.

    Raises
    ------
    MkboError
        As `pretrained_gp`.
    """

    def __init__(
        self,
        train_X: Float[Tensor, "... n d"],
        train_Y: Float[Tensor, "... n outcomes"],
        train_Yvar: Float[Tensor, "... n outcomes"] | None = None,
        *,
        cov: Covariance,
        form: str = DEFAULT_FORM,
        **kwargs: Any,
    ) -> None:
        super().__init__(**_arguments(cov, train_X, train_Y, form, train_Yvar=train_Yvar, **kwargs))


def pretrained_gp(
    cov: Covariance,
    train_X: Float[Tensor, "... n d"],
    train_Y: Float[Tensor, "... n outcomes"],
    form: str = DEFAULT_FORM,
    names: Sequence[str] | None = None,
    *,
    train_Yvar: Float[Tensor, "... n outcomes"] | None = None,
    space: ParameterSpace | None = None,
    fixed: Mapping[str, Any] | None = None,
    direction: Directions = "unknown",
    **kwargs: Any,
) -> SingleTaskGP:
    """Return a `SingleTaskGP` with a pre-trained covariance, ready to be fitted.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    train_X
        Inputs in raw units, (..., n, d); a categorical is one column of level indices.
    train_Y
        Outcomes, (..., n, m); standardised inside the model, and predicted in their own units.
    form
        ``"similarity_link"``, ``"transfer_link"``, ``"link"``, ``"transfer"``, ``"moment"``, ``"product"``,
        ``"two_layer"``, ``"normalised"``, ``"reweighted"`` or ``"base"``, as `mkbo_plugins.core.forms` describes them;
        ``"stock"`` turns the covariance off and gives BoTorch's own model.
    names
        Names of the columns of `train_X`; None means the order of `space`.
    train_Yvar
        Known noise variances, of the shape of `train_Y`.
    space
        The target's parameters, where they are not those of the covariance: narrower or wider bounds, other order of
        levels, parameters or levels that the table lacks. See `PretrainedCovariance.with_levels` of new levels.
    fixed
        Values of pre-trained parameters that the target keeps constant, by name.
    direction
        Whether the table's target is known to speak for good experiments, which in BoTorch are those with large
        outcomes, as it maximises: ``"same"`` if a large table target goes with a large `train_Y`, ``"opposite"`` if it
        goes with a small one, ``"unknown"`` to leave the sign to the data. Negate outcomes that are to be small before,
        as BoTorch asks for anyway. Where it is known, the mean of the standardised outcome is a learned constant plus,
        or minus, half the table's standardised prediction; several tables share the half, and several outcomes have it
        each. Of several tables, one word for all or one for each.
    **kwargs
        Further arguments of `SingleTaskGP`, such as ``likelihood``, ``mean_module`` or ``outcome_transform``. An
        ``input_transform`` comes first, from raw inputs to raw inputs: `InputPerturbation`, say, or a learned `Warp` of
        a parameter with its bounds, followed by ``Normalize(d, indices, bounds=bounds, reverse=True)`` back into its
        units. Inputs are scaled behind it, by the model.

    Returns
    -------
    SingleTaskGP
        A model whose ``posterior`` takes raw inputs like `train_X`; fit it with `botorch.fit.fit_gpytorch_mll`. See
        `PretrainedGP` of code that wants a class.

    Raises
    ------
    MkboError
        If columns, spaces or `form` do not fit together, there is no data, `direction` is known for ``"stock"`` or
        a kernel mixture, which know of none, or beside a ``mean_module``, or an ``input_transform`` does not put out
        raw inputs.

    Warns
    -----
    TableWarning
        If a parameter lies outside its bounds in every row, as it does when units are mistaken; if bounds in `space`
        are unlikely to be in the units of the table, see `mkbo_plugins.tables.ranges.warn_of_units`; if `space` does
        not keep a constraint of the table's space, or has levels that the table lacks; or if outcomes vary so little
        that the host cuts off variances.
    """
    return LogNoiseGP(
        **_arguments(
            cov,
            train_X,
            train_Y,
            form,
            names,
            train_Yvar=train_Yvar,
            space=space,
            fixed=fixed,
            direction=direction,
            **kwargs,
        )
    )


def _arguments(
    cov: Covariance,
    train_X: Float[Tensor, "... n d"],
    train_Y: Float[Tensor, "... n outcomes"],
    form: str | Tensor,
    names: Sequence[str] | None = None,
    *,
    train_Yvar: Float[Tensor, "... n outcomes"] | None,
    space: ParameterSpace | None = None,
    fixed: Mapping[str, Any] | None = None,
    direction: Directions = "unknown",
    input_transform: InputTransform | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Return the arguments of `LogNoiseGP` that give the model of a form, checked."""
    check_covariance(cov)
    if torch.is_tensor(form):
        raise KernelError(
            f"form, the argument after train_Y, must be the name of a form, got a tensor of {_shape(form)}; give known "
            "noise variances by name: train_Yvar=..."
        )
    cov = for_target(cov, levels_by_name(space, fixed), stacklevel=3)
    chosen = cov.form(form)
    if "covar_module" in kwargs:
        raise MkboError("pretrained_gp sets covar_module itself; build a SingleTaskGP to choose your own")
    directed = cov.is_directed(direction, form)
    if directed and kwargs.get("mean_module") is not None:
        raise MkboError("pretrained_gp sets mean_module itself where a direction is known; leave one of them out")
    _check_data(train_X, train_Y, train_Yvar)
    stock_only = form == "stock"
    frame = NamedFrame(
        cov,
        names,
        space=space,
        fixed=fixed,
        frame_columns=not stock_only,
        stock_columns="all" if chosen.uses_stock else "extra",
    )
    with torch.no_grad():
        raw = train_X if input_transform is None else _transformed(input_transform, frame, train_X)
        frame.transform(raw)
    _warn_outside(frame, raw)
    _warn_of_small(train_Y)
    pretrained = {p.name: p for p in frame.target_space.parameters if p.name in cov.space.names}
    warn_of_units(cov.space, pretrained, fixed, stacklevel=3)
    warn_of_lost_in_target(cov.space, frame.target_space, fixed, stacklevel=3)
    arguments = {"train_X": train_X, "train_Y": train_Y, "train_Yvar": train_Yvar, **kwargs}
    if stock_only:
        both = None if input_transform is None else ChainedInputTransform(given=input_transform, frame=frame)
        return {**arguments, "input_transform": both or frame}
    outputs = train_Y.shape[-1]
    batch_shape = torch.Size([*train_X.shape[:-2], *([outputs] if outputs > 1 else [])])
    kernel = PretrainedKernel(cov, form, stock_dims=frame.num_stock_columns, frame=frame, batch_shape=batch_shape)
    if directed:
        arguments["mean_module"] = PretrainedMean(cov, direction, frame, batch_shape)
    return {**arguments, "covar_module": kernel, "input_transform": input_transform}


def _transformed(
    transform: InputTransform, frame: NamedFrame, train_X: Float[Tensor, "... n d"]
) -> Float[Tensor, "... n d"]:
    """Return training inputs behind a transform of the user, which must leave them, and the bounds, in raw units."""
    if not isinstance(transform, InputTransform):
        raise MkboError(f"input_transform must be an InputTransform of BoTorch, got {type(transform).__name__}")
    trial = copy.deepcopy(transform).to(train_X)
    raw = trial.train()(train_X)  # some learn from what they see first
    if raw.shape[-1] != len(frame.names):
        raise MkboError(
            f"input_transform puts out {raw.shape[-1]} columns; expected the {len(frame.names)} raw columns "
            f"{list(frame.names)}"
        )
    ends = frame.ends(train_X)
    moved = (trial.preprocess_transform(ends) - ends).abs() > UNMOVED * (ends[1] - ends[0])
    for name, column in zip(frame.names, moved.flatten(0, -2).any(dim=0).tolist(), strict=True):
        if column:
            raise MkboError(
                f"input_transform moves the bounds of {name!r}, so that it does not put out raw units; leave scaling "
                "out of it, as the model scales inputs itself, or undo it by a transform with reverse=True behind it"
            )
    return raw


def _check_data(train_X: Tensor, train_Y: Tensor, train_Yvar: Tensor | None) -> None:
    if not (torch.is_tensor(train_X) and torch.is_tensor(train_Y)) or train_X.ndim < 2 or train_Y.ndim != train_X.ndim:
        column = torch.is_tensor(train_Y) and train_Y.ndim == 1
        raise TableError(
            f"train_X must be a tensor (n, d) and train_Y a tensor (n, m), got {_shape(train_X)} and {_shape(train_Y)}"
            f"{'; use train_Y[:, None]' if column else ''}"
        )
    if not train_X.is_floating_point():
        raise TableError(f"train_X must be of a floating-point dtype, got {train_X.dtype}; use train_X.double()")
    if train_Yvar is not None and (not torch.is_tensor(train_Yvar) or train_Yvar.shape != train_Y.shape):
        raise TableError(
            f"train_Yvar must be a tensor of the shape {tuple(train_Y.shape)} of train_Y, got {_shape(train_Yvar)}; "
            "torch.full_like(train_Y, variance) makes one"
        )
    if train_X.shape[-2] == 0:
        raise TableError(
            "no target data yet; take first experiments from cov.starting_points(n, direction='same' | 'opposite' | "
            "'unknown'), then model their outcomes"
        )
    for outcomes in train_Y.detach().double().transpose(-2, -1).reshape(-1, train_Y.shape[-2]).numpy(force=True):
        check_spread(outcomes, "train_Y")


def _warn_outside(frame: NamedFrame, train_X: Float[Tensor, "... n d"]) -> None:
    for j, name in enumerate(frame.names):
        parameter = frame.target_space[name]
        if not isinstance(parameter, Numeric):
            continue
        unit = parameter.to_coordinates(train_X[..., j], "unit")
        if bool(((unit < 0) | (unit > 1)).all()):
            low, high = train_X[..., j].min().item(), train_X[..., j].max().item()
            warnings.warn(
                f"every value of {name!r} lies outside its bounds ({parameter.lower:g}, "
                f"{parameter.upper:g}), from {low:g} to {high:g}; are they in the raw units of the space?",
                TableWarning,
                stacklevel=4,
            )


def _warn_of_small(train_Y: Float[Tensor, "... n outcomes"]) -> None:
    """Warn of outcomes whose predicted variances reach what GPyTorch takes for 0."""
    if train_Y.shape[-2] < 2:
        return
    spread = train_Y.std(dim=-2).min().item()
    if 0 < spread < SMALL_SPREAD:
        warnings.warn(
            f"outcomes have a standard deviation of {spread:.2g}; below {SMALL_SPREAD:g}, uncertainties are wrong, "
            "since GPyTorch cuts off variances at 1e-10: multiply the outcomes, or take another unit",
            TableWarning,
            stacklevel=4,
        )


def _shape(value: Any) -> str:
    return f"shape {tuple(value.shape)}" if torch.is_tensor(value) else type(value).__name__
