"""GPyTorch kernel of a pre-trained covariance."""

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.constraints import Interval
from gpytorch.kernels import Kernel
from gpytorch.priors import LogNormalPrior
from jaxtyping import Float, UInt8
from torch import Tensor

from mkbo_plugins.botorch.differentiable import beside, components
from mkbo_plugins.botorch.frame import NamedFrame
from mkbo_plugins.botorch.logarithms import fit_logarithm
from mkbo_plugins.botorch.seen import SeenInputs, is_same_view
from mkbo_plugins.core.components.protocols import FixedComponents
from mkbo_plugins.core.evaluation.value_cache import ValueCache
from mkbo_plugins.core.forms import DEFAULT_FORM, Form, get_form
from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.errors import ArtefactError, KernelError

KEPT_COMPONENTS = 4
"""Components kept for inputs seen before; hyperparameter fitting asks for the same ones at every step."""


class PretrainedKernel(Kernel):
    """Covariance of a form of `mkbo_plugins.core.forms`, for inputs put out by `NamedFrame` or going into it.

    The fixed parts come from the artefact in double precision whatever the dtype of the inputs; learned are the
    scales that the form has and the length scales of the stock covariance.

    It is neither an `RBFKernel` nor a `ScaleKernel`, and has no ``base_kernel`` or ``outputscale``: code that looks for
    these finds the stock covariance as ``stock`` and the scales through ``scale(name)``.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    form
        Name of the form.
    stock_dims
        Number of input columns behind the frame coordinates, which the stock covariance sees; with none, it sees the
        frame coordinates scaled to [0, 1]. Forms without a stock covariance are multiplied by it where there are such
        columns, so that parameters the table lacks still count.
    frame
        Map from raw inputs to the columns this kernel needs; None where the inputs are those columns already. Inside
        the kernel it serves hosts that feed inputs through a model's input transform twice, as joint entropy search
        does when it conditions on optima.
    **kwargs
        ``batch_shape`` and ``active_dims`` of `gpytorch.kernels.Kernel`.

    Raises
    ------
    KernelError
        If `form` is unknown.
    """

    has_lengthscale = False
    active_dims: Tensor | None
    _searched: FixedComponents | None = None

    def __init__(
        self,
        cov: Covariance,
        form: str = DEFAULT_FORM,
        stock_dims: int = 0,
        frame: NamedFrame | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        cov.form(form)  # raises where the covariance has none of this name
        self.form_name = form
        self.cov = cov
        self.frame_dims = len(cov.space.coordinate_names)
        self.stock_dims = stock_dims
        self.frame = frame
        stock_inputs = stock_dims or (self.frame_dims if self.form.uses_stock else 0)
        self.stock = (
            get_covar_module_with_dim_scaled_prior(ard_num_dims=stock_inputs, batch_shape=self._batch_shape)
            if stock_inputs
            else None
        )
        if self.stock is not None:
            fit_logarithm(self.stock, "lengthscale")
        self._scales = tuple(self.form.hyperparameters)
        for name in self._scales:
            self._register_scale(name)
        self._recent = ValueCache(KEPT_COMPONENTS)
        self._framed = SeenInputs()
        self._is_coarse = False
        self._constants: Tensor | None = None

    @property
    def form(self) -> Form:
        """The form, looked up by name so that copies and pickles need no functions."""
        return get_form(self.form_name, self.cov.fixed.tables)

    @property
    def _fixed(self) -> FixedComponents:
        if self._searched is not None:
            return self._searched
        return self.cov.fixed.coarse if self._is_coarse else self.cov.fixed

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of each scale."""
        # Hosts that pick outputs shorten it once for each parameter.
        if not self._scales:
            return self._batch_shape if self.stock is None else self.stock.batch_shape
        return getattr(self, f"raw_{self._scales[0]}").shape

    @batch_shape.setter
    def batch_shape(self, val: torch.Size) -> None:
        self._batch_shape = val

    def _register_scale(self, name: str) -> None:
        scale = self.form.hyperparameters[name]
        self.register_parameter(f"raw_{name}", torch.nn.Parameter(torch.full(self._batch_shape, float(scale.log_mean))))
        # Raw values are logarithms; without a transform the optimiser itself keeps them between the bounds.
        self.register_constraint(f"raw_{name}", Interval(math.log(scale.lower), math.log(scale.upper), transform=None))
        self.register_prior(
            f"{name}_prior",
            LogNormalPrior(scale.log_mean, scale.log_spread),
            partial(_read_scale, name),
            partial(_write_scale, name),
        )

    @property
    def lengthscale(self) -> Float[Tensor, "... 1 k"] | None:
        """Length scales of the stock covariance, (..., 1, k), in units of its inputs, which are scaled to [0, 1].

        They say how the target differs from what the table knows of it, one for each parameter and each level. None
        where the form has no stock covariance of all parameters, as GPyTorch's kernels without length scales have it.
        """
        return self.stock.lengthscale if self.stock is not None and self.form.uses_stock else None

    @lengthscale.setter
    def lengthscale(self, value: Tensor | float) -> None:
        if self.stock is None or not self.form.uses_stock:
            raise KernelError(
                f"form {self.form_name!r} has no length scales; its scales are set by set_scale(name, value)"
            )
        self.stock.lengthscale = value

    def scale(self, name: str) -> Float[Tensor, "..."]:
        """Return a learned scale of the form, such as ``moment_scale``, of the batch shape."""
        return getattr(self, f"raw_{name}").exp()

    def set_scale(self, name: str, value: Tensor | float) -> None:
        """Set a learned scale."""
        raw = getattr(self, f"raw_{name}")
        value = torch.as_tensor(value, dtype=raw.dtype, device=raw.device).expand(raw.shape)
        self.initialize(**{f"raw_{name}": value.log()})

    @property
    def is_stationary(self) -> bool:
        """Whether the covariance depends on differences of inputs only: never."""
        return False

    def forward(
        self,
        x1: Float[Tensor, "... n d"],
        x2: Float[Tensor, "... m d"],
        diag: bool = False,
        last_dim_is_batch: bool = False,
        **params: Any,
    ) -> Float[Tensor, "..."]:
        """Return the covariance (..., n, n'), or its diagonal (..., n) when `diag`."""
        if last_dim_is_batch:
            raise KernelError("PretrainedKernel couples its coordinates and has no last_dim_is_batch mode")
        x2 = x1 if x1 is not x2 and is_same_view(x1, x2) else self._as_constant(x1, x2)
        same, x1 = x2 is x1, self._columns(x1)
        x2 = x1 if same else self._columns(x2)
        z1 = x1[..., : self.frame_dims]
        z2 = z1 if same else x2[..., : self.frame_dims]
        form = self.form
        names = tuple(form.parts)
        parts = self._kept((names, diag), z1, z2, partial(self._evaluate, names, diag=diag))
        stock = None
        if self.stock is not None:
            s1, s2 = self._stock_inputs(x1), self._stock_inputs(x2)
            stock = self.stock(s1, s2, diag=True) if diag else self.stock(s1, s2).to_dense()
        return self._combined(form, parts, stock, (..., None) if diag else (..., None, None))

    def beside(self, x: Float[Tensor, "... q d"], known: Float[Tensor, "... n d"]) -> Float[Tensor, "... q nq"]:
        """Return the covariance between points and, one after the other, known points and the points themselves.

        A posterior needs both, and all that costs time for few points is done once. Known points of all batches have no
        batches of their own.
        """
        x, known = self.columns(x), self.columns(known)
        z, others = x[..., : self.frame_dims], known[..., : self.frame_dims]
        form = self.form
        names = tuple(form.parts)
        parts = self._kept((names, "beside"), z, others, partial(self._evaluate_beside, names))
        stock = None
        if self.stock is not None:
            s, of_others = self._stock_inputs(x), self._stock_inputs(known)
            both = torch.cat([of_others.expand(*s.shape[:-2], *of_others.shape[-2:]), s], dim=-2)
            stock = self.stock(s, both).to_dense()
        return self._combined(form, parts, stock, (..., None, None))

    def columns(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch k"]:
        """Return frame coordinates and stock inputs, (..., k), of inputs as a model passes them, (..., d)."""
        return self._columns(x if self.active_dims is None else x.index_select(-1, self.active_dims))

    def _columns(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch k"]:
        """Return the columns that this kernel needs of inputs."""
        if self.frame is not None:
            x = self._framed.get(x, self.frame.transform)
        if x.shape[-1] != self.frame_dims + self.stock_dims:
            raise KernelError(
                f"expected {self.frame_dims} frame and {self.stock_dims} stock columns, got {x.shape[-1]} columns; "
                "put a NamedFrame in front of this kernel, its num_stock_columns being the kernel's stock_dims"
            )
        return x

    def _combined(
        self,
        form: Form,
        parts: tuple[Float[Tensor, "..."], ...],
        stock: Float[Tensor, "..."] | None,
        index: tuple[Any, ...],
    ) -> Float[Tensor, "..."]:
        """Return a form of parts, the stock covariance and the learned scales, indexed to be of their shape."""
        scales = {name: self.scale(name)[index] for name in form.hyperparameters}
        return form.covariance(dict(zip(form.parts, parts, strict=True)), stock, scales)

    def _as_constant(self, x1: Float[Tensor, "... n d"], x2: Float[Tensor, "... m d"]) -> Float[Tensor, "... m d"]:
        """Return second inputs once, and without a graph, where they are copies of the training inputs.

        GPyTorch cuts them out of one tensor with the test inputs, with a copy for each of a batch, so that each step of
        an acquisition search would compute a gradient with respect to them, more work than the one it needs, and drop
        it.
        """
        if x1 is x2:
            if x2.ndim == 2 and not (x2.requires_grad or x2.is_inference()):
                self._constants = x2
            return x2
        known = self._constants
        if known is None or known.requires_grad or x2.shape[-2:] != known.shape:
            return x2
        copies = _cut_from_constants(x2) if x2.requires_grad else x2.ndim > 2
        return known if copies and bool((x2.detach() == known).all()) else x2

    def _stock_inputs(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch k"]:
        return x[..., self.frame_dims :] if self.stock_dims else self.unit_frame(x)

    def unit_frame(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch k"]:
        """Return the frame coordinates of inputs (..., d), scaled to [0, 1]."""
        ranges = torch.as_tensor(self.cov.space.coordinate_ranges(self.cov.frame), dtype=x.dtype, device=x.device)
        # Coordinates of range 2 are centred at 0, those of range 1 begin there.
        return (x[..., : self.frame_dims] + (ranges - 1)) / ranges

    def _kept(
        self,
        key: tuple[Any, ...],
        z1: Float[Tensor, "... n d"],
        z2: Float[Tensor, "... m d"],
        evaluate: Callable[..., tuple[Tensor, ...]],
    ) -> tuple[Float[Tensor, "..."], ...]:
        """Return what a function of frame coordinates gives, from results kept where no gradient is asked for."""
        tracked = torch.is_grad_enabled() and (z1.requires_grad or z2.requires_grad)
        # No later fit could differentiate through a result kept from inference mode.
        if tracked or torch.is_inference_mode_enabled():
            return evaluate(z1, z2)
        return self._recent.get(key, (z1.detach(), z2.detach()), evaluate)

    def _evaluate(
        self, names: tuple[str, ...], z1: Float[Tensor, "... n d"], z2: Float[Tensor, "... m d"], *, diag: bool
    ) -> tuple[Float[Tensor, "..."], ...]:
        """Return the fixed components between frame coordinates."""
        same = z1 is z2 or (not (z1.requires_grad or z2.requires_grad) and torch.equal(z1, z2))
        values = components(self._fixed, names, z1.double(), None if same else z2.double(), elementwise=diag)
        return tuple([value.to(z1.dtype) for value in values])

    def _evaluate_beside(
        self, names: tuple[str, ...], z: Float[Tensor, "... q d"], others: Float[Tensor, "... n d"]
    ) -> tuple[Float[Tensor, "... q nq"], ...]:
        """Return the fixed components between frame coordinates and, one after the other, others and themselves."""
        return tuple([value.to(z.dtype) for value in beside(self._fixed, names, z.double(), others.double())])

    def coarse(self) -> "PretrainedKernel":
        """Return the kernel, its learned scales shared, with larger errors of the fixed components, and faster."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)  # GPyTorch's copies of kernels have the very same dictionary
        new._is_coarse, new._recent, new._framed = True, ValueCache(KEPT_COMPONENTS), SeenInputs()
        return new

    def searched(self, columns: Float[Tensor, "n d"]) -> "PretrainedKernel":
        """Return the kernel, its scales shared, for a search in the box of what `columns` gave of inputs, (n, d)."""
        z = columns[:, : self.frame_dims].detach().double().numpy(force=True)
        new = self.coarse()
        new._searched = self.cov.fixed.searched(self.form.parts, z)
        return new

    def points(self, columns: Float[Tensor, "n d"]) -> Points:
        """Return points as `form_model` sees them, from what `columns` returned."""
        z, s = columns[:, : self.frame_dims], self._stock_inputs(columns) if self.stock is not None else columns[:, :0]
        return Points(*(part.detach().double().numpy(force=True) for part in (z, s)))

    def pulled(self, gradient: Points) -> Float[np.ndarray, "n d"]:
        """Return a gradient in `points` as one in what `columns` returned."""
        if self.stock is None or self.stock_dims:
            return np.concatenate([gradient.frame, gradient.stock], axis=1)
        return gradient.frame + gradient.stock / self.cov.space.coordinate_ranges(self.cov.frame)

    @property
    def form_model(self) -> FormModel:
        """The form as a covariance without automatic differentiation."""
        return FormModel(self._fixed, self.form_name, 0 if self.stock is None else self.stock.ard_num_dims)

    @property
    def log_hyperparameters(self) -> Float[Tensor, " p"]:
        """Logarithms of the scales and the length scales, as `form_model` takes them."""
        scales = [getattr(self, f"raw_{name}") for name in self._scales]
        lengths = [] if self.stock is None else [self.stock.lengthscale.log()]
        return torch.cat([value.detach().double().reshape(-1) for value in (*scales, *lengths)])

    def spread_inputs(self, n: int) -> Float[Tensor, "n d"]:
        """Return `n` inputs spread over the domain, (n, d), for feature approximations."""
        if self.frame is not None:
            points = self.frame.sample(n, torch.empty(0, dtype=torch.double))
        else:
            space = self.cov.space
            count = len(space.parameters)
            engine = torch.quasirandom.SobolEngine(count + self.stock_dims, scramble=True, seed=0)
            unit = engine.draw(n, dtype=torch.double)
            raw = torch.as_tensor(space.from_unit(unit[:, :count].numpy()))
            points = torch.cat([space.to_coordinates(raw, self.cov.frame), unit[:, count:]], dim=-1)
        return points.to(dtype=self.dtype, device=self.device)

    def __getitem__(self, index: Any) -> "PretrainedKernel":
        """Return the kernel with its learned scales indexed along the batch shape."""
        if not self.batch_shape:
            return self
        index = index if isinstance(index, tuple) else (index,)
        new = copy.deepcopy(self)
        for name in self._scales:
            parameter = getattr(new, f"raw_{name}")
            parameter.data = parameter.data[index]
            new.batch_shape = parameter.shape
        if self.stock is not None:
            new.stock = self.stock[index]
        return new

    def expand_batch(self, *sizes: Any) -> "PretrainedKernel":
        """Return the kernel with its learned scales expanded to a batch shape."""
        # GPyTorch expands every buffer, so the active columns are hidden from it.
        active_dims, self.active_dims = self.active_dims, None
        try:
            new = super().expand_batch(*sizes)
        finally:
            self.active_dims = active_dims
        new.active_dims = active_dims
        return new

    def get_extra_state(self) -> UInt8[Tensor, " bytes"]:
        """Return the artefact's fingerprint as bytes, which travels in the state dict."""
        return torch.tensor(list(bytes.fromhex(self.cov.fingerprint)), dtype=torch.uint8)

    def set_extra_state(self, state: UInt8[Tensor, " bytes"]) -> None:
        """Check that a state dict was saved with the same artefact.

        Raises
        ------
        ArtefactError
            If it was not.
        """
        found = bytes(torch.as_tensor(state, dtype=torch.uint8, device="cpu").tolist()).hex()
        if found != self.cov.fingerprint:
            raise ArtefactError(
                f"this state was saved with the pre-trained covariance {found[:12]}..., but the model uses "
                f"{self.cov.fingerprint[:12]}...; load the one it was saved with"
            )


def _cut_from_constants(x: Tensor) -> bool:
    """Return whether a tensor is a slice from the beginning of a concatenation whose first part needs no gradient."""
    cut: Any = x.grad_fn
    joined = cut.next_functions[0][0] if cut is not None and cut.name().startswith("Slice") else None
    if joined is None or not joined.name().startswith("Cat"):
        return False
    return cut._saved_start == 0 and joined.next_functions[0][0] is None


def _read_scale(name: str, kernel: PretrainedKernel) -> Float[Tensor, "..."]:
    return kernel.scale(name)


def _write_scale(name: str, kernel: PretrainedKernel, value: Tensor) -> None:
    kernel.set_scale(name, value)
