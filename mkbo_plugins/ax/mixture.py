"""The kernel mixture, a baseline, in Ax's experiments."""

from collections.abc import Mapping
from typing import Any

from ax.api.client import Client
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.service.ax_client import AxClient

from mkbo_plugins.ax.strategy import use_pretrained
from mkbo_plugins.core.mixture.parts import PART
from mkbo_plugins.covariance.mixture import MixtureCovariance


def use_mixture(
    client: Client | AxClient,
    mixture: MixtureCovariance | Mapping[str, MixtureCovariance],
    *,
    initial_trials: int = 5,
    rename: Mapping[str, str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    select: bool = False,
    seed: int = 0,
) -> GenerationStrategy:
    """Make an experiment use a kernel mixture fitted to a table from its next suggestion on.

    Mapping of names, storage and resumption are those of `use_pretrained`.

    Parameters
    ----------
    client, initial_trials, rename, fixed, select, seed
        As for `use_pretrained`.
    mixture
        The mixture for the only objective, or one for each of several metrics by their names.

    Raises
    ------
    MkboError
        If an argument is not as described, or a mixture does not fit the experiment.
    """
    return use_pretrained(
        client,
        mixture,
        form=PART,
        initial_trials=initial_trials,
        rename=rename,
        fixed=fixed,
        select=select,
        seed=seed,
    )
