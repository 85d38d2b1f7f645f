"""The command ``mkbo benchmark``."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.markdown import Markdown

from mkbo_plugins.errors import MkboError
from mkbo_plugins.files import write_atomically
from mkbo_plugins.messages.commands import GOES_ON, plain_errors

SMOKE_SEEDS, CLAIM_SEEDS, TUNING_SEEDS = 2, 40, 16
SMOKE_PROBLEMS = ("rotation", "branin", "hartmann3_negated")
TRIALS, SMOKE_TRIALS = 30, 15
PAPER_SEEDS = 10


class Search(NamedTuple):
    """How campaigns search; fields as of `Plan`."""

    trainer: str
    acquisition: str
    repeats: bool
    own_starts: bool


def benchmark(
    out: Annotated[Path, typer.Option(help="Folder for runs and results; the same command goes on in it.")],
    data: Annotated[Path | None, typer.Option(help="Folder with the real tables; none leaves them out.")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="A few problems, seeds and trials: minutes.")] = False,
    claim: Annotated[bool, typer.Option("--claim", help="Fresh members, pairs and seeds, 40 of them: hours.")] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="Analogues of the paper's three experiments: minutes.")
    ] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Paired seeds instead of the usual number.")] = None,
    problem: Annotated[list[str] | None, typer.Option(help="Only this problem; repeat for several.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="Only this model; repeat for several.")] = None,
    trainer: Annotated[
        str | None,
        typer.Option(help="Trainer of the covariances: gp, svm, or svm_iso (one length scale, as in the paper)."),
    ] = None,
    acquisition: Annotated[
        str | None, typer.Option(help="Expected improvement: ei (usual), noisy nei; or GP-UCB: ucb.")
    ] = None,
    repeats: Annotated[
        bool, typer.Option("--repeats", help="A candidate may be tried again, as in a search of a continuous space.")
    ] = False,
    pairs: Annotated[
        int | None, typer.Option(min=1, help="Instead of the usual problems, so many pairs of tasks drawn from --data.")
    ] = None,
    own_starts: Annotated[
        bool, typer.Option("--own-starts", help="Methods choose their starting points, which count as trials.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="Parallel processes; -1 for all cores.")] = -1,
) -> None:
    """Compare pre-trained covariances with their peers on synthetic families and pairs of real tables.

    Example: mkbo benchmark --smoke --out bench

    With --paper, the three experiments of Shilton et al., arXiv 1802.05370: a rotated function, two devices, and alloys
    with a utility of their phases. The paper's data are private, so public ones stand for them; without --data, only
    the first is run.
    """
    console = Console()
    with plain_errors(GOES_ON):
        if paper:
            choices: dict[str, object] = {"--smoke": smoke, "--claim": claim, "--problem": problem, "--model": model}
            choices |= {"--pairs": pairs, "--own-starts": own_starts}
            _check_alone(choices | {"--acquisition": acquisition, "--repeats": repeats})
            _paper(console, out, data, PAPER_SEEDS if seeds is None else seeds, trainer, jobs)
        else:
            search = Search(trainer or "gp", acquisition or "ei", repeats, own_starts)
            _benchmark(console, out, data, smoke, claim, seeds, problem, pairs, model, search, jobs)


def _benchmark(
    console: Console,
    out: Path,
    data: Path | None,
    smoke: bool,
    claim: bool,
    seeds: int | None,
    problem: list[str] | None,
    pairs: int | None,
    model: list[str] | None,
    search: Search,
    jobs: int,
) -> None:
    from mkbo_plugins.experiments.benchmark.campaign import ACQUISITIONS
    from mkbo_plugins.experiments.benchmark.lookup import TRAINERS
    from mkbo_plugins.experiments.benchmark.metrics import compare, over_problems
    from mkbo_plugins.experiments.benchmark.models import MODELS
    from mkbo_plugins.experiments.benchmark.report import write_report
    from mkbo_plugins.experiments.benchmark.runner import Plan, curves, drawn_names, problem_names, run
    from mkbo_plugins.experiments.store import make_folder

    if smoke and claim:
        raise MkboError("--smoke and --claim exclude each other; choose one")
    if pairs is not None and (data is None or problem):
        raise MkboError("--pairs draws problems from the folder of --data: it needs that and excludes --problem")
    known = problem_names(data, claim=claim) if data is None or pairs is None else drawn_names(data, pairs, claim=claim)
    problems = _chosen("--problem", problem, known, SMOKE_PROBLEMS if smoke and pairs is None else known)
    models = _chosen("--model", model, ("random", *MODELS), ("random", *MODELS))
    if "stock" not in models:
        models = ("stock", *models)
    count = seeds or (SMOKE_SEEDS if smoke else CLAIM_SEEDS if claim else TUNING_SEEDS)
    _chosen("--trainer", [search.trainer], tuple(TRAINERS), ())
    _chosen("--acquisition", [search.acquisition], tuple(ACQUISITIONS), ())
    trials = SMOKE_TRIALS if smoke else TRIALS
    plan = Plan(problems, models, count, trials, claim, **search._asdict())
    make_folder(out)
    console.print(
        f"{len(problems)} problems, {len(models)} models, {count} seeds: {len(problems) * len(models) * count} "
        "campaigns; those finished before are used",
        highlight=False,
    )
    runs = run(plan, out, data, n_jobs=jobs)
    write_atomically(out / "runs.csv", runs.to_csv(index=False).encode())
    shown = [name for name in models if name != "random"]
    regret = {name: curves(plan, out, data, name, shown) for name in problems}
    fresh = ", on members, pairs and seeds that no choice was made on" if claim else ""
    starts = "their own" if search.own_starts else "random"
    heading = (
        f"{len(problems)} problems, {count} paired seeds, {plan.trials} trials after 3 {starts} starts{fresh}; "
        f"table trained by {search.trainer}, acquisition {search.acquisition}"
        f"{', candidates may be tried again' if search.repeats else ''}."
    )
    differences = over_problems(runs)
    console.print(Markdown(write_report(compare(runs), differences, regret, out, heading)))
    console.print(
        f"Every problem is in {out.resolve() / 'report.md'}, plots and tables beside it",
        highlight=False,
        soft_wrap=True,
    )


def _check_alone(choices: dict[str, object]) -> None:
    given = [option for option, value in choices.items() if value]
    if given:
        raise MkboError(f"--paper says what is run, so {given} cannot be chosen; leave them out")


def _paper(console: Console, out: Path, data: Path | None, seeds: int, trainer: str | None, jobs: int) -> None:
    from mkbo_plugins.experiments.benchmark.lookup import TRAINERS
    from mkbo_plugins.experiments.benchmark.paper import EXPERIMENTS, ROTATION, TRAINER, run_paper
    from mkbo_plugins.experiments.benchmark.paper_report import write_paper
    from mkbo_plugins.experiments.benchmark.phases import regress_phases
    from mkbo_plugins.experiments.store import make_folder

    trainer = trainer or TRAINER
    _chosen("--trainer", [trainer], tuple(TRAINERS), ())
    make_folder(out)
    phases, left_out = None, ""
    if data is not None:
        phases = regress_phases(data)
    else:
        others = [name for name in EXPERIMENTS if name != ROTATION]
        left_out = f" Only {ROTATION} was run; the others, {others}, need tables: --data names their folder."
    results = run_paper(out, data, seeds=seeds, trials=TRIALS, n_jobs=jobs, trainer=trainer)
    heading = (
        f"{seeds} paired seeds, {TRIALS} trials after 3 random starting points; table trained by {trainer}.{left_out}"
    )
    console.print(Markdown(write_paper(results, phases, out, heading)))
    console.print(f"Tables and figures are in {out.resolve()}", highlight=False, soft_wrap=True)


def _chosen(option: str, given: list[str] | None, known: tuple[str, ...], usual: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [name for name in given or () if name not in known]
    if unknown:
        raise MkboError(f"{option} names {unknown}; known here are {list(known)}")
    return tuple(given) if given else usual
