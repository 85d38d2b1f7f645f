"""scikit-optimize kernel of a pre-trained covariance."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.gaussian_process.kernels import Hyperparameter
from skopt.learning.gaussian_process.kernels import Kernel

from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.errors import KernelError
from mkbo_plugins.skopt.columns import ColumnMap
from mkbo_plugins.skopt.dimensions import Inputs


class PretrainedKernel(Kernel):
    """Covariance of a form of `mkbo_plugins.core.forms` between columns that the host feeds.

    Amplitude and stock covariance are parts of it, so that it needs none of the host's kernel operators.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    columns
        Map from the host's columns, made by `mkbo_plugins.skopt.columns.column_map` for the same form.
    form
        Name of the form.
    output_scale, moment_scale, feature_scale, link_scale, link_width, similarity_scale
        Scales a, b, s, c, t and e of the form; those that it does not have are ignored. Of several tables, those
        that each table has for itself are one number for all or a sequence with one for each.
    length_scale
        Length scales of the stock covariance's inputs, (k,); None means 1 for each.
    inputs
        ``"normalised"`` if the host feeds numbers scaled to [0, 1], ``"raw"`` if not.
    """

    def __init__(
        self,
        cov: Covariance,
        columns: ColumnMap,
        form: str = DEFAULT_FORM,
        output_scale: float | Sequence[float] = 1.0,
        moment_scale: float | Sequence[float] = 1.0,
        feature_scale: float | Sequence[float] = 1.0,
        link_scale: float | Sequence[float] = 1.0,
        link_width: float | Sequence[float] = 1.0,
        length_scale: Any = None,
        inputs: Inputs = "normalised",
        similarity_scale: float | Sequence[float] = 1.0,
    ) -> None:
        self.cov = cov
        self.columns = columns
        self.form = form
        self.output_scale = output_scale
        self.moment_scale = moment_scale
        self.feature_scale = feature_scale
        self.link_scale = link_scale
        self.link_width = link_width
        self.length_scale = length_scale
        self.inputs = inputs
        self.similarity_scale = similarity_scale

    @property
    def model(self) -> FormModel:
        """The form over frame coordinates and stock inputs."""
        return FormModel(self.cov.fixed, self.form, self.columns.stock_dims)

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """The scales that the form has, then the length scales, in the order of `theta`."""
        model = self.model
        found = [
            Hyperparameter(name, "numeric", (prior.lower, prior.upper))
            for name, prior in zip(model.form.hyperparameters, model.priors, strict=False)
        ]
        if model.stock_dims:
            prior, k = model.priors[-1], model.stock_dims
            found.append(Hyperparameter("length_scale", "numeric", np.array([[prior.lower, prior.upper]] * k), k))
        return found

    @property
    def theta(self) -> np.ndarray:
        """Logarithms of the hyperparameters, (p,)."""
        model = self.model
        values = [self.scale(name) for name in model.form.hyperparameters]
        k = model.stock_dims
        length_scale = np.ones(k) if self.length_scale is None else np.ravel(self.length_scale)
        if k and len(length_scale) != k:
            raise KernelError(f"length_scale must have {k} entries, one for each stock input, got {len(length_scale)}")
        return np.log(np.concatenate([np.asarray(values, dtype=float), length_scale[:k]]))

    @theta.setter
    def theta(self, theta: np.ndarray) -> None:
        names = self.model.form.hyperparameters
        if len(theta) != len(names) + self.columns.stock_dims:
            raise KernelError(f"theta must have {len(names) + self.columns.stock_dims} entries, got {len(theta)}")
        for name, value in zip(names, theta, strict=False):
            self._set_scale(name, float(np.exp(value)))
        if self.columns.stock_dims:
            self.length_scale = np.exp(theta[len(names) :])

    def scale(self, name: str) -> float:
        """Return a scale of the form, such as ``"output_scale"``, or of several tables ``"moment_scale_2"``."""
        plain, table = self.model.form.scales[name]
        value = getattr(self, plain)
        return float(value if table is None else np.broadcast_to(value, self.cov.tables)[table])

    def _set_scale(self, name: str, value: float) -> None:
        plain, table = self.model.form.scales[name]
        if table is None:
            setattr(self, plain, value)
            return
        values = np.broadcast_to(getattr(self, plain), self.cov.tables).tolist()
        values[table] = value
        setattr(self, plain, tuple(values))

    def points(self, X: Any) -> Points:
        """Map columns (n, size) to points of the form."""
        return self.columns.points(np.atleast_2d(np.asarray(X, dtype=float)), self.inputs)

    def __call__(
        self, X: Any, Y: Any = None, eval_gradient: bool = False
    ) -> Float[np.ndarray, "n m"] | tuple[Float[np.ndarray, "n n"], Float[np.ndarray, "n n p"]]:
        """Return the covariance (n, n'), and with `eval_gradient` its derivatives in `theta`, (n, n, p)."""
        if eval_gradient and Y is not None:
            raise KernelError("gradients in the hyperparameters are there where Y is None only")
        model = self.model
        pairs = model.pairs(self.points(X), None if Y is None else self.points(Y))
        return model.gradient(pairs, self.theta) if eval_gradient else model.value(pairs, self.theta)

    def diag(self, X: Any) -> Float[np.ndarray, " n"]:
        """Return the diagonal of the covariance, (n,)."""
        model = self.model
        return model.value(model.pairs(self.points(X), elementwise=True), self.theta)

    def gradient_x(self, x: Any, X_train: Any) -> Float[np.ndarray, "n columns"]:
        """Return derivatives of the covariance between one point, (size,) or (1, size), and points, (n, size)."""
        x, y = np.ravel(np.asarray(x, dtype=float)), self.points(X_train)
        n = len(y.frame)
        model, repeated = self.model, self.points(np.tile(x, (n, 1)))
        pairs = model.pairs(repeated, y, elementwise=True)
        return self.to_columns(x, *model.pull(repeated, y, pairs, np.ones(n), model.slopes(pairs, self.theta)))

    def to_columns(
        self, x: Float[np.ndarray, " columns"], of_frame: Float[np.ndarray, "m d"], of_stock: Float[np.ndarray, "m k"]
    ) -> Float[np.ndarray, "m columns"]:
        """Pull gradients (m, d) and (m, k) at one point (size,) back to its columns, (m, size)."""
        return self.columns.vjp(x, self.inputs, of_frame, of_stock)

    def is_stationary(self) -> bool:
        """Return whether the covariance depends on differences of inputs only: never."""
        return False

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PretrainedKernel)
            and (self.cov, self.form, self.inputs) == (other.cov, other.form, other.inputs)
            and self.columns == other.columns
            and np.array_equal(self.theta, other.theta)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return form, target of the table and hyperparameters in one line."""
        scales = [f"{name}={self.scale(name):.3g}" for name in self.model.form.hyperparameters]
        if self.columns.stock_dims:
            lengths = np.exp(self.theta[len(scales) :])
            scales.append(f"length_scale=[{', '.join(f'{value:.3g}' for value in lengths)}]")
        return f"PretrainedKernel({' + '.join(self.cov.targets)!r}, form={self.form!r}, {', '.join(scales)})"
