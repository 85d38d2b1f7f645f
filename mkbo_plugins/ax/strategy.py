"""Generation strategies with pre-trained covariances, and switching an experiment to one."""

from collections.abc import Mapping
from typing import Any

from ax.api.client import Client
from ax.core.search_space import SearchSpace
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.service.ax_client import AxClient

from mkbo_plugins.ax.constraints import warn_of_lost_in_experiment
from mkbo_plugins.ax.encoding import concerning, ranges
from mkbo_plugins.ax.first_trials import SobolNode, TableDesignNode
from mkbo_plugins.ax.levels import experiment_levels
from mkbo_plugins.ax.metrics import covered_metrics, objective_signs
from mkbo_plugins.ax.nodes import PretrainedNode
from mkbo_plugins.ax.storage import attach, is_whole, remember
from mkbo_plugins.ax.surrogate import OBJECTIVE, Covariances, as_pairs, known_directions, pretrained_surrogate_spec
from mkbo_plugins.core.forms import DEFAULT_FORM, get_form
from mkbo_plugins.core.mixture.parts import PART
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.covariance.directions import Directions
from mkbo_plugins.covariance.mixture import MixtureCovariance
from mkbo_plugins.covariance.target import for_levels, warn_of_new_levels
from mkbo_plugins.errors import MkboError, SpaceError
from mkbo_plugins.tables.ranges import warn_of_units


def pretrained_generation_strategy(
    cov: Covariances,
    search_space: SearchSpace | None = None,
    form: str = DEFAULT_FORM,
    *,
    initial_trials: int = 5,
    direction: Directions | Mapping[str, Directions] = "unknown",
    rename: Mapping[str, str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    select: bool = False,
    seed: int = 0,
) -> GenerationStrategy:
    """Return a generation strategy: first trials, then Bayesian optimisation with pre-trained covariances.

    It finds parameters and objectives in the experiment it is used for, whenever it makes a suggestion. A covariance
    without a metric belongs to what is the only objective at the first suggestion from it. Experiments in a database
    should take it through `use_pretrained`, which stores the covariances there.

    Parameters
    ----------
    cov, form, initial_trials, direction, rename, fixed, select, seed
        As for `use_pretrained`.
    search_space
        Search space to check the covariances against at once; None leaves this to the first suggestion.

    Raises
    ------
    MkboError
        If an argument is not as described, or a covariance and the search space do not fit together.
    """
    covs = dict(cov) if isinstance(cov, Mapping) else {OBJECTIVE: cov}
    _check(covs, form, initial_trials, seed)
    directions = known_directions(direction, covs, form)
    rename, fixed = as_pairs(rename, fixed)
    known_names = {name for one in covs.values() for name in one.space.names}
    strange = [name for name in fixed if name not in known_names]
    strange += [name for name, other in rename.items() if not known_names.intersection((name, other))]
    if strange:
        raise SpaceError(
            f"rename and fixed hold {strange}, which no covariance has; the covariances have {sorted(known_names)}"
        )
    if search_space is not None:
        _check_space(covs, search_space, form, rename, fixed)
    fingerprints = {metric: remember(one) for metric, one in covs.items()}
    node = PretrainedNode(fingerprints, form, rename, fixed, select, seed, directions)
    nodes: list[GenerationNode] = [node]
    if directions:
        known = {metric: fingerprints[metric] for metric in directions}
        nodes = [TableDesignNode(known, directions, rename, fixed, initial_trials, node.name, seed), node]
    elif initial_trials > 0:
        nodes = [SobolNode(initial_trials, node.name, seed), node]
    return GenerationStrategy(nodes=nodes)


def use_pretrained(
    client: Client | AxClient,
    cov: Covariances,
    form: str = DEFAULT_FORM,
    *,
    initial_trials: int = 5,
    direction: Directions | Mapping[str, Directions] = "unknown",
    rename: Mapping[str, str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    select: bool = False,
    seed: int = 0,
) -> GenerationStrategy:
    """Make an experiment use pre-trained covariances from its next suggestion on, at its start or while it runs.

    Trials and data stay as they are, pending trials included. The covariances are stored with the experiment. Loaded
    from JSON or a database, it makes the same next suggestion as it would have made: Ax stores data with ten decimals,
    and models see no more of them. Only of metrics that vary by less than 1e-5, which should have another unit, they
    see all digits until the experiment is loaded.

    Parameters
    ----------
    client
        A client with an experiment that has an objective.
    cov
        The covariance for the only objective, or one for each of several metrics by their names. Metrics without one,
        objectives and constraints alike, get Ax's own model. A covariance stays with its metric if the objective is
        changed later.
    form
        Covariance model, as `mkbo_plugins.core.forms` names them; ``"stock"`` goes back to Ax's own model.
    initial_trials
        Number of trials before the first model, those already in the experiment counted; space-filling (Sobol) unless
        `direction` says otherwise. With 0 and a direction, the table serves until a first trial has data.
    direction
        ``"same"`` if a large table target speaks for a large metric, ``"opposite"`` if for a small one, ``"unknown"``
        if neither is known. It is about the metric and not about what makes a good experiment, as it is in
        `PretrainedCovariance.starting_points`: whether large or small is wanted, the experiment knows. The first trials
        are then designed from the table; with several objectives, along the Pareto front that their tables predict.
        Later on, the mean of the standardised metric is a learned constant plus, or minus, half the table's
        standardised prediction, as in `mkbo_plugins.botorch.pretrained_gp`. With ``form="stock"``, it must be unknown.
        One word for all covariances, or a mapping of names of objectives to words, in which those left out are unknown;
        of a covariance of several tables, a sequence of words, one for each.
    rename
        Pairs of a name in the table and a name in the experiment, either way round; each covariance takes those of its
        own parameters.
    fixed
        Values of the table's parameters that the experiment does not have, by the table's name; likewise.
    select
        Whether Ax chooses between this model and its own for each metric, by held-out log likelihood.
    seed
        Seed of all suggestions.

    Returns
    -------
    GenerationStrategy
        The strategy now in use.

    Raises
    ------
    MkboError
        If an argument is not as described, or a covariance does not fit the experiment.

    Warns
    -----
    TableWarning
        If bounds in the experiment are unlikely to be in the units of the table; see
        `mkbo_plugins.tables.ranges.warn_of_units`. If the experiment does not keep a constraint of the table's space,
        or a choice has levels that the table lacks, see `PretrainedCovariance.with_levels`.
    """
    if not isinstance(client, (Client, AxClient)):
        raise MkboError(f"client must be an Ax Client or AxClient, got {type(client).__name__}")
    experiment = client._experiment
    if experiment is None:
        raise MkboError("the client has no experiment yet; call create_experiment first")
    covs = dict(cov) if isinstance(cov, Mapping) else {OBJECTIVE: cov}
    rename, fixed = as_pairs(rename, fixed)
    _check(covs, form, initial_trials, seed)
    directions = covered_metrics(experiment, known_directions(direction, covs, form))
    covs = covered_metrics(experiment, covs)
    objective_signs(experiment, directions)
    strategy = pretrained_generation_strategy(
        covs,
        None,
        form,
        initial_trials=initial_trials,
        direction=directions,
        rename=rename,
        fixed=fixed,
        select=select,
        seed=seed,
    )
    _check_space(covs, experiment.search_space, form, rename, fixed)
    for one in covs.values():
        attach(experiment, one)
    client._save_experiment_to_db_if_possible(experiment=experiment)
    if isinstance(client, Client):
        client.set_generation_strategy(strategy)
    else:
        # AxClient has no setter.
        client._generation_strategy = strategy
        strategy.experiment = experiment
        client._save_generation_strategy_to_db_if_possible()
    return strategy


def use_mixture(
    client: Client | AxClient, mixture: MixtureCovariance | Mapping[str, MixtureCovariance], **options: Any
) -> GenerationStrategy:
    """Make an experiment use a kernel mixture fitted to a table, in the only form that it has; see `use_pretrained`.

    Parameters
    ----------
    client, mixture
        As `client` and `cov` of `use_pretrained`.
    **options
        Further keyword arguments of it; a mixture predicts nothing, so that no direction is known.
    """
    return use_pretrained(client, mixture, PART, **options)


def _check(covs: Mapping[str, Covariance], form: str, initial_trials: int, seed: int) -> None:
    get_form(form)
    strange = [type(one).__name__ for one in covs.values() if not isinstance(one, Covariance)]
    if strange or not covs:
        raise MkboError(
            f"cov must be a PretrainedCovariance, or a mapping of metric names to some, got {strange or 'none'}; "
            "read a file with PretrainedCovariance.load"
        )
    for name, value in {"initial_trials": initial_trials, "seed": seed}.items():
        if not is_whole(value):
            raise MkboError(f"{name} must be a whole number of at least 0, got {value!r}")


def _check_space(
    covs: Mapping[str, Covariance],
    search_space: SearchSpace,
    form: str,
    rename: Mapping[str, str],
    fixed: Mapping[str, Any],
) -> None:
    """Check covariances against a search space, for the function that the user called."""
    pretrained_surrogate_spec(covs, search_space, form, rename=rename, fixed=fixed)
    for cov in {one.fingerprint: one for one in covs.values()}.values():
        own = concerning(cov.space, search_space, rename, fixed)
        warn_of_units(cov.space, ranges(cov.space, search_space, *own), own[1], stacklevel=3)
        known = experiment_levels(cov, search_space, rename, fixed)
        warn_of_lost_in_experiment(for_levels(cov, known).space, search_space, *own, stacklevel=3)
        warn_of_new_levels(cov, known, stacklevel=3)
