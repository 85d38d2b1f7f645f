"""The command ``mkbo benchmark``."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markdown import Markdown

from mkbo_plugins.errors import MkboError
from mkbo_plugins.files import write_atomically
from mkbo_plugins.messages.commands import GOES_ON, plain_errors
from mkbo_plugins.messages.terminal import Terminal

if TYPE_CHECKING:
    from mkbo_plugins.experiments.benchmark.runner import Plan

SMOKE_SEEDS, CLAIM_SEEDS, TUNING_SEEDS = 2, 40, 16
SMOKE_PROBLEMS = ("rotation", "branin", "hartmann3_negated")
TRIALS, SMOKE_TRIALS = 30, 15


def benchmark(
    out: Annotated[Path, typer.Option(help="Folder for runs and results; the same command goes on in it.")],
    data: Annotated[Path | None, typer.Option(help="Folder with the real tables; none leaves them out.")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="A few problems, seeds and trials: minutes.")] = False,
    claim: Annotated[bool, typer.Option("--claim", help="Fresh members, pairs and seeds, 40 of them: hours.")] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's three experiments, two on analogues of its data: minutes.")
    ] = False,
    published: Annotated[
        str | None,
        typer.Option(help="Libraries of earlier campaigns on a public benchmark: salinas or lcbench. Hours."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Paired seeds instead of the usual number.")] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Trials after the three starting points, instead of 30 (15 with --smoke).")
    ] = None,
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
    control: Annotated[
        str | None, typer.Option(help="Tables with their values negated, or shuffled: what must not matter, or help.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Parallel processes; -1 for all cores.")] = -1,
) -> None:
    """Compare pre-trained covariances with their peers on synthetic families and pairs of real tables.

    Example: mkbo benchmark --smoke --out bench

    With --paper, the three experiments of Shilton et al., arXiv 1802.05370: the simulated one as printed, two devices,
    and alloys with a utility of their phases. The last two's data are private, so public ones stand for them; without
    --data, only the first is run. Unless --seeds says otherwise there are 10, 40 and 10 repetitions.

    With --published, one task of a public benchmark is left out and the others are the library: salinas (--problem
    deepar, xgboost, nas102 or fcnet) prints gains over random search beside the published ones, lcbench (--problem a
    data set) regrets for several sizes of the library, with --control shuffled of libraries that say nothing.
    """
    console = Terminal()
    with plain_errors(GOES_ON):
        choices: dict[str, object] = {"--smoke": smoke, "--claim": claim, "--model": model, "--pairs": pairs}
        choices |= {"--own-starts": own_starts, "--acquisition": acquisition, "--repeats": repeats}
        if published is not None:
            _check_alone("--published", choices | {"--paper": paper})
            _published(console, out, data, published, tuple(problem or ()), seeds, trials, trainer, control, jobs)
        elif paper:
            _check_alone("--paper", choices | {"--problem": problem, "--control": control})
            _paper(console, out, data, seeds, trials or TRIALS, trainer, jobs)
        else:
            from mkbo_plugins.experiments.benchmark.runner import Plan

            plan = Plan(
                tuple(problem or ()),
                tuple(model or ()),
                seeds or (SMOKE_SEEDS if smoke else CLAIM_SEEDS if claim else TUNING_SEEDS),
                trials or (SMOKE_TRIALS if smoke else TRIALS),
                claim,
                trainer or "gp",
                acquisition or "ei",
                repeats=repeats,
                own_starts=own_starts,
                control=control,
            )
            _benchmark(console, out, data, plan, smoke, pairs, jobs)


def _benchmark(
    console: Terminal, out: Path, data: Path | None, plan: "Plan", smoke: bool, pairs: int | None, jobs: int
) -> None:
    from mkbo_plugins.experiments.benchmark.campaign import ACQUISITIONS
    from mkbo_plugins.experiments.benchmark.lookup import TRAINERS
    from mkbo_plugins.experiments.benchmark.metrics import compare, over_problems
    from mkbo_plugins.experiments.benchmark.models import MODELS
    from mkbo_plugins.experiments.benchmark.problems import CONTROLS
    from mkbo_plugins.experiments.benchmark.report import write_report
    from mkbo_plugins.experiments.benchmark.runner import curves, drawn_names, problem_names, run
    from mkbo_plugins.experiments.store import make_folder

    if smoke and plan.claim:
        raise MkboError("--smoke and --claim exclude each other; choose one")
    if pairs is not None and (data is None or plan.problems):
        raise MkboError("--pairs draws problems from the folder of --data: it needs that and excludes --problem")
    if data is None or pairs is None:
        known = problem_names(data, claim=plan.claim)
    else:
        known = drawn_names(data, pairs, claim=plan.claim)
    problems = _chosen("--problem", plan.problems, known, SMOKE_PROBLEMS if smoke and pairs is None else known)
    models = _chosen("--model", plan.models, ("random", *MODELS), ("random", *MODELS))
    if "stock" not in models:
        models = ("stock", *models)
    _chosen("--trainer", (plan.trainer,), tuple(TRAINERS), ())
    _chosen("--acquisition", (plan.acquisition,), tuple(ACQUISITIONS), ())
    _chosen("--control", (plan.control,) if plan.control else (), tuple(CONTROLS), ())
    plan = replace(plan, problems=problems, models=models)
    make_folder(out)
    count = len(problems) * len(models) * plan.seeds
    console.print(
        f"{len(problems)} problems, {len(models)} models, {plan.seeds} seeds: {count} campaigns; "
        "those finished before are used",
    )
    runs = run(plan, out, data, n_jobs=jobs)
    write_atomically(out / "runs.csv", runs.to_csv(index=False).encode())
    shown = [name for name in models if name != "random"]
    regret = {name: curves(plan, out, data, name, shown) for name in problems}
    fresh = ", on members, pairs and seeds that no choice was made on" if plan.claim else ""
    starts = "their own" if plan.own_starts else "random"
    heading = (
        f"{len(problems)} problems, {plan.seeds} paired seeds, {plan.trials} trials after 3 {starts} starts{fresh}; "
        f"table trained by {plan.trainer}, acquisition {plan.acquisition}"
        f"{', candidates may be tried again' if plan.repeats else ''}"
        f"{f', all tables {plan.control}' if plan.control else ''}."
    )
    differences = over_problems(runs)
    console.print(Markdown(write_report(compare(runs), differences, regret, out, heading)))
    console.print(
        f"Every problem is in {out.resolve() / 'report.md'}, plots and tables beside it",
        soft_wrap=True,
    )


def _check_alone(said: str, choices: dict[str, object]) -> None:
    given = [option for option, value in choices.items() if value]
    if given:
        raise MkboError(f"{said} says what is run, so {given} cannot be chosen; leave them out")


def _published(
    console: Terminal,
    out: Path,
    data: Path | None,
    name: str,
    problems: tuple[str, ...],
    seeds: int | None,
    trials: int | None,
    trainer: str | None,
    control: str | None,
    jobs: int,
) -> None:
    from mkbo_plugins.covariance.record import TRAINERS
    from mkbo_plugins.experiments.published.lcbench import run_lcbench
    from mkbo_plugins.experiments.published.salinas import run_salinas
    from mkbo_plugins.experiments.store import make_folder
    from mkbo_plugins.messages.progress import progress_bar

    _chosen("--published", (name,), ("salinas", "lcbench"), ())
    _chosen("--trainer", (trainer,) if trainer else (), TRAINERS, ())
    _chosen("--control", (control,) if control else (), ("shuffled",) if name == "lcbench" else (), ())
    if data is None:
        raise MkboError("--published needs --data, the folder with the benchmark's tables")
    make_folder(out)
    given = {key: value for key, value in {"seeds": seeds, "trials": trials, "trainer": trainer}.items() if value}
    with progress_bar("campaigns") as report:
        arguments = {**given, "n_jobs": jobs, "report": report}
        if name == "salinas":
            result = run_salinas(data, out, families=problems, **arguments)  # type: ignore[arg-type]
        else:
            result = run_lcbench(data, out, datasets=problems, shuffle=control is not None, **arguments)  # type: ignore[arg-type]
    write_atomically(out / f"{name}.csv", result.to_csv(index=False).encode())
    console.print(result.round(4).to_string(index=False), soft_wrap=True)
    console.print(f"The table is in {(out / f'{name}.csv').resolve()}", soft_wrap=True)


def _paper(
    console: Terminal, out: Path, data: Path | None, seeds: int | None, trials: int, trainer: str | None, jobs: int
) -> None:
    from mkbo_plugins.experiments.benchmark.lookup import TRAINERS
    from mkbo_plugins.experiments.benchmark.paper import EXPERIMENTS, TRAINER, run_paper
    from mkbo_plugins.experiments.benchmark.paper_report import write_paper
    from mkbo_plugins.experiments.benchmark.phases import regress_phases
    from mkbo_plugins.experiments.benchmark.simulated import SIMULATED
    from mkbo_plugins.experiments.store import make_folder

    trainer = trainer or TRAINER
    _chosen("--trainer", (trainer,), tuple(TRAINERS), ())
    make_folder(out)
    phases, left_out = None, ""
    if data is not None:
        phases = regress_phases(data)
    else:
        others = [name for name in EXPERIMENTS if name != SIMULATED]
        left_out = f" Only {SIMULATED} was run; the others, {others}, need tables: --data names their folder."
    results = run_paper(out, data, seeds=seeds, trials=trials, n_jobs=jobs, trainer=trainer)
    heading = f"{trials} trials after 3 random starting points; table trained by {trainer}.{left_out}"
    console.print(Markdown(write_paper(results, phases, out, heading)))
    console.print(f"Tables and figures are in {out.resolve()}", soft_wrap=True)


def _chosen(option: str, given: tuple[str, ...], known: tuple[str, ...], usual: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise MkboError(f"{option} names {unknown}; known here are {list(known)}")
    return given or usual
