"""BaYBE's factory of the pre-trained kernel."""

from collections.abc import Mapping

import pandas as pd
from attrs import define, field
from baybe.objectives.base import Objective
from baybe.searchspace import SearchSpace
from baybe.serialization.core import converter
from baybe.serialization.mixin import SerialMixin
from baybe.surrogates.gaussian_process.components.generic import GPComponentFactoryProtocol

from mkbo_plugins.baybe.frame import SearchSpaceFrame
from mkbo_plugins.baybe.searchspace import target_space
from mkbo_plugins.botorch.kernel import PretrainedKernel
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.covariance.base import Covariance, check_covariance
from mkbo_plugins.covariance.target import for_target
from mkbo_plugins.space.levels import levels_by_name
from mkbo_plugins.space.matching import check_mapping
from mkbo_plugins.space.parameters import Level
from mkbo_plugins.tables.constraints import warn_of_lost_by_name
from mkbo_plugins.tables.ranges import warn_of_units

_REMEDY = "give the search space the same as a constraint, or candidates that keep it"


@define(frozen=True)
class PretrainedKernelFactory(GPComponentFactoryProtocol, SerialMixin):
    """Kernel of BaYBE's `GaussianProcessSurrogate`, in the table's frame whatever the search space.

    ``GaussianProcessSurrogate(PretrainedKernelFactory(cov))`` is the surrogate. Parameters are matched by name; bounds,
    values and levels may differ, and parameters that the table lacks are seen by the stock covariance. Each fit makes a
    kernel anew. The covariance travels in the JSON of a campaign, which ``import mkbo_plugins.baybe`` makes readable.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    form
        Covariance model, as `mkbo_plugins.core.forms` names them; ``"stock"`` turns the covariance off.
    fixed
        Values of pre-trained parameters that the search space lacks, by name.

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
        cov = for_target(self.cov, levels_by_name(target, self.fixed))
        frame = SearchSpaceFrame(cov, searchspace, self.fixed)
        warn_of_units(cov.space, {name: target[name] for name in frame.names}, self.fixed)
        numbers = {name: cov.space[name].to_raw(value) for name, value in self.fixed.items()}
        warn_of_lost_by_name(cov.space, target, numbers, "the search space", _REMEDY)
        return PretrainedKernel(cov, self.form, frame.num_stock_columns, frame)


def _is_covariance(cls: object) -> bool:
    return isinstance(cls, type) and issubclass(cls, Covariance)


# A covariance is stored as the text of its file, which is checked when it is read.
converter.register_unstructure_hook_func(_is_covariance, lambda cov: cov.to_bytes().decode("utf-8"))
converter.register_structure_hook_func(_is_covariance, lambda text, _: Covariance.from_bytes(text.encode("utf-8")))
converter.register_structure_hook_func(lambda cls: cls == Mapping[str, Level], lambda values, _: dict(values))
