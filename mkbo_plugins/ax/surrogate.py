"""Specification of Ax's surrogate models with pre-trained covariances."""

from collections.abc import Mapping
from typing import Any

from ax.core.search_space import SearchSpace
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig

from mkbo_plugins.ax.encoding import column_names, concerning, encodings, target_names
from mkbo_plugins.ax.inputs import PretrainedInputs
from mkbo_plugins.ax.storage import remember
from mkbo_plugins.botorch import PretrainedKernel
from mkbo_plugins.botorch.models import LogNoiseGP
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.errors import SpaceError

PRETRAINED = "pretrained"
STOCK = "stock"


def pretrained_surrogate_spec(
    cov: Covariance | Mapping[str, Covariance],
    search_space: SearchSpace,
    form: str = DEFAULT_FORM,
    *,
    rename: Mapping[str, str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    select: bool = False,
) -> SurrogateSpec:
    """Return a surrogate specification for ``Generators.BOTORCH_MODULAR`` with Ax's transforms ``MBM_X_trans``.

    Parameters
    ----------
    cov
        The covariance for every metric, or one for each of several by their names; others get Ax's own model.
    search_space
        The search space of the experiment.
    form
        Covariance model, as `mkbo_plugins.core.forms` names them; ``"stock"`` gives Ax's own model.
    rename, fixed
        As for `use_pretrained`.
    select
        Whether Ax chooses between this model and its own for each metric, by held-out log likelihood.

    Returns
    -------
    SurrogateSpec
        The specification. It names covariances by fingerprint: a process that loads it must have them, through
        `use_pretrained`, this function, or an experiment that carries them.

    Raises
    ------
    MkboError
        If the search space and a covariance do not fit together, or `form` is unknown.
    """
    rename, fixed = dict(rename or {}), dict(fixed or {})
    if not isinstance(cov, Mapping):
        configs = _model_configs(cov, search_space, form, rename, fixed, select)
        return SurrogateSpec(model_configs=configs, eval_criterion="Log likelihood")
    parts = {
        name: concerning(one.space, search_space, rename, fixed) if len(cov) > 1 else (rename, fixed)
        for name, one in cov.items()
    }
    used = {key for part in parts.values() for of_part in part for key in of_part}
    idle = [key for key in (*rename, *fixed) if key not in used]
    if idle:
        raise SpaceError(
            f"rename and fixed hold {idle}, which no covariance and the experiment have; the covariances have "
            f"{sorted({name for one in cov.values() for name in one.space.names})}, the experiment "
            f"{list(search_space.parameters)}"
        )
    return SurrogateSpec(
        model_configs=[ModelConfig(name=STOCK)],
        metric_to_model_configs={
            name: _model_configs(one, search_space, form, *parts[name], select) for name, one in cov.items()
        },
        eval_criterion="Log likelihood",
    )


def _model_configs(
    cov: Covariance,
    search_space: SearchSpace,
    form: str,
    rename: Mapping[str, str],
    fixed: Mapping[str, Any],
    select: bool,
) -> list[ModelConfig]:
    stock = ModelConfig(name=STOCK)
    chosen = cov.form(form)
    found = encodings(cov.space, search_space, target_names(cov.space, search_space, rename, fixed), fixed)
    if form == "stock":
        return [stock]
    fingerprint = remember(cov)
    covered = sorted({column for encoding in found.values() for column in column_names(encoding)})
    shared = {"fingerprint": fingerprint, "covered": [] if chosen.uses_stock else covered}
    pretrained = ModelConfig(
        botorch_model_class=LogNoiseGP,
        covar_module_class=PretrainedKernel,
        covar_module_options={**shared, "form": form},
        input_transform_classes=[PretrainedInputs],
        input_transform_options={
            PretrainedInputs.__name__: {
                **shared,
                "encodings": found,
            }
        },
        name=PRETRAINED,
    )
    # Ax selects the last of models that score alike or not at all, so its own stands last.
    return [pretrained, stock] if select else [pretrained]
