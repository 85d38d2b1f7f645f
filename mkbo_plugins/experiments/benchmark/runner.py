"""All campaigns of a benchmark, finished ones being kept on disk."""

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import zip_longest
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

from mkbo_plugins.covariance.pretrained import PretrainedCovariance
from mkbo_plugins.errors import MkboError
from mkbo_plugins.experiments.benchmark.campaign import ACQUISITIONS, STARTS, Record, run_lookup
from mkbo_plugins.experiments.benchmark.drawn import drawn_pairs, drawn_problem
from mkbo_plugins.experiments.benchmark.first_trials import from_table, space_filling
from mkbo_plugins.experiments.benchmark.lookup import Lookup, train
from mkbo_plugins.experiments.benchmark.metrics import measure
from mkbo_plugins.experiments.benchmark.models import MODELS, WITHOUT_FRAME, WITHOUT_TABLE
from mkbo_plugins.experiments.benchmark.problems import CONTROLS, Problem
from mkbo_plugins.experiments.benchmark.simulated import SIMULATED, simulated
from mkbo_plugins.experiments.benchmark.synthetic import FAMILIES
from mkbo_plugins.experiments.benchmark.tables import FRESH, TUNING, real_problem
from mkbo_plugins.experiments.store import RunStore, file_name, make_folder
from mkbo_plugins.files import write_atomically
from mkbo_plugins.messages.progress import progress_bar
from mkbo_plugins.space.parameters import Frame

CLAIM_MEMBERS, CLAIM_SEEDS = 100, 1000
"""First member and first seed of a claim, which no choice was made on."""

MEMBERS = {"synthetic": 4, "real": 2}

ANALYTIC: Mapping[str, Callable[[int], Problem]] = MappingProxyType({**FAMILIES, SIMULATED: simulated})
"""Function from the number of a member to its problem, by name of what needs no tables."""


@dataclass(frozen=True)
class Plan:
    """What is run.

    Parameters
    ----------
    problems
        Names of families and pairs.
    models
        Names of models; ``"random"`` is one of them.
    seeds
        Paired seeds for each problem.
    trials
        Trials after the starting points.
    claim
        Use members and seeds that no choice was made on.
    trainer
        Trainer of the covariances.
    acquisition
        ``"ei"``, expected improvement, or ``"ucb"``, GP-UCB with its published schedule.
    frame
        Frame of the covariances.
    repeats
        Whether a candidate may be tried again.
    own_starts
        Whether methods choose their starting points, by the table or filling the space, and these count as trials.
    control
        What is done to every table, one of `CONTROLS`; None leaves them as they are.
    """

    problems: tuple[str, ...]
    models: tuple[str, ...]
    seeds: int
    trials: int = 30
    claim: bool = False
    trainer: str = "gp"
    acquisition: str = "ei"
    frame: Frame = "centred"
    repeats: bool = False
    own_starts: bool = False
    control: str | None = None

    def member(self, problem: str, seed: int) -> int:
        """Return which member of a family a seed meets; in the simulated experiment each seed has its own."""
        if problem == SIMULATED:
            return self.seed(seed)
        kind = "synthetic" if problem in FAMILIES else "real"
        return (CLAIM_MEMBERS if self.claim else 0) + seed % MEMBERS[kind]

    def seen_by(self, model: str) -> "Plan":
        """Return the plan, with the usual frame for a model to which frames make no difference."""
        return replace(self, frame="centred") if model in WITHOUT_FRAME else self

    @property
    def uncounted(self) -> int:
        """Number of starting points that are no trials."""
        return 0 if self.own_starts else STARTS

    def seed(self, seed: int) -> int:
        """Return the seed itself, or one kept for claims."""
        return seed + (CLAIM_SEEDS if self.claim else 0)


def training_name(trainer: str, frame: Frame) -> str:
    """Return trainer and frame as the names of stored results have them, the usual frame going without saying."""
    return trainer if frame == "centred" else f"{trainer}_{frame}"


def drawn_names(data: Path, count: int, *, claim: bool) -> tuple[str, ...]:
    """Return pairs of tasks drawn at random, from the half to choose on or the one to claim on, families in turn.

    Raises
    ------
    MkboError
        If there are fewer.
    """
    half = "claim" if claim else "choose"
    by_family: dict[str, list[str]] = {}
    for pair in drawn_pairs(data):
        if pair.half == half:
            by_family.setdefault(pair.family, []).append(pair.name)
    names = [name for turn in zip_longest(*by_family.values()) for name in turn if name is not None]
    if len(names) < count:
        raise MkboError(f"--pairs asks for {count} pairs, and this half of those drawn has {len(names)}; ask for fewer")
    return tuple(names[:count])


def problem_names(data: Path | None, *, claim: bool) -> tuple[str, ...]:
    """Return the families, and the pairs too where there is a folder of tables."""
    pairs = [] if data is None else [*TUNING, *(FRESH if claim else ())]
    return (*FAMILIES, *pairs)


@lru_cache(maxsize=8)
def make_problem(name: str, member: int, data: Path | None, control: str | None = None) -> Problem:
    """Return a member of a family or a pair of tables, with the table of a control if one is named."""
    if control is not None:
        return CONTROLS[control](make_problem(name, member, data))
    if name in ANALYTIC:
        return ANALYTIC[name](member)
    assert data is not None
    make = real_problem if name in (*TUNING, *FRESH) else drawn_problem
    return make(name, data, member)


@lru_cache(maxsize=2)
def load(name: str, member: int, plan: Plan, data: Path | None, folder: Path) -> Lookup:
    """Return a problem with the covariance pre-trained on its table, training it the first time."""
    problem = make_problem(name, member, data, plan.control)
    kept = folder / file_name(f"{problem.name}_{training_name(plan.trainer, plan.frame)}")
    make_folder(kept)
    path = kept / "covariance.mkbo.json"
    if not path.exists():
        train(problem, plan.trainer, plan.frame).save(path)
    cov = PretrainedCovariance.load(path)
    grams = kept / cov.fingerprint[:12]
    make_folder(grams)
    return Lookup(problem, cov, grams)


def _run(name: str, member: int, model: str, seed: int, plan: Plan, data: Path | None, folder: Path) -> Record:
    lookup = load(name, member, plan, data, folder)
    starts = None
    if plan.own_starts:
        starts = space_filling(lookup, STARTS, seed) if model in WITHOUT_TABLE else from_table(lookup, STARTS)
    acquisition = ACQUISITIONS[plan.acquisition]
    return run_lookup(lookup, MODELS.get(model), seed, plan.trials, acquisition, repeats=plan.repeats, starts=starts)


def run(plan: Plan, out: Path, data: Path | None, *, n_jobs: int, show: bool = True) -> pd.DataFrame:
    """Run what is missing and return one row per campaign with its measures."""
    return run_all([plan], out, data, n_jobs=n_jobs, show=show)[0]


def run_all(
    plans: Sequence[Plan], out: Path, data: Path | None, *, n_jobs: int, show: bool = True
) -> list[pd.DataFrame]:
    """Run what is missing and return for each plan one row per campaign with its measures.

    A campaign is written as a whole when it ends, so that a process killed at any moment loses at most the campaigns
    under way, and the same call goes on.

    Raises
    ------
    MkboError
        If a table is missing or lacks columns, or the folder holds results from other tables.
    """
    knowledge = out / "knowledge"
    make_folder(knowledge)
    used = {(name, plan.member(name, seed)) for plan in plans for name in plan.problems for seed in range(plan.seeds)}
    for name, member in sorted(used):
        if name not in ANALYTIC:
            _check_same_data(make_problem(name, member, data), knowledge)
    store = RunStore(out / "campaigns", Record)
    jobs: dict[tuple[Hashable, ...], Callable[[], Record]] = {
        campaign_key(plan, name, model, seed): partial(
            _run, name, plan.member(name, seed), model, plan.seed(seed), plan.seen_by(model), data, knowledge
        )
        for plan in plans
        for name in plan.problems
        for seed in range(plan.seeds)
        for model in plan.models
    }
    # Campaigns with one covariance lie together, so that workers load each few times.
    jobs = dict(sorted(jobs.items(), key=lambda job: tuple(map(str, job[0][:3]))))
    with progress_bar("campaigns", show=show) as report:
        records = store.complete(jobs, n_jobs=n_jobs, report=report)
    return [_measures(plan, records, data) for plan in plans]


def _check_same_data(problem: Problem, kept: Path) -> None:
    """Keep a digest of what the tables give, or raise a `MkboError` if there is one of other tables."""
    parts = (problem.source_points, problem.source_y, problem.pool_points, problem.outcome)
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(part, dtype=float).tobytes() for part in parts)).hexdigest()
    path = kept / file_name(f"{problem.name}.sha256")
    if not path.exists():
        write_atomically(path, digest.encode())
    elif path.read_text() != digest:
        raise MkboError(
            f"{kept.parent} holds results of {problem.name} from other tables than those of --data; name another "
            "folder with --out"
        )


def _measures(plan: Plan, records: Mapping[tuple[Hashable, ...], Record], data: Path | None) -> pd.DataFrame:
    rows = []
    for name in plan.problems:
        for seed in range(plan.seeds):
            problem = make_problem(name, plan.member(name, seed), data)
            for model in plan.models:
                record = records[campaign_key(plan, name, model, seed)]
                rows.append(
                    {
                        "problem": name,
                        "model": model,
                        "seed": plan.seed(seed),
                        **measure(problem, record, plan.uncounted),
                    }
                )
    return pd.DataFrame(rows)


def campaign_key(plan: Plan, problem: str, model: str, seed: int) -> tuple[Hashable, ...]:
    """Return the key under which a campaign is stored."""
    training = training_name(plan.trainer, plan.seen_by(model).frame)
    flags = ("repeats" if plan.repeats else "", "own_starts" if plan.own_starts else "", plan.control or "")
    search = "_".join(filter(None, (plan.acquisition, *flags)))
    return problem, plan.member(problem, seed), training, search, model, plan.trials, plan.seed(seed)


def curves(
    plan: Plan,
    out: Path,
    data: Path | None,
    problem: str,
    models: Sequence[str],
    loss: Callable[[Problem], np.ndarray] = attrgetter("regret"),
) -> dict[str, np.ndarray]:
    """Return the least loss until after each trial, (seeds, trials), by model, of finished campaigns.

    Parameters
    ----------
    plan, out, data
        As for `run`.
    problem, models
        Names.
    loss
        Function of a problem to the loss of each candidate, (M,).
    """
    store = RunStore(out / "campaigns", Record)
    found: dict[str, list[np.ndarray]] = {model: [] for model in models}
    for seed in range(plan.seeds):
        member = plan.member(problem, seed)
        losses = loss(make_problem(problem, member, data))
        for model in models:
            record = store.get(campaign_key(plan, problem, model, seed))
            if record is not None:
                found[model].append(np.minimum.accumulate(losses[list(record.indices)])[max(plan.uncounted - 1, 0) :])
    return {model: np.array(values) for model, values in found.items() if values}
