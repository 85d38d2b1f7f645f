"""scikit-optimize dimensions as named parameters: what the columns of a transformed space mean."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from skopt.space import Categorical as CategoricalDimension
from skopt.space import Dimension, Integer, Space

from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.levels import level_parameter, levels_by_name
from mkbo_plugins.space.mapping import Affine, Levels, Source
from mkbo_plugins.space.matching import check_kind, check_levels, check_positive, check_sequence
from mkbo_plugins.space.parameters import Frame, Level, Numeric, Parameter, plain_value

Inputs: TypeAlias = Literal["normalised", "raw"]
INPUTS: tuple[Inputs, ...] = ("normalised", "raw")
"""How the host feeds numbers: scaled to [0, 1], as it does for Gaussian processes; or as they are, logarithms to the
dimension's base where the prior is log-uniform, as `Optimizer` does for EIps and PIps."""


@dataclass(frozen=True)
class NamedDimension:
    """A dimension as its columns in a transformed space stand for it: a number, or one column for each level.

    Parameters
    ----------
    name
        Name of the dimension.
    parameter
        The dimension as a parameter of the target; None where it has a single level.
    levels
        Levels in the host's order; none where the dimension is a number.
    base
        Base of the logarithms of numbers that the host may feed; None on a linear scale.
    """

    name: str
    parameter: Parameter | None
    levels: tuple[Level, ...] = ()
    base: float | None = None

    @property
    def size(self) -> int:
        """Number of columns; two levels share one."""
        return len(self.levels) if len(self.levels) > 2 else 1

    def bounds(self, inputs: Inputs) -> tuple[float, float]:
        """Return between which numbers its columns lie."""
        if inputs == "normalised" or not isinstance(self.parameter, Numeric):
            return 0.0, 1.0
        low, high = self.parameter.ends
        return low / self._log_base, high / self._log_base

    def source(self, inputs: Inputs) -> Affine | Levels:
        """Return what stands for the parameter: its column, or a weight for each level."""
        if not isinstance(self.parameter, Numeric):
            return Levels(self.name, self.levels)
        low, high = self.parameter.ends
        slope, intercept = (high - low, low) if inputs == "normalised" else (self._log_base, 0.0)
        return Affine(((self.name, slope),), intercept, self.parameter.log)

    def unit_scaled(self, inputs: Inputs) -> list[tuple[Source, Parameter, Frame]]:
        """Return what stands for the parameter's unit-scaled inputs, if it has any."""
        if isinstance(self.parameter, Numeric) and inputs == "normalised":
            return [(Affine(((self.name, 1.0),)), Numeric(self.name, 0, 1), "unit")]
        return [] if self.parameter is None else [(self.source(inputs), self.parameter, "unit")]

    @property
    def _log_base(self) -> float:
        return 1.0 if self.base is None else math.log(self.base)


def named_dimension(dimension: Dimension, name: str, pretrained: Parameter | None) -> NamedDimension:
    """Return what the columns of a dimension mean.

    Raises
    ------
    SpaceError
        If the dimension and the pre-trained parameter of its name do not fit together.
    """
    if isinstance(dimension, CategoricalDimension):
        levels = tuple(plain_value(level) for level in dimension.categories)
        if pretrained is not None:
            check_levels(pretrained, levels, "the dimension")
        return NamedDimension(name, level_parameter(name, levels, pretrained) if len(levels) > 1 else None, levels)
    log, integer = dimension.prior == "log-uniform", isinstance(dimension, Integer)
    target = Numeric(name, plain_value(dimension.low), plain_value(dimension.high), log=log, integer=integer)
    if pretrained is not None:
        check_kind(pretrained, target, "here")
        check_positive(pretrained, target)
    return NamedDimension(name, target, base=float(dimension.base) if log else None)


def named_dimensions(
    dimensions: Any, names: Sequence[str] | Mapping[str, str] | None = None
) -> list[tuple[str, Dimension]]:
    """Return dimensions with their names, in the order of the host's columns.

    Parameters
    ----------
    dimensions
        What `gp_minimize` or `Optimizer` take: a `Space`, or a sequence of dimensions or short descriptions of them; or
        a dictionary of names, as `BayesSearchCV` takes it, whose keys the host sorts.
    names
        Names in the order of the dimensions, or other names for some of them by their own; None means their own.

    Raises
    ------
    SpaceError
        If dimensions are none that the host takes, one has no name, two have the same, or there are several spaces.
    """
    if isinstance(dimensions, (list, tuple)) and any(_is_subspace(entry) for entry in dimensions):
        if len(dimensions) > 1:
            raise SpaceError(
                f"the {len(dimensions)} sub-spaces of one BayesSearchCV would share one model, whose columns differ "
                "between them; run one BayesSearchCV for each"
            )
        (dimensions,) = dimensions
        dimensions = dimensions[0] if isinstance(dimensions, tuple) else dimensions
    if isinstance(dimensions, Mapping):
        own: list[str | None] = sorted(dimensions)
        entries = [dimensions[name] for name in own]
    else:
        try:
            entries = list(dimensions)
        except TypeError as error:
            raise SpaceError(f"dimensions must be those the optimiser gets, got {dimensions!r}") from error
        own = [entry.name if isinstance(entry, Dimension) else None for entry in entries]
    if not entries:
        raise SpaceError("dimensions are empty; give those the optimiser gets")
    # Read here and not kept, since the host changes dimensions in place.
    try:
        found = list(Space(entries).dimensions)
    except (TypeError, ValueError) as error:
        raise SpaceError(f"dimensions must be those the optimiser gets, but scikit-optimize says: {error}") from error
    chosen = _chosen_names(own, names)
    repeated = sorted({name for name in chosen if chosen.count(name) > 1})
    if repeated:
        raise SpaceError(
            f"names of dimensions must differ, found twice: {repeated}; pass names=[...], one for each dimension in "
            "their order"
        )
    return list(zip(chosen, found, strict=True))


def levels_of(
    dimensions: Any, names: Sequence[str] | Mapping[str, str] | None, fixed: Mapping[str, Any] | None
) -> dict[str, tuple[Any, ...]]:
    """Return the levels of categorical dimensions, and what parameters are fixed at, by name."""
    return levels_by_name(None, fixed) | {
        name: tuple(dimension.categories)
        for name, dimension in named_dimensions(dimensions, names)
        if isinstance(dimension, CategoricalDimension)
    }


def _is_subspace(entry: Any) -> bool:
    return isinstance(entry, Mapping) or (isinstance(entry, tuple) and bool(entry) and isinstance(entry[0], Mapping))


def _chosen_names(own: Sequence[str | None], names: Sequence[str] | Mapping[str, str] | None) -> list[str]:
    if isinstance(names, Mapping):
        unknown = [name for name in names if name not in own]
        if unknown:
            raise SpaceError(f"names: {unknown} are no dimensions; there are {list(own)}")
        chosen: list[str | None] = [names.get(name, name) if name is not None else None for name in own]
    elif names is not None:
        check_sequence("names", names)
        if len(names) != len(own):
            raise SpaceError(f"names must be {len(own)} names, one for each dimension, got {names!r}")
        chosen = list(names)
        # A name that two dimensions share tells nothing of their order.
        pairs = [(old, new) for old, new in zip(own, chosen, strict=True) if own.count(old) == 1]
        clash = [(old, new) for old, new in pairs if old is not None and old != new]
        if clash:
            raise SpaceError(
                f"the dimension named {clash[0][0]!r} is called {clash[0][1]!r} in names; give the same order, or a "
                "mapping {own name: other name} to rename"
            )
    else:
        chosen = list(own)
    nameless = [j for j, name in enumerate(chosen) if not isinstance(name, str) or not name]
    if nameless:
        raise SpaceError(
            f"dimensions {nameless} (counting from 0) have no name, by which they are matched to the table's columns; "
            "write Real(..., name='power') or pass names=[...]"
        )
    return [str(name) for name in chosen]
