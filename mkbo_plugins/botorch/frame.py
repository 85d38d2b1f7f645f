"""Input transform from raw named columns to the fixed frame of a pre-trained covariance."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from botorch.models.transforms.input import InputTransform
from torch import Tensor

from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.parameters import Categorical, Numeric, Ordered, Parameter, Scaled
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.ranges import check_positive


class _Scale(NamedTuple):
    """Where a coordinate comes from and how: ``factor * (number - low) / (high - low) - (factor - 1)``."""

    column: int
    log: bool
    low: float
    high: float
    factor: float


class NamedFrame(InputTransform):
    """Map raw columns, found by name, to frame coordinates followed by the host's own unit-scaled inputs.

    The frame is the artefact's and never depends on the bounds of the target.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    names
        Names of the columns, in their order; None means the order of `space`.
    space
        The target's parameters: their own bounds scale the host's inputs, and parameters that the table lacks are
        described here. None means those of the covariance that are not fixed.
    fixed
        Values of pre-trained parameters that the target keeps constant, by name, in user-facing form.
    frame_columns
        Whether to put out the frame coordinates, one for each of ``cov.space.coordinate_names``.
    stock_columns
        Which parameters to put out scaled to [0, 1] by the target's bounds, with one {0, 1} column per categorical
        level: ``"all"`` of the target, only the ``"extra"`` ones that the table lacks, or ``"none"``.

    Raises
    ------
    SpaceError
        If a column is not described, a pre-trained parameter is neither a column nor fixed, or a parameter is not of
        the same kind in the table and the target.
    """

    def __init__(
        self,
        cov: Covariance,
        names: Sequence[str] | None = None,
        *,
        space: ParameterSpace | None = None,
        fixed: Mapping[str, Any] | None = None,
        frame_columns: bool = True,
        stock_columns: Literal["all", "extra", "none"] = "all",
    ) -> None:
        super().__init__()
        self.transform_on_train = True
        self.transform_on_eval = True
        self.transform_on_fantasize = True
        fixed = dict(fixed or {})
        self.pretrained_space = cov.space
        self.frame = cov.frame
        self.target_space = _target_space(cov.space, space, fixed)
        self.fixed = {name: cov.space[name].to_raw(value) for name, value in fixed.items()}
        self.names = _column_names(names, self.target_space, cov.space, fixed)
        extra = [p for p in self.target_space.parameters if p.name not in cov.space.names]
        self.frame_columns = frame_columns
        chosen = {"all": self.target_space.parameters, "extra": tuple(extra), "none": ()}
        if stock_columns not in chosen:
            raise SpaceError(f"stock_columns must be one of {list(chosen)}, got {stock_columns!r}")
        self.stock_parameters: tuple[Parameter, ...] = chosen[stock_columns]
        self._levels = {
            p.name: _level_order(p, self.target_space[p.name]) for p in cov.space.parameters if p.name not in fixed
        }
        for name in self._levels if frame_columns else ():
            target = self.target_space[name]
            if isinstance(target, Numeric):
                check_positive(cov.space[name], name, target.lower)

        described = [*self.target_space.parameters, *(cov.space.parameters if frame_columns else ())]
        log_names = dict.fromkeys(p.name for p in described if isinstance(p, Numeric) and p.log)
        self._log_names = tuple(name for name in log_names if name not in fixed)
        self._plan()
        self._level_counts = {p.name: len(p.indexed_levels) for p in self.target_space.parameters if p.indexed_levels}

    @property
    def num_frame_columns(self) -> int:
        """Number of frame coordinates put out."""
        return len(self.pretrained_space.coordinate_names) if self.frame_columns else 0

    @property
    def num_stock_columns(self) -> int:
        """Number of unit-scaled host inputs put out, behind the frame coordinates."""
        return sum(len(p.coordinate_names) for p in self.stock_parameters)

    def transform(self, X: Tensor) -> Tensor:
        """Map raw columns (..., n, number of names) to coordinates (..., n, frame + stock columns).

        Raises
        ------
        SpaceError
            If the number of columns is wrong, a log parameter is not above 0, or a level index is out of range.
        """
        if X.shape[-1] != len(self.names):
            raise SpaceError(f"expected {len(self.names)} columns {list(self.names)}, got {X.shape[-1]}")
        columns = {name: X[..., j] for j, name in enumerate(self.names)}
        self._check(columns)
        blocks = [self._scaled(X)] if self._scales else []
        blocks += [
            self._to_frame(p, columns, X) if in_frame else p.to_coordinates(columns[p.name], "unit")
            for p, in_frame in self._others
        ]
        return torch.cat(blocks, dim=-1)[..., self._order]

    def _plan(self) -> None:
        """Split what is put out into coordinates with a scale, computed in one go for all columns, and others."""
        pieces = [(p, True) for p in (self.pretrained_space.parameters if self.frame_columns else ())]
        pieces += [(p, False) for p in self.stock_parameters]
        scaled = [(p, in_frame) for p, in_frame in pieces if isinstance(p, Scaled) and p.name in self.names]
        scaled.sort(key=lambda piece: piece[0].log)
        self._others = [piece for piece in pieces if piece not in scaled]
        self._scales = [
            _Scale(self.names.index(p.name), p.log, *p.ends, 2.0 if in_frame and self.frame == "centred" else 1.0)
            for p, in_frame in scaled
        ]
        starts, position = {}, 0
        for piece in (*scaled, *self._others):
            starts[piece] = position
            position += len(piece[0].coordinate_names)
        self._order = [starts[piece] + j for piece in pieces for j in range(len(piece[0].coordinate_names))]

    def _scaled(self, X: Tensor) -> Tensor:
        """Return all coordinates with a scale, those on a logarithmic one last, (..., n, number of them)."""
        numbers = X[..., [scale.column for scale in self._scales]]
        logs = sum(scale.log for scale in self._scales)
        if logs:
            numbers = torch.cat([numbers[..., :-logs], numbers[..., -logs:].log()], dim=-1)
        ends = [(scale.low, scale.high, scale.factor) for scale in self._scales]
        low, high, factor = torch.tensor(ends, dtype=X.dtype, device=X.device).T
        return factor * ((numbers - low) / (high - low)) - (factor - 1)

    def _to_frame(self, parameter: Parameter, columns: Mapping[str, Tensor], like: Tensor) -> Tensor:
        """Return the frame coordinates of a parameter that is fixed or has levels."""
        if parameter.name in self.fixed:
            column = torch.full(like.shape[:-1], self.fixed[parameter.name], dtype=like.dtype, device=like.device)
            return parameter.to_coordinates(column, self.frame)
        levels = self._levels[parameter.name]
        one_hot = self.target_space[parameter.name].to_coordinates(columns[parameter.name], self.frame)
        padded = torch.cat([one_hot, torch.zeros_like(one_hot[..., :1])], dim=-1)
        return padded[..., levels]

    @torch.no_grad()
    def _check(self, columns: Mapping[str, Tensor]) -> None:
        for name in self._log_names:
            if not bool((columns[name] > 0).all()):
                raise SpaceError(f"parameter {name!r} is on a log scale and must be above 0 everywhere")
        for name, count in self._level_counts.items():
            if not bool(((columns[name] >= 0) & (columns[name] <= count - 1)).all()):
                raise SpaceError(f"parameter {name!r}: level indices must lie between 0 and {count - 1}")

    def sample(self, n: int, like: Tensor) -> Tensor:
        """Return `n` space-filling raw rows of the target space, (n, number of names), as a tensor like `like`."""
        raw = torch.as_tensor(self.target_space.sobol(n), dtype=like.dtype, device=like.device)
        return raw[:, [self.target_space.names.index(name) for name in self.names]]

    def equals(self, other: InputTransform) -> bool:
        """Return whether another transform does exactly the same."""
        return isinstance(other, NamedFrame) and self._key() == other._key()

    def _key(self) -> tuple[Any, ...]:
        return (
            self.pretrained_space,
            self.frame,
            self.names,
            self.target_space,
            tuple(sorted(self.fixed.items())),
            self.frame_columns,
            self.stock_parameters,
        )


def _target_space(pretrained: ParameterSpace, space: ParameterSpace | None, fixed: Mapping[str, Any]) -> ParameterSpace:
    unknown = [name for name in fixed if name not in pretrained.names]
    if unknown:
        raise SpaceError(f"fixed parameters {unknown} are not pre-trained; the covariance has {list(pretrained.names)}")
    if space is not None and not isinstance(space, ParameterSpace):
        raise SpaceError(
            f"space must be a ParameterSpace, got {type(space).__name__}; ParameterSpace.from_dict makes one"
        )
    if space is None:
        return ParameterSpace(tuple(p for p in pretrained.parameters if p.name not in fixed))
    both = [name for name in fixed if name in space.names]
    if both:
        raise SpaceError(f"parameters {both} are both fixed and in the target's space; keep one")
    lacking = [name for name in pretrained.names if name not in space.names and name not in fixed]
    if lacking:
        raise SpaceError(
            f"the target's space lacks pre-trained parameters {lacking}; give each the constant value it has in the "
            "target, fixed={...} (--fix NAME=VALUE)"
        )
    return space


def _column_names(
    names: Sequence[str] | None, target: ParameterSpace, pretrained: ParameterSpace, fixed: Mapping[str, Any]
) -> tuple[str, ...]:
    names = target.names if names is None else tuple(names)
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise SpaceError(f"column names must differ, found twice: {doubled}")
    lacking = [name for name in target.names if name not in names]
    if lacking:
        hint = "; a pre-trained parameter that the target keeps constant goes into fixed={...} (--fix NAME=VALUE)"
        raise SpaceError(f"no column for parameters {lacking}{hint if set(lacking) & set(pretrained.names) else ''}")
    unknown = [name for name in names if name not in target.names]
    if any(name in fixed for name in unknown):
        raise SpaceError(f"columns {[n for n in unknown if n in fixed]} are also fixed; keep one of the two")
    if unknown:
        raise SpaceError(
            f"columns {unknown} are not described; pass the target's space= (--space), with bounds "
            "or levels of parameters that the table lacks"
        )
    return names


def _level_order(pretrained: Parameter, target: Parameter) -> list[int]:
    """Return, for each pre-trained level, the target's level index (or -1), none where raw values agree."""
    if isinstance(pretrained, Categorical) and isinstance(target, Categorical):
        unknown = [level for level in target.levels if level not in pretrained.levels]
        if unknown:
            raise SpaceError(
                f"parameter {target.name!r}: levels {unknown} of the target do not occur in the table, which has "
                f"{list(pretrained.levels)}; leave them out of the target's space"
            )
        return [target.levels.index(level) if level in target.levels else -1 for level in pretrained.levels]
    if isinstance(pretrained, Ordered) and not pretrained.numeric:
        if target != pretrained:
            raise SpaceError(
                f"parameter {target.name!r}: ordered levels must be those of the table, {list(pretrained.levels)}"
            )
        return []
    numeric = isinstance(target, Numeric) or (isinstance(target, Ordered) and target.numeric)
    if isinstance(pretrained, Categorical) or not numeric:
        raise SpaceError(
            f"parameter {target.name!r} is {type(pretrained).__name__.lower()} in the table and "
            f"{type(target).__name__.lower()} in the target; describe it alike in both"
        )
    return []
