"""A form of `mkbo_plugins.core.forms` as a covariance with gradients, for hosts without automatic differentiation.

Forms are elementwise and analytic, so their derivatives are taken by a complex step, Im f(x + ih) / h, which has no
subtraction to cancel and is exact to rounding (Squire and Trapp, SIAM Review 40, 110, 1998).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Inexact, Int
from scipy.spatial.distance import cdist

from mkbo_plugins.core.components.protocols import Component, FromPoint, ModelComponents
from mkbo_plugins.core.forms import Form, get_form
from mkbo_plugins.core.priors import Hyperparameter, length_scale_prior
from mkbo_plugins.core.reweighted.two_layer import squared_exponential_profile

STEP = 1e-150
"""Imaginary step: small enough beside any scale, large enough that a derivative of 1e-150 is still a number."""


@dataclass(frozen=True, eq=False)
class Points:
    """Points as a form sees them.

    Parameters
    ----------
    frame
        Frame coordinates, (n, d).
    stock
        Inputs of the stock covariance scaled to [0, 1], (n, k); k may be 0.
    """

    frame: Float[np.ndarray, "n d"]
    stock: Float[np.ndarray, "n k"]

    def at(self, rows: Int[np.ndarray, " m"]) -> "Points":
        """Return the points of some rows, (m, ...)."""
        return Points(self.frame[rows], self.stock[rows])


@dataclass(frozen=True, eq=False)
class Pairs:
    """What a form needs of pairs of points, whatever its hyperparameters.

    Parameters
    ----------
    components
        Fixed components by name, (n, n'), or (n,) row by row.
    left, right
        Inputs of the stock covariance at both points.
    elementwise
        Whether points are paired row by row.
    """

    components: Mapping[str, Component] | Mapping[str, FromPoint]
    left: Float[np.ndarray, "n k"]
    right: Float[np.ndarray, "m k"]
    elementwise: bool

    @cached_property
    def parts(self) -> Mapping[str, Float[np.ndarray, "..."]]:
        """Values of the components."""
        return {name: component.value for name, component in self.components.items()}

    @cached_property
    def squared_differences(self) -> Float[np.ndarray, "n m k"]:
        """Squared differences of the stock covariance's inputs, (n, n', k)."""
        return (self.left[:, None, :] - self.right[None, :, :]) ** 2

    def stock(self, length_scale: Float[np.ndarray, " k"]) -> Float[np.ndarray, "..."]:
        """Return the squared exponential of the stock covariance's inputs, of the shape of the parts."""
        left, right = self.left / length_scale, self.right / length_scale
        distance = ((left - right) ** 2).sum(axis=1) if self.elementwise else cdist(left, right, "sqeuclidean")
        return squared_exponential_profile(distance, 1.0)


class Slopes(NamedTuple):
    """A form's covariance with its derivatives in what it is made of, each of the shape of the covariance."""

    value: Float[np.ndarray, "..."]
    parts: Mapping[str, Float[np.ndarray, "..."]]
    log_stock: Float[np.ndarray, "..."] | None
    """In the logarithm of the stock covariance; None where there is none."""
    length_scale: Float[np.ndarray, " k"]
    """Length scales of the stock covariance."""


@dataclass(frozen=True, eq=False)
class FormModel:
    """A form over frame coordinates and stock inputs.

    Hyperparameters are passed as logarithms in one vector: the form's scales in their order, then a length scale for
    each stock input.

    Parameters
    ----------
    fixed
        The fixed parts, of one table or of several.
    form_name
        Name of the form. One without a stock covariance is multiplied by one, if there are stock inputs.
    stock_dims
        Number k of stock inputs.
    """

    fixed: ModelComponents
    form_name: str
    stock_dims: int

    @property
    def form(self) -> Form:
        """The form."""
        return get_form(self.form_name, self.fixed.tables)

    @cached_property
    def priors(self) -> tuple[Hyperparameter, ...]:
        """Prior of each hyperparameter."""
        lengths = (length_scale_prior(self.stock_dims),) * self.stock_dims if self.stock_dims else ()
        return (*self.form.hyperparameters.values(), *lengths)

    def pairs(self, x: Points, y: Points | None = None, *, elementwise: bool = False) -> Pairs:
        """Evaluate what does not depend on hyperparameters; None means that `y` is `x`."""
        second = None if y is None else y.frame
        components = self.fixed.components(self.form.parts, x.frame, second, elementwise=elementwise)
        return Pairs(components, x.stock, (x if y is None else y).stock, elementwise)

    def from_point(self, x: Points, y: Points) -> Pairs:
        """Evaluate the same between one point and others and, in a last column, the point itself."""
        components = self.fixed.from_point(self.form.parts, x.frame, y.frame)
        return Pairs(components, x.stock, np.concatenate([y.stock, x.stock]), elementwise=False)

    def value(self, pairs: Pairs, theta: Float[np.ndarray, " p"]) -> Float[np.ndarray, "..."]:
        """Return the covariance, (n, n'), or (n,) row by row."""
        scales, length_scale = self._unpack(theta)
        return self.form.covariance(pairs.parts, pairs.stock(length_scale) if self.stock_dims else None, scales)

    def gradient(
        self, pairs: Pairs, theta: Float[np.ndarray, " p"]
    ) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m p"]]:
        """Return the covariance (n, n') and its derivatives in the hyperparameters' logarithms, (n, n', p)."""
        scales, length_scale = self._unpack(theta)
        stock = pairs.stock(length_scale) if self.stock_dims else None
        # The step is relative, as derivatives are in logarithms.
        columns = [
            self.form.covariance(pairs.parts, stock, {**scales, name: scales[name] * (1 + 1j * STEP)}).imag / STEP
            for name in scales
        ]
        value = self.form.covariance(pairs.parts, stock, scales)
        slopes = [np.stack(columns, axis=-1)] if columns else []
        if stock is not None:
            # d k / d log l = k (x - y)^2 / l^2, so that one step, in log k, serves all length scales.
            of_log_stock = self.form.covariance(pairs.parts, stock * (1 + 1j * STEP), scales).imag / STEP
            slopes.append(of_log_stock[..., None] * pairs.squared_differences / length_scale**2)
        return value, np.concatenate(slopes, axis=-1)

    def slopes(self, pairs: Pairs, theta: Float[np.ndarray, " p"]) -> Slopes:
        """Return the covariance, (n, n') or (n,), with its derivatives in parts and stock covariance."""
        scales, length_scale = self._unpack(theta)
        stock = pairs.stock(length_scale) if self.stock_dims else None
        k = len(pairs.parts) + (stock is not None)
        # Forms are elementwise, so that one call takes the steps in all that they are made of, along a first axis.
        steps = (1j * STEP * np.eye(k)).reshape(k, k, *[1] * (1 if pairs.elementwise else 2))
        parts = {name: part + step for (name, part), step in zip(pairs.parts.items(), steps, strict=False)}
        value = self.form.covariance(parts, None if stock is None else stock * (1 + steps[-1]), scales)
        slopes = value.imag / STEP
        of_parts = dict(zip(parts, slopes, strict=False))
        return Slopes(value.real[0], of_parts, None if stock is None else slopes[-1], length_scale)

    def pull(
        self,
        x: Points,
        y: Points | None,
        pairs: Pairs,
        upstream: Float[np.ndarray, "..."],
        slopes: Slopes,
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n k"]]:
        """Pull a gradient with respect to the covariance back to `x`, on both sides where `y` is None.

        Of one point with several, all with all, several gradients may be pulled back, one a row.

        Parameters
        ----------
        x, y
            The points, y being None only where they are paired row by row.
        pairs
            What `pairs` returned for them.
        upstream
            Gradient with respect to the covariance, of its shape.
        slopes
            What `slopes` returned for them.

        Returns
        -------
        tuple of arrays
            Gradients with respect to the frame coordinates (n, d) and the stock inputs (n, k).
        """
        of_frame = np.zeros((len(upstream), x.frame.shape[1]))
        for name, slope in slopes.parts.items():
            of_x, of_y = pairs.components[name].vjp(upstream * slope, second=y is None)
            of_frame = of_frame + of_x + (of_y if y is None else 0.0)
        if slopes.log_stock is None or y is None:  # a stock covariance is constant along its diagonal
            return of_frame, np.zeros((len(upstream), x.stock.shape[1]))
        slope = upstream * slopes.log_stock
        if pairs.elementwise:
            return of_frame, slope[:, None] * (pairs.right - pairs.left) / slopes.length_scale**2
        # Products of matrices instead of an array (n, n', k) of differences.
        of_stock = slope @ pairs.right - slope.sum(axis=1)[:, None] * pairs.left
        return of_frame, of_stock / slopes.length_scale**2

    def pull_both(
        self, x: Points, pairs: Pairs, upstream: Float[np.ndarray, " n"], slopes: Slopes
    ) -> tuple[Points, Points]:
        """Pull a gradient with respect to covariances of points paired row by row, (n,), back to both points.

        Arguments are as for `pull`.
        """
        of_left = of_right = np.zeros_like(x.frame)
        for name, slope in slopes.parts.items():
            of_x, of_y = pairs.components[name].vjp(upstream * slope)
            of_left, of_right = of_left + of_x, of_right + of_y
        if slopes.log_stock is None:
            none = np.zeros_like(pairs.left)
            return Points(of_left, none), Points(of_right, none)
        of_stock = (upstream * slopes.log_stock)[:, None] * (pairs.right - pairs.left) / slopes.length_scale**2
        return Points(of_left, of_stock), Points(of_right, -of_stock)

    def _unpack(self, theta: Float[np.ndarray, " p"]) -> tuple[dict[str, Any], Inexact[np.ndarray, " k"]]:
        names = self.form.hyperparameters
        values = np.exp(theta)
        return dict(zip(names, values[: len(names)], strict=True)), values[len(names) :]
