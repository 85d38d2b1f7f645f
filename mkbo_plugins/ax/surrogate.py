"""Specification of Ax's surrogate models with pre-trained covariances."""

from collections.abc import Mapping
from typing import Any

from ax.core.search_space import SearchSpace
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig

from mkbo_plugins.ax.directed import DirectedGP
from mkbo_plugins.ax.encoding import column_names, concerning, encodings, levels, target_names
from mkbo_plugins.ax.inputs import PretrainedInputs
from mkbo_plugins.ax.storage import remember
from mkbo_plugins.botorch import PretrainedKernel
from mkbo_plugins.botorch.models import LogNoiseGP
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.covariance.directions import Directions
from mkbo_plugins.covariance.target import for_levels
from mkbo_plugins.errors import MkboError, SpaceError
from mkbo_plugins.space.described import Described
from mkbo_plugins.space.matching import check_mapping

PRETRAINED = "pretrained"
STOCK = "stock"

OBJECTIVE = "*"
"""Stands for the only objective where a covariance was given without a metric."""

Covariances = Covariance | Mapping[str, Covariance]


def pretrained_surrogate_spec(
    cov: Covariances,
    search_space: SearchSpace,
    form: str = DEFAULT_FORM,
    *,
    rename: Mapping[str, str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    select: bool = False,
    direction: Directions | Mapping[str, Directions] = "unknown",
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
    direction
        As for `use_pretrained`, whether metrics are objectives or not; first trials are no matter of this function.

    Returns
    -------
    SurrogateSpec
        The specification. It names covariances by fingerprint: a process that loads it must have them, through
        `use_pretrained`, this function, or an experiment that carries them.

    Raises
    ------
    MkboError
        If the search space and a covariance do not fit together, `form` is unknown, or `direction` is not as described.
    """
    rename, fixed = as_pairs(rename, fixed)
    known = known_directions(direction, cov, form)
    if not isinstance(cov, Mapping):
        configs = _model_configs(cov, search_space, form, rename, fixed, select, known.get(OBJECTIVE))
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
            name: _model_configs(one, search_space, form, *parts[name], select, known.get(name))
            for name, one in cov.items()
        },
        eval_criterion="Log likelihood",
    )


def as_pairs(
    rename: Mapping[str, str] | None, fixed: Mapping[str, Any] | None
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return `rename` and `fixed` as they are stored.

    Raises
    ------
    SpaceError
        If one is no mapping, or `rename` is not of names.
    """
    check_mapping("rename", rename)
    check_mapping("fixed", fixed)
    strange = [name for pair in (rename or {}).items() for name in pair if not isinstance(name, str)]
    if strange:
        raise SpaceError(f"rename must be of names, got {strange}")
    return dict(rename or {}), dict(fixed or {})


def known_directions(
    direction: Directions | Mapping[str, Directions], cov: Covariances, form: str
) -> dict[str, Directions]:
    """Return directions by metric, `OBJECTIVE` standing for the one without a name, those that are unknown left out.

    Raises
    ------
    MkboError
        If a mapping names a metric that has no covariance, or a direction is not as described or cannot be used with
        the form.
    """
    covs = cov if isinstance(cov, Mapping) else {OBJECTIVE: cov}
    if isinstance(direction, Mapping):
        strange = [metric for metric in direction if metric not in covs or metric == OBJECTIVE]
        if strange:
            given = "one covariance without a name" if OBJECTIVE in covs else f"covariances of {list(covs)}"
            raise MkboError(f"direction names {strange}, but there are {given}; name the same metrics in cov={{...}}")
        directions = dict(direction)
    else:
        directions = dict.fromkeys(covs, direction)
    return {metric: said for metric, said in directions.items() if covs[metric].is_directed(said, form)}


def _model_configs(
    cov: Covariance,
    search_space: SearchSpace,
    form: str,
    rename: Mapping[str, str],
    fixed: Mapping[str, Any],
    select: bool,
    direction: Directions | None,
) -> list[ModelConfig]:
    stock = ModelConfig(name=STOCK)
    chosen = cov.form(form)
    names = target_names(cov.space, search_space, rename, fixed)
    cov = for_levels(cov, levels(search_space, names, fixed))
    found = encodings(cov.space, search_space, names, fixed)
    if form == "stock":
        return [stock]
    fingerprint = remember(cov)
    described = [p.name for p in cov.space.parameters if isinstance(p, Described) and column_names(found[p.name])]
    # Columns that are no inputs of the stock covariance, descriptors being so in place of their levels.
    covered = sorted(
        {column for name in (described if chosen.uses_stock else found) for column in column_names(found[name])}
    )
    shared = {"fingerprint": fingerprint, "covered": covered}
    if described and chosen.uses_stock:
        shared["described"] = described
    pretrained = ModelConfig(
        botorch_model_class=LogNoiseGP if direction is None else DirectedGP,
        model_options={} if direction is None else {"fingerprint": fingerprint, "direction": direction},
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
