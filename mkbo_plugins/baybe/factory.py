"""BaYBE's factories of the pre-trained kernel and mean, and a surrogate made of them."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from attrs import define, field
from baybe.objectives.base import Objective
from baybe.searchspace import SearchSpace
from baybe.serialization.core import converter
from baybe.serialization.mixin import SerialMixin
from baybe.surrogates import GaussianProcessSurrogate
from baybe.surrogates.gaussian_process.components.generic import GPComponentFactoryProtocol

from mkbo_plugins.baybe.frame import SearchSpaceFrame
from mkbo_plugins.baybe.searchspace import target_space
from mkbo_plugins.botorch.kernel import PretrainedKernel
from mkbo_plugins.botorch.mean import PretrainedMean
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.covariance.base import Covariance, check_covariance
from mkbo_plugins.covariance.directions import Direction, Directions
from mkbo_plugins.covariance.target import for_levels, warn_of_new_levels
from mkbo_plugins.errors import ArtefactError
from mkbo_plugins.space.levels import levels_by_name
from mkbo_plugins.space.matching import check_mapping
from mkbo_plugins.space.parameters import Level
from mkbo_plugins.tables.constraints import warn_of_lost_by_name
from mkbo_plugins.tables.ranges import warn_of_units

_REMEDY = "give the search space the same as a constraint, or candidates that keep it"


def pretrained_surrogate(
    cov: Covariance,
    form: str = DEFAULT_FORM,
    *,
    fixed: Mapping[str, Any] | None = None,
    direction: Directions = "unknown",
) -> GaussianProcessSurrogate:
    """Return BaYBE's Gaussian process with a pre-trained covariance, for recommenders and campaigns.

    Parameters are matched by name; bounds, values and levels may differ from the table's, and parameters that it lacks
    are seen by the stock covariance. The covariance travels in the JSON of a campaign, which any process can read that
    has imported `mkbo_plugins.baybe`.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    form
        Covariance model, as `mkbo_plugins.core.forms` names them; ``"stock"`` turns the covariance off.
    fixed
        Values of pre-trained parameters that the search space lacks, by name.
    direction
        ``"same"`` if a large table target goes with a large value of what is modelled, be it to be large or small,
        ``"opposite"`` if with a small one; of several tables one word for all or one for each. The mean of the process
        then rises or falls with the table's prediction.

    Returns
    -------
    GaussianProcessSurrogate
        The surrogate; it fits the search space of a campaign, or says why not, when it is first fitted.

    Raises
    ------
    MkboError
        If an argument is not as described.

    Examples
    --------
    >>> from baybe.recommenders import BotorchRecommender
    >>> recommender = BotorchRecommender(surrogate_model=pretrained_surrogate(cov))  # doctest: +SKIP
    """
    kernel = PretrainedKernelFactory(cov, form, {} if fixed is None else fixed)
    if not cov.is_directed(direction, form):
        return GaussianProcessSurrogate(kernel)
    words = (direction,) * cov.tables if isinstance(direction, str) else tuple(direction)
    return GaussianProcessSurrogate(kernel, PretrainedMeanFactory(cov, words, kernel.fixed))


# Without slots, since these make a second class of the same name, which BaYBE may find in place of this one.
@define(frozen=True, slots=False)
class PretrainedKernelFactory(GPComponentFactoryProtocol, SerialMixin):
    """Kernel of `pretrained_surrogate`, in the table's frame whatever the search space; each fit makes one anew.

    Attributes
    ----------
    cov, form, fixed
        As for `pretrained_surrogate`.

    Raises
    ------
    MkboError
        If `cov` is no covariance, `form` is unknown, or `fixed` is no mapping.
    """

    cov: Covariance
    form: str = DEFAULT_FORM
    fixed: Mapping[str, Level] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        check_covariance(self.cov)
        check_mapping("fixed", self.fixed)
        self.cov.form(self.form)  # raises where the covariance has none of this name

    def __call__(self, searchspace: SearchSpace, objective: Objective, measurements: pd.DataFrame) -> PretrainedKernel:
        """Return the kernel for inputs that BaYBE has scaled by a search space.

        Raises
        ------
        SpaceError
            If the search space lacks a pre-trained parameter that is not fixed, has one of another kind, or has a task
            parameter.

        Warns
        -----
        TableWarning
            If bounds look like other units than the table's, levels are new, or the search space does not keep a
            constraint of the table's space.
        """
        target = target_space(self.cov.space, searchspace)
        warn_of_new_levels(self.cov, levels_by_name(target, self.fixed))
        cov, frame = _framed(self.cov, searchspace, self.fixed)
        warn_of_units(cov.space, {name: target[name] for name in frame.names}, self.fixed)
        numbers = {name: cov.space[name].to_raw(value) for name, value in self.fixed.items()}
        warn_of_lost_by_name(cov.space, target, numbers, "the search space", _REMEDY)
        return PretrainedKernel(cov, self.form, frame.num_stock_columns, frame)


@define(frozen=True, slots=False)
class PretrainedMeanFactory(GPComponentFactoryProtocol, SerialMixin):
    """Mean of `pretrained_surrogate` where the direction of a table is known.

    Parameters
    ----------
    cov, fixed
        As for `pretrained_surrogate`.
    direction
        As there, a word for each table.
    """

    cov: Covariance
    direction: tuple[Direction, ...]
    fixed: Mapping[str, Level] = field(factory=dict)

    def __call__(self, searchspace: SearchSpace, objective: Objective, measurements: pd.DataFrame) -> PretrainedMean:
        """Return the mean at inputs that BaYBE has scaled by a search space; raises as the kernel does."""
        cov, frame = _framed(self.cov, searchspace, self.fixed)
        return PretrainedMean(cov, self.direction, frame)


def _framed(
    cov: Covariance, searchspace: SearchSpace, fixed: Mapping[str, Level]
) -> tuple[Covariance, SearchSpaceFrame]:
    """Return the covariance with all levels of a search space, and the map to its frame."""
    cov = for_levels(cov, levels_by_name(target_space(cov.space, searchspace), fixed))
    return cov, SearchSpaceFrame(cov, searchspace, fixed)


def _is_covariance(cls: object) -> bool:
    return isinstance(cls, type) and issubclass(cls, Covariance)


def _read_covariance(text: Any, _: Any) -> Covariance:
    if not isinstance(text, str):
        raise ArtefactError(f"a stored covariance must be the text of its file, got {type(text).__name__}")
    return Covariance.from_bytes(text.encode(errors="backslashreplace"))


def _read_fixed(values: Any, _: Any) -> dict[str, Level]:
    check_mapping("fixed", values)
    return dict(values or {})


# A covariance is stored as the text of its file, which is checked when it is read.
converter.register_unstructure_hook_func(_is_covariance, lambda cov: cov.to_bytes().decode())
converter.register_structure_hook_func(_is_covariance, _read_covariance)
converter.register_structure_hook_func(lambda cls: cls == Mapping[str, Level], _read_fixed)
