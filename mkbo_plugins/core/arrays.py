"""Array-API helpers, so that one formula serves NumPy arrays and PyTorch tensors."""

from functools import reduce
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
from array_api_compat import device
from jaxtyping import Bool, Float, Shaped

from mkbo_plugins.errors import KernelError

Array: TypeAlias = Any
"""A NumPy array or a PyTorch tensor."""


_NAMESPACES: dict[tuple[type, ...], Any] = {}


def array_namespace(*arrays: Array) -> Any:
    """Return what `array_api_compat.array_namespace` does, which is the same for arrays of the same types."""
    types = tuple(map(type, arrays))
    if types not in _NAMESPACES:  # looked for once, as this is called many times for a single point
        _NAMESPACES[types] = array_api_compat.array_namespace(*arrays)
    return _NAMESPACES[types]


def constant(values: Array, like: Array) -> Array:
    """Return host constants as an array of the namespace, dtype and device of `like`."""
    if isinstance(like, np.ndarray):  # at once, as this is called many times for a single point
        return np.asarray(values, dtype=like.dtype)
    xp = array_namespace(like)
    if isinstance(values, np.ndarray) and not values.flags.writeable:
        values = values.copy()  # PyTorch has no read-only tensors
    return xp.asarray(values, dtype=like.dtype, device=device(like))


def with_dtype(values: Array, dtype: Any) -> Array:
    """Return floating-point values in a type, the same array where they have it."""
    return values if values.dtype == dtype else array_namespace(values).astype(values, dtype)


def doubled(X: Array) -> Array:
    """Return floating-point values in double precision, for sums whose large terms cancel."""
    return with_dtype(X, array_namespace(X).float64)


def coordinates(X: Array, dimension: int | None = None, name: str = "X") -> Float[Array, "... d"]:
    """Check that `X` holds points (..., d) of floating-point coordinates.

    Lists and integer arrays become float64 NumPy arrays; floating arrays and tensors pass unchanged.

    Raises
    ------
    KernelError
        If `X` is a scalar, or its last axis does not have `dimension` entries.
    """
    if not hasattr(X, "ndim") or (isinstance(X, np.ndarray) and X.dtype.kind != "f"):
        try:
            X = np.asarray(X, dtype=float)
        except (TypeError, ValueError) as error:
            raise KernelError(f"{name} must hold numbers, got {type(X).__name__}: {error}") from error
    if X.ndim == 0:
        raise KernelError(f"{name} must be a point (d,) or points (n, d), got a single number")
    if dimension is not None and X.shape[-1] != dimension:
        raise KernelError(f"{name} must have {dimension} coordinates in its last axis, got shape {tuple(X.shape)}")
    return X


def per_pair(
    values_x: Shaped[Array, "... n"], values_y: Shaped[Array, "... m"], *, elementwise: bool
) -> tuple[Shaped[Array, "..."], Shaped[Array, "..."]]:
    """Shape per-point values (..., n) and (..., n') so that they combine per pair."""
    if elementwise:
        return values_x, values_y
    return values_x[..., :, None], values_y[..., None, :]


def chunks(count: int, step: int) -> list[slice]:
    """Return slices of `step` (at least one) that cover `count` items; one empty slice where there are none."""
    step, end = max(1, step), max(1, count)
    return list(map(slice, range(0, end, step), [*range(step, end, step), count]))


def equal_points(X: Float[Array, "... d"], Y: Float[Array, "... d"], *, elementwise: bool) -> Bool[Array, "..."]:
    """Return whether points are equal by value, coordinate by coordinate so that no (n, n', d) array is built."""
    return reduce(
        lambda equal, same: equal & same,
        (
            left == right
            for left, right in (per_pair(X[..., j], Y[..., j], elementwise=elementwise) for j in range(X.shape[-1]))
        ),
    )


def joined(parts: list[Array], axis: int) -> Array:
    """Return arrays put together along an axis, a single one as it is."""
    return parts[0] if len(parts) == 1 else array_namespace(*parts).concat(parts, axis=axis)
