"""Generation strategies with pre-trained covariances, and switching an experiment to one."""

from collections.abc import Mapping
from typing import Any

from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.core.experiment_status import ExperimentStatus
from ax.core.search_space import SearchSpace
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MaxTrialsAwaitingData
from ax.service.ax_client import AxClient

from mkbo_plugins.ax.nodes import OBJECTIVE, PretrainedNode, TableDesignNode, covered_metrics, enough_trials
from mkbo_plugins.ax.storage import attach, remember
from mkbo_plugins.ax.surrogate import pretrained_surrogate_spec
from mkbo_plugins.core.forms import get_form
from mkbo_plugins.errors import MkboError
from mkbo_plugins.pretrained import Direction, PretrainedCovariance

Covariances = PretrainedCovariance | Mapping[str, PretrainedCovariance]


def pretrained_generation_strategy(
    cov: Covariances,
    search_space: SearchSpace | None = None,
    form: str = "transfer",
    *,
    initial_trials: int = 5,
    direction: Direction = "unknown",
    rename: Mapping[str, str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    select: bool = False,
    seed: int = 0,
) -> GenerationStrategy:
    """Return a generation strategy: first trials, then Bayesian optimisation with pre-trained covariances.

    It finds parameters and objectives in the experiment it is used for, whenever it makes a suggestion. Experiments
    in a database should take it through `use_pretrained`, which stores the covariances there.

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
    _check(covs, form, initial_trials, direction)
    rename, fixed = dict(rename or {}), dict(fixed or {})
    if search_space is not None:
        pretrained_surrogate_spec(covs, search_space, form, rename=rename, fixed=fixed)
    fingerprints = {metric: remember(one) for metric, one in covs.items()}
    node = PretrainedNode(fingerprints, form, rename, fixed, select, seed)
    nodes: list[GenerationNode] = [node]
    if direction != "unknown":
        ((metric, fingerprint),) = fingerprints.items()
        nodes = [TableDesignNode(metric, fingerprint, direction, rename, fixed, initial_trials, node.name, seed), node]
    elif initial_trials > 0:
        nodes = [_sobol_node(initial_trials, node.name, seed), node]
    return GenerationStrategy(nodes=nodes)


def use_pretrained(
    client: Client | AxClient,
    cov: Covariances,
    form: str = "transfer",
    *,
    initial_trials: int = 5,
    direction: Direction = "unknown",
    rename: Mapping[str, str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    select: bool = False,
    seed: int = 0,
) -> GenerationStrategy:
    """Make an experiment use pre-trained covariances from its next suggestion on, at its start or while it runs.

    Trials and data stay as they are, pending trials included. The covariances are stored with the experiment.

    Parameters
    ----------
    client
        A client with an experiment that has an objective.
    cov
        The covariance for the only objective, or one for each of several metrics by their names. Metrics without one,
        objectives and constraints alike, get Ax's own model.
    form
        Covariance model, as `mkbo_plugins.core.forms` names them; ``"stock"`` goes back to Ax's own model.
    initial_trials
        Number of trials before the first model, those already in the experiment counted; space-filling (Sobol) unless
        `direction` says otherwise. With 0 and a direction, the table serves until a first trial has data.
    direction
        ``"same"`` if the metric grows with the table's target, ``"opposite"`` if it falls with it: the first trials
        are then designed from the table, for whichever of large and small the experiment looks for.
        ``"unknown"`` if neither is known. Needed for a single covariance only.
    rename
        Pairs of a name in the table and a name in the experiment, either way round.
    fixed
        Values of the table's parameters that the experiment does not have, by the table's name.
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
    """
    if not isinstance(client, (Client, AxClient)):
        raise MkboError(f"client must be an Ax Client or AxClient, got {type(client).__name__}")
    experiment = client._experiment
    if experiment is None:
        raise MkboError("the client has no experiment yet; call create_experiment first")
    strategy = pretrained_generation_strategy(
        cov,
        experiment.search_space,
        form,
        initial_trials=initial_trials,
        direction=direction,
        rename=rename,
        fixed=fixed,
        select=select,
        seed=seed,
    )
    covered_metrics(experiment, dict.fromkeys(cov if isinstance(cov, Mapping) else [OBJECTIVE], ""))
    for one in cov.values() if isinstance(cov, Mapping) else [cov]:
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


def _check(covs: Mapping[str, PretrainedCovariance], form: str, initial_trials: int, direction: str) -> None:
    get_form(form)
    strange = next((one for one in covs.values() if not isinstance(one, PretrainedCovariance)), None)
    if strange is not None or not covs:
        raise MkboError(
            f"cov must be a PretrainedCovariance, or a mapping of metric names to some, got {type(strange).__name__}; "
            "read a file with PretrainedCovariance.load"
        )
    if isinstance(initial_trials, bool) or not isinstance(initial_trials, int) or initial_trials < 0:
        raise MkboError(f"initial_trials must be a whole number of at least 0, got {initial_trials!r}")
    if direction not in ("same", "opposite", "unknown"):
        raise MkboError(f"direction must be 'same', 'opposite' or 'unknown', got {direction!r}")
    if direction != "unknown" and len(covs) > 1:
        raise MkboError(
            f"direction can be said of one covariance only, got those of {list(covs)}; leave the first trials to Sobol"
        )


def _sobol_node(trials: int, next_node: str, seed: int) -> GenerationNode:
    return GenerationNode(
        name="Sobol",
        generator_specs=[GeneratorSpec(generator_enum=Generators.SOBOL, generator_kwargs={"seed": seed})],
        transition_criteria=enough_trials(trials, next_node, observed=max(1, trials // 2)),
        pausing_criteria=[
            MaxTrialsAwaitingData(
                threshold=trials,
                not_in_statuses=[TrialStatus.FAILED, TrialStatus.ABANDONED],
                use_all_trials_in_exp=True,
            )
        ],
        should_deduplicate=True,
        suggested_experiment_status=ExperimentStatus.INITIALIZATION,
    )
