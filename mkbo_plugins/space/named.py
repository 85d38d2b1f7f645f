"""Raw columns, found by name, as coordinates of a pre-trained covariance and as unit-scaled inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.messages.hints import did_you_mean
from mkbo_plugins.space.levels import described_alike
from mkbo_plugins.space.mapping import Affine, Constant, CoordinateMap, Levels, Source
from mkbo_plugins.space.matching import (
    check_above_zero,
    check_kind,
    check_mapping,
    check_names,
    check_positive,
    check_sequence,
    is_log,
)
from mkbo_plugins.space.parameters import Categorical, Frame
from mkbo_plugins.space.space import ParameterSpace, check_distinct

Stock: TypeAlias = Literal["all", "extra", "none"]

_OPTION = " (--fix NAME=VALUE)"


@dataclass(frozen=True)
class NamedColumns:
    """Map from raw columns, a level being its index, to frame coordinates and then unit-scaled inputs.

    Parameters
    ----------
    target, names
        The target's parameters, and the order of their columns.
    frame_dims
        Number of frame coordinates put out.
    coordinates
        Map from the columns, and behind them weights of categorical levels.
    """

    target: ParameterSpace
    names: tuple[str, ...]
    frame_dims: int
    coordinates: CoordinateMap

    @classmethod
    def of(
        cls,
        pretrained: ParameterSpace,
        frame: Frame,
        names: Sequence[str] | None,
        space: ParameterSpace | None,
        fixed: Mapping[str, Any] | None,
        frame_columns: bool = True,
        stock_columns: Stock = "none",
    ) -> "NamedColumns":
        """Return the map for a target; arguments as for `mkbo_plugins.botorch.NamedFrame`.

        Raises
        ------
        SpaceError
            If a column is not described, a pre-trained parameter is neither a column nor fixed, or a parameter is not
            of the same kind in the table and the target.
        """
        check_mapping("fixed", fixed)
        check_sequence("names", names)
        fixed = dict(fixed or {})
        target = described_alike(_target_space(pretrained, space, fixed), pretrained)
        sources: dict[str, Source] = {name: Constant(pretrained[name].to_raw(fixed[name])) for name in fixed}
        names = _column_names(names, target, pretrained, fixed)
        extra = tuple(p for p in target.parameters if p.name not in pretrained.names)
        stock = {"all": target.parameters, "extra": extra, "none": ()}
        if stock_columns not in stock:
            raise SpaceError(f"stock_columns must be one of {list(stock)}, got {stock_columns!r}")
        for parameter in pretrained.parameters:
            if parameter.name not in fixed:
                check_kind(parameter, target[parameter.name], "in the target")
                if frame_columns:
                    check_positive(parameter, target[parameter.name])
        levels = {p.name: Levels(p.name, p.levels) for p in target.parameters if isinstance(p, Categorical)}
        sources |= {name: levels.get(name, Affine(((name, 1.0),))) for name in names}
        shown = [(p, frame) for p in pretrained.parameters if frame_columns]
        coordinates = CoordinateMap.of(
            [*names, *(label for source in levels.values() for label in source.columns)],
            [(sources[p.name], p, f) for p, f in [*shown, *((p, "unit") for p in stock[stock_columns])]],
        )
        return cls(target, names, len(pretrained.coordinate_names) if frame_columns else 0, coordinates)

    def __call__(self, X: Array) -> Float[Array, "... d"]:
        """Map raw columns (..., number of names) to coordinates (..., frame coordinates and unit-scaled inputs).

        Raises
        ------
        SpaceError
            If the number of columns is wrong, a log parameter is not above 0, or a level index is out of range.
        """
        if X.shape[-1] != len(self.names):
            raise SpaceError(f"expected {len(self.names)} columns {list(self.names)}, got {X.shape[-1]}")
        for name in self._plain_logs:
            check_above_zero(X[..., self.names.index(name), None], [name])
        for name, last in self._last_levels.items():
            column = X[..., self.names.index(name)]
            if not bool(((column >= 0) & (column <= last)).all()):
                raise SpaceError(f"parameter {name!r}: level indices must lie between 0 and {last}")
        return self.coordinates(self._with_weights(X))

    def vjp(self, X: Float[np.ndarray, "... v"], upstream: Float[np.ndarray, "... m"]) -> Float[np.ndarray, "... v"]:
        """Pull gradients in the coordinates, (..., m), back to raw columns, (..., v)."""
        gradient = self.coordinates.vjp(self._with_weights(X), upstream)
        of_columns, start = gradient[..., : len(self.names)], len(self.names)
        for p in self._categorical:
            j, stop = self.names.index(p.name), start + len(p.levels)
            of_columns[..., j] += p.level_weights_vjp(X[..., j], gradient[..., start:stop])
            start = stop
        return of_columns

    def _with_weights(self, X: Array) -> Float[Array, "... v"]:
        """Return raw columns and, behind them, the weights of levels."""
        weights = [p.level_weights(X[..., self.names.index(p.name)]) for p in self._categorical]
        return array_namespace(X).concat([X, *weights], axis=-1) if weights else X

    @cached_property
    def _categorical(self) -> list[Categorical]:
        return [p for p in self.target.parameters if isinstance(p, Categorical)]

    @cached_property
    def _plain_logs(self) -> list[str]:
        """Parameters on a log scale in the target of which no logarithm is put out."""
        logarithms = {label for z in self.coordinates.coordinates if z.on_log for label, _ in z.terms}
        return [p.name for p in self.target.parameters if is_log(p) and p.name not in logarithms]

    @cached_property
    def _last_levels(self) -> dict[str, int]:
        return {p.name: len(p.indexed_levels) - 1 for p in self.target.parameters if p.indexed_levels}


def _target_space(pretrained: ParameterSpace, space: ParameterSpace | None, fixed: Mapping[str, Any]) -> ParameterSpace:
    if space is not None and not isinstance(space, ParameterSpace):
        raise SpaceError(
            f"space must be a ParameterSpace, got {type(space).__name__}; ParameterSpace.from_dict makes one"
        )
    remaining = [name for name in pretrained.names if name not in fixed]
    check_names(
        pretrained,
        remaining if space is None else space.names,
        fixed,
        lacks="the target's space lacks",
        within="in the target's space",
        remedy=_OPTION,
    )
    return pretrained.without(fixed) if space is None else space


def _column_names(
    names: Sequence[str] | None, target: ParameterSpace, pretrained: ParameterSpace, fixed: Mapping[str, Any]
) -> tuple[str, ...]:
    names = target.names if names is None else tuple(names)
    check_distinct(names, "column")
    lacking = [name for name in target.names if name not in names]
    if lacking:
        hint = did_you_mean(lacking[0], [name for name in names if name not in target.names])
        if set(lacking) & set(pretrained.names):
            hint += f"; a pre-trained parameter that the target keeps constant goes into fixed={{...}}{_OPTION}"
        raise SpaceError(f"no column for parameters {lacking}{hint}")
    both = [name for name in names if name in fixed]
    if both:
        raise SpaceError(f"columns {both} are also fixed; keep one of the two")
    unknown = [name for name in names if name not in target.names]
    if unknown:
        raise SpaceError(
            f"columns {unknown} are not described; pass the target's space= (--space), with bounds "
            "or levels of parameters that the table lacks"
        )
    return names
