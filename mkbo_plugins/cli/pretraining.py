"""The command ``mkbo pretrain``."""

import warnings
from collections.abc import Set
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mkbo_plugins.cli.forecasting import Aim, check_aim, forecast_of, print_forecast
from mkbo_plugins.cli.messages import (
    HOW_TAKEN,
    check_named,
    check_writable,
    chosen_parameters,
    print_json,
    print_parameters,
)
from mkbo_plugins.cli.options import GROUPS, IGNORE, LEVELS, NOISE, PARAMETERS, TABLES, TASK, TaskName
from mkbo_plugins.cli.summary import print_summary, summary
from mkbo_plugins.covariance.container import check_replaceable
from mkbo_plugins.errors import TableError, TableWarning
from mkbo_plugins.messages.commands import GOES_ON, plain_errors
from mkbo_plugins.messages.hints import listed
from mkbo_plugins.messages.terminal import Terminal
from mkbo_plugins.pretraining.training import pretrain as train
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.doubts import doubts_of_columns
from mkbo_plugins.tables.inputfiles import read_trials_file, sheet_of
from mkbo_plugins.tables.spacefiles import read_space_file
from mkbo_plugins.tables.taken import NOTHING_VARIES, sums_kept, take_parameters, taken_columns

if TYPE_CHECKING:
    import pandas as pd


class Trainer(StrEnum):
    """How the table's machine is trained."""

    svm = "svm"
    gp = "gp"


class Combine(StrEnum):
    """What becomes of several tables."""

    sum = "sum"
    chain = "chain"
    pool = "pool"


class FrameName(StrEnum):
    """What the bounds are mapped to."""

    centred = "centred"
    unit = "unit"


def pretrain(
    tables: Annotated[list[Path], TABLES],
    target: Annotated[
        list[str], typer.Option(help="Name of the target column; of several tables, once for all or once for each.")
    ],
    space: Annotated[
        Path | None,
        typer.Option(
            help="TOML file: a [name] section with bounds = [low, high] or levels = [...] per parameter, a "
            "[[constraint]] section with sum = [names] and equals, at_most or at_least per linear constraint."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write; TABLE.mkbo.json beside a single table if left out.")
    ] = None,
    combine: Annotated[
        Combine,
        typer.Option(
            help="Several tables: sum their covariances, chain them into one kernel, or pool them as campaigns of one "
            "kind."
        ),
    ] = Combine.sum,
    by: Annotated[
        str | None,
        typer.Option(help="Column that says which earlier campaign a row is of; all become one covariance."),
    ] = None,
    dates: Annotated[
        str | None, typer.Option(help="Column with the day of each row, as 2026-11-03, for mkbo show to tell.")
    ] = None,
    trainer: Annotated[Trainer, typer.Option(help="Support vector machine or Gaussian process.")] = Trainer.svm,
    task: Annotated[TaskName, TASK] = TaskName.regression,
    kernel: Annotated[str, typer.Option(help="se, exponential, polynomial or linear.")] = "se",
    frame: Annotated[FrameName, typer.Option(help="Map bounds to [-1, 1] or to [0, 1].")] = FrameName.centred,
    ard: Annotated[bool, typer.Option(help="Learn a weight for each parameter.")] = True,
    groups: Annotated[str | None, GROUPS] = None,
    noise: Annotated[str | None, NOISE] = None,
    ignore: Annotated[list[str] | None, IGNORE] = None,
    parameters: Annotated[list[str] | None, PARAMETERS] = None,
    levels: Annotated[list[str] | None, LEVELS] = None,
    log_target: Annotated[bool, typer.Option("--log-target", help="Train on the target's logarithm.")] = False,
    rank_target: Annotated[
        bool, typer.Option("--rank-target", help="Train on normal scores of the target's ranks, as of campaigns.")
    ] = False,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out rows that lack a value.")] = False,
    max_rows: Annotated[
        int | None,
        typer.Option(help="Of a longer table, train on this many rows alone, spread evenly.", show_default=False),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="File that keeps the grid search; after an interruption the same command goes on from it."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Parallel workers; -1 for all cores.")] = -1,
    forecast: Annotated[
        Aim | None,
        typer.Option(
            help="Say what the campaigns of --by would have saved one another, where large outcomes were looked for, "
            "or small ones: each is left out in turn, and simulated over its own rows."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was learned as JSON.")] = False,
) -> None:
    """Pre-train a covariance on a table, or on several, and save it as one small file.

    Of several tables, each has the parameters of the space that are among its columns.

    mkbo check says beforehand what is wrong with the table. Exit codes: 0 saved; 2 the table cannot be used.

    Example: mkbo pretrain patents.csv --target strength_MPa --space space.toml --out alloy.mkbo.json

    Example: mkbo pretrain patents.xlsx::Sheet1 --target strength_MPa --ignore alloy --ignore reference

    Example: mkbo pretrain runs.csv --target accuracy --by dataset --forecast maximise --out runs.mkbo.json

    Example: mkbo pretrain a.csv b.csv --target strength_MPa --target grain_um --space space.toml --out two.mkbo.json
    """
    console = Terminal(stderr=as_json)
    with plain_errors("stopped" if resume is None else GOES_ON):
        pool = combine == Combine.pool
        check_aim(forecast, by, pool=pool)
        if len(tables) > 1:
            _check_given(tables, {"--space": space, "--out": out})
        written = out if out is not None else sheet_of(tables[0])[0].with_suffix(".mkbo.json")
        check_writable(written, [*tables, space, resume])
        check_replaceable(written)
        if resume is not None:
            check_writable(resume, [*tables, space])
        described = None if space is None else read_space_file(space)
        data, records = zip(*(read_trials_file(table, described, levels or ()) for table in tables), strict=True)
        columns = list(dict.fromkeys(name for one in data for name in one.columns))
        others = {groups, noise, by, dates}
        used = [*target, *others, *(described.names if described else ())]
        ignored = check_named("--ignore", ignore, columns, used)
        check_named("--levels", levels, columns, used)
        named = chosen_parameters(parameters, columns, used, {"--space": space, "--ignore": ignore})
        left_out = {*others, *ignored, *(records[0] if named is None else ())}
        chosen = described or _space_from_table(console, data[0], target[0], left_out, named)
        present = [parameter for parameter in chosen.parameters if parameter.name in data[0].columns]
        is_given = {"described": described is not None, "named": described is not None or named is not None}
        for doubt in doubts_of_columns(data[0], present, target[0], **is_given):
            warnings.warn(doubt.message, TableWarning, stacklevel=1)
        settings: dict[str, Any] = {
            "by": by,
            "kernel": kernel,
            "ard": ard,
            "frame": frame.value,
            "trainer": trainer.value,
            "groups": groups,
            "noise": noise,
            "log_target": log_target,
            "rank_target": rank_target,
            "missing": "drop" if drop_missing else "error",
            "max_rows": max_rows,
            "n_jobs": jobs,
        }
        one_target = target if len(target) > 1 else target[0]
        cov = train(
            list(data),
            one_target,
            chosen,
            combine=combine.value,
            dates=dates,
            task=task.value,
            resume=resume,
            **settings,
        )
        cov.save(written)
        if not as_json:
            print_summary(console, cov)
            console.print(f"saved as {written}", soft_wrap=True)
        found = None
        if forecast is not None:
            found = forecast_of(
                list(data) if pool else data[0], target[0], chosen, aim=forecast, narrow=described is None, **settings
            )
        if as_json:
            told = {} if found is None else {"forecast": asdict(found) | {"conclusion": found.conclusion}}
            print_json({"file": str(written), **summary(cov), **told})
        elif found is not None:
            print_forecast(console, found)


def _check_given(tables: list[Path], options: dict[str, Path | None]) -> None:
    lacking = [name for name, value in options.items() if value is None]
    if lacking:
        raise TableError(f"{len(tables)} tables need {' and '.join(lacking)}; give one space for all, and one file")


def _space_from_table(
    console: Terminal,
    table: "pd.DataFrame",
    target: str,
    others: Set[str | None],
    named: tuple[str, ...] | None,
) -> ParameterSpace:
    columns = list(table.columns)
    if target not in columns:
        raise TableError(f"target {target!r} is not a column; the table has {listed(columns, target)}")
    taken = take_parameters(table, taken_columns(columns, {target, *others}, named))
    if taken.faults:
        raise TableError("; ".join(taken.faults.values()))
    if taken.constant:
        warnings.warn(taken.left_out, TableWarning, stacklevel=1)
    if not taken.parameters:
        raise TableError(NOTHING_VARIES)
    sums = sums_kept(table, taken.parameters)
    print_parameters(console, taken.parameters, sums)
    console.print(HOW_TAKEN, soft_wrap=True)
    return ParameterSpace(taken.parameters, sums)
