"""The content of saved covariances: typed reading, and the saved forms of spaces, kernels and weighted points."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.kernels import Exponential, FreeKernel, Linear, Polynomial, SquaredExponential, TaylorSeries
from mkbo_plugins.core.points import WeightedPoints
from mkbo_plugins.covariance.limits import (
    BOUND,
    CHARACTERS,
    CONSTRAINTS,
    COORDINATE,
    COORDINATES,
    DEGREE,
    LEAST_COEFFICIENT,
    LOG10_SERIES,
    SHARE,
    SIGMA,
    SUPPORT,
    TEXTS,
    VALUE,
    WEIGHT,
    Range,
)
from mkbo_plugins.errors import ArtefactError
from mkbo_plugins.space.constraints import LinearConstraint
from mkbo_plugins.space.parameters import is_finite_number
from mkbo_plugins.space.space import ParameterSpace

_KERNELS: dict[str, type[FreeKernel]] = {
    "exponential": Exponential,
    "linear": Linear,
    "polynomial": Polynomial,
    "se": SquaredExponential,
    "taylor": TaylorSeries,
}


class Reader:
    """Typed access to a mapping read from a file; whatever is of another type raises an `ArtefactError`."""

    def __init__(self, values: Any, path: str) -> None:
        if not isinstance(values, dict):
            raise ArtefactError(f"{path or 'content'!r} must be a mapping, got {type(values).__name__}")
        self.values, self.path = values, path

    def _get(self, key: str) -> Any:
        if key not in self.values:
            raise ArtefactError(f"{self.path}{key!r} is missing")
        return self.values[key]

    def _fault(self, key: str, expected: str) -> ArtefactError:
        return ArtefactError(f"{self.path}{key!r} must be {expected}, got {self.values[key]!r:.60}")

    def number(self, key: str, within: Range) -> float:
        """Return a number within a range."""
        value = self._get(key)
        if not _is_within(value, within):
            raise self._fault(key, f"a number from {within.least:g} to {within.most:g}")
        return float(value)

    def optional_number(self, key: str, within: Range) -> float | None:
        """Return a number within a range, or None for null."""
        return None if self._get(key) is None else self.number(key, within)

    def whole(self, key: str, within: Range) -> int:
        """Return a whole number within a range."""
        value = self._get(key)
        if not isinstance(value, int) or not _is_within(value, within):
            raise self._fault(key, f"a whole number from {within.least:g} to {within.most:g}")
        return value

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self._get(key)
        if not isinstance(value, bool):
            raise self._fault(key, "true or false")
        return value

    def text(self, key: str, allowed: tuple[str, ...] | None = None) -> str:
        """Return a text, one of those allowed if any are named."""
        value = self._get(key)
        if not isinstance(value, str) or (allowed is not None and value not in allowed):
            raise self._fault(key, "text" if allowed is None else f"one of {list(allowed)}")
        if len(value) > CHARACTERS:
            raise self._fault(key, f"text of at most {CHARACTERS} characters")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self.listed(key, TEXTS)
        if not all(isinstance(item, str) and len(item) <= CHARACTERS for item in value):
            raise self._fault(key, f"a list of texts of at most {CHARACTERS} characters")
        return tuple(value)

    def listed(self, key: str, most: int) -> list[Any]:
        """Return a list of at most so many entries."""
        value = self._get(key)
        if not isinstance(value, list):
            raise self._fault(key, "a list")
        if len(value) > most:
            raise ArtefactError(f"{self.path}{key!r} must have at most {most} entries, got {len(value)}")
        return value

    def numbers(self, key: str, within: Range, most: int) -> list[float]:
        """Return a list of at most so many numbers within a range."""
        value = self.listed(key, most)
        if not all(_is_within(item, within) for item in value):
            raise self._fault(key, f"a list of numbers from {within.least:g} to {within.most:g}")
        return [float(item) for item in value]

    def matrix(self, key: str, within: Range, most: int) -> Float[np.ndarray, "n m"]:
        """Return at most so many equally long rows of numbers within a range, (n, m)."""
        rows = self.listed(key, most)
        regular = rows and all(isinstance(r, list) and len(r) == len(rows[0]) for r in rows)
        if not regular or not all(_is_within(item, within) for row in rows for item in row):
            expected = f"numbers from {within.least:g} to {within.most:g}"
            raise self._fault(key, f"a list of equally long rows of {expected}")
        return np.array(rows, dtype=float)

    def below(self, key: str) -> "Reader":
        """Return access to a mapping below this one."""
        return Reader(self._get(key), f"{self.path}{key}.")

    def each_below(self, key: str, most: int) -> "list[Reader]":
        """Return access to each of a list of at most so many mappings."""
        entries = self.listed(key, most)
        return [Reader(entry, f"{self.path}{key}[{i}].") for i, entry in enumerate(entries)]


def _is_within(value: Any, within: Range) -> bool:
    return is_finite_number(value) and within.least <= value <= within.most


def encode_space(space: ParameterSpace) -> dict[str, Any]:
    """Return the saved form of a space, merged into what it belongs to."""
    # Lists, because orders are part of the space; files without constraints know nothing of these.
    constraints = [
        {"at_least": c.at_least, "at_most": c.at_most, "coefficients": [list(pair) for pair in c.coefficients]}
        for c in space.constraints
    ]
    return ({"constraints": constraints} if constraints else {}) | {
        "space": [[name, spec] for name, spec in space.to_dict().items()]
    }


def decode_space(content: Reader) -> ParameterSpace:
    """Return the space of a content; raises `ArtefactError` where it is none."""
    entries: Any = content.values.get("space")
    pairs = isinstance(entries, list) and all(
        isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) for entry in entries
    )
    if not pairs:
        raise ArtefactError("'space' must be a list of names with their descriptions")
    if len({name for name, _ in entries}) < len(entries):
        raise ArtefactError("'space' names a parameter twice")
    counts = [_coordinates(spec) for _, spec in entries]
    if sum(counts) > COORDINATES:
        raise ArtefactError(
            f"'space' must have at most {COORDINATES} parameters, levels and descriptors, got {sum(counts)}"
        )
    constraints = content.each_below("constraints", CONSTRAINTS) if "constraints" in content.values else []
    return ParameterSpace.from_dict(dict(entries), constraints=map(_decode_constraint, constraints))


def _coordinates(spec: Any) -> int:
    levels, descriptors = (spec.get("levels"), spec.get("descriptors")) if isinstance(spec, dict) else (spec, None)
    return sum(len(part) for part in (levels, descriptors) if isinstance(part, list)) or 1


def _decode_constraint(encoded: Reader) -> LinearConstraint:
    pairs: Any = encoded.values.get("coefficients")
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ArtefactError(f"{encoded.path}'coefficients' must be a list of names with their numbers")
    bounds = (encoded.optional_number(key, BOUND) for key in ("at_least", "at_most"))
    return LinearConstraint(tuple(map(tuple, pairs)), *bounds)


def encode_kernel(kernel: FreeKernel) -> dict[str, Any]:
    """Return the saved form of a free kernel; raises `ArtefactError` where it has none."""
    kind = next((name for name, cls in _KERNELS.items() if type(kernel) is cls), None)
    if kind is None:
        raise ArtefactError(f"kernels of type {type(kernel).__name__} have no saved form; use one of {list(_KERNELS)}")
    encoded: dict[str, Any] = {"kind": kind, "weights": None if kernel.weights is None else list(kernel.weights)}
    for name in ("sigma", "degree"):
        if hasattr(kernel, name):
            encoded[name] = getattr(kernel, name)
    if isinstance(kernel, TaylorSeries):
        encoded["coefficients"] = list(kernel.coefficients)
    return encoded


def decode_kernel(encoded: Reader) -> FreeKernel:
    """Return a free kernel."""
    kind = encoded.text("kind", tuple(_KERNELS))
    settings: dict[str, Any] = {}
    if encoded.values.get("weights") is not None:
        settings["weights"] = tuple(encoded.numbers("weights", WEIGHT, COORDINATES))
    if kind in ("exponential", "se"):
        settings["sigma"] = encoded.number("sigma", SIGMA)
    elif kind == "polynomial":
        settings["degree"] = encoded.whole("degree", Range(1, DEGREE))
    elif kind == "taylor":
        settings["coefficients"] = tuple(encoded.numbers("coefficients", SHARE, DEGREE + 1))
    kernel = _KERNELS[kind](**settings)
    weights = kernel.weights or (1.0,)
    if kernel.exponent_rate is not None and max(weights) * kernel.exponent_rate > WEIGHT.most:
        raise ArtefactError(f"{encoded.path}'weights' must be at most {WEIGHT.most:g} times 'sigma'")
    if kernel.exponent_rate is None and kernel.degree_limit * math.log10(1 + sum(weights)) > LOG10_SERIES:
        raise ArtefactError(f"{encoded.path}'weights' of {max(weights):g} overflow in degree {kernel.degree_limit}")
    return kernel


def encode_points(points: WeightedPoints) -> dict[str, Any]:
    """Return the saved form of weighted points, merged into what they belong to."""
    return {"alpha": points.alpha.tolist(), "support": points.points.tolist()}


def decode_points(content: Reader) -> WeightedPoints:
    """Return weighted points."""
    support = content.matrix("support", COORDINATE, SUPPORT)
    alpha = np.array(content.numbers("alpha", VALUE, SUPPORT))
    if ((alpha != 0) & (np.abs(alpha) < LEAST_COEFFICIENT)).any():
        raise ArtefactError(f"{content.path}'alpha' must be 0 or at least {LEAST_COEFFICIENT:g} in size")
    return WeightedPoints(support, alpha)
