"""The command ``mkbo pretrain``."""

import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mkbo_plugins.cli.messages import check_ignored, check_writable, print_json
from mkbo_plugins.cli.options import GROUPS, IGNORE, NOISE, TABLES, TASK, TaskName
from mkbo_plugins.cli.summary import print_summary, summary
from mkbo_plugins.errors import SpaceError, TableError, TableWarning
from mkbo_plugins.messages.commands import GOES_ON, plain_errors
from mkbo_plugins.messages.terminal import Terminal
from mkbo_plugins.pretraining.training import pretrain as train
from mkbo_plugins.space.parameters import Numeric
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.compositions import constant_sums
from mkbo_plugins.tables.inputfiles import read_space_file, read_table_file, sheet_of
from mkbo_plugins.tables.inspection import doubts_of_columns

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
        Combine, typer.Option(help="Several tables: sum their covariances, or chain them into one kernel.")
    ] = Combine.sum,
    trainer: Annotated[Trainer, typer.Option(help="Support vector machine or Gaussian process.")] = Trainer.svm,
    task: Annotated[TaskName, TASK] = TaskName.regression,
    kernel: Annotated[str, typer.Option(help="se, exponential, polynomial or linear.")] = "se",
    frame: Annotated[FrameName, typer.Option(help="Map bounds to [-1, 1] or to [0, 1].")] = FrameName.centred,
    ard: Annotated[bool, typer.Option(help="Learn a weight for each parameter.")] = True,
    groups: Annotated[str | None, GROUPS] = None,
    noise: Annotated[str | None, NOISE] = None,
    ignore: Annotated[list[str] | None, IGNORE] = None,
    log_target: Annotated[bool, typer.Option("--log-target", help="Train on the target's logarithm.")] = False,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out rows that lack a value.")] = False,
    max_rows: Annotated[int, typer.Option(help="Of a longer table, train on this many rows, spread evenly.")] = 500,
    resume: Annotated[
        Path | None,
        typer.Option(help="File that keeps the grid search; after an interruption the same command goes on from it."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Parallel workers; -1 for all cores.")] = -1,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was learned as JSON.")] = False,
) -> None:
    """Pre-train a covariance on a table, or on several, and save it as one small file.

    Of several tables, each has the parameters of the space that are among its columns.

    mkbo check says beforehand what is wrong with the table. Exit codes: 0 saved; 2 the table cannot be used.

    Example: mkbo pretrain patents.csv --target strength_MPa --space space.toml --out alloy.mkbo.json

    Example: mkbo pretrain patents.xlsx::Sheet1 --target strength_MPa --ignore alloy --ignore reference

    Example: mkbo pretrain a.csv b.csv --target strength_MPa --target grain_um --space space.toml --out two.mkbo.json
    """
    console = Terminal(stderr=as_json)
    with plain_errors("stopped" if resume is None else GOES_ON):
        if len(tables) > 1:
            _check_given(tables, {"--space": space, "--out": out})
        written = out if out is not None else sheet_of(tables[0])[0].with_suffix(".mkbo.json")
        check_writable(written, [*tables, space, resume])
        if resume is not None:
            check_writable(resume, [*tables, space])
        described = None if space is None else read_space_file(space)
        data = [read_table_file(table, described) for table in tables]
        used = [*target, groups, noise, *(described.names if described else ())]
        ignored = check_ignored(ignore, [name for one in data for name in one.columns], used)
        chosen = described or _space_from_table(console, data[0], target[0], {groups, noise, *ignored})
        for doubt in doubts_of_columns(
            data[0], chosen.parameters, taken=described is None and len(chosen.names) > 1
        ).values():
            warnings.warn(doubt, TableWarning, stacklevel=1)
        cov = train(
            data,
            target if len(target) > 1 else target[0],
            chosen,
            combine=combine.value,
            kernel=kernel,
            ard=ard,
            frame=frame.value,
            task=task.value,
            trainer=trainer.value,
            groups=groups,
            noise=noise,
            log_target=log_target,
            missing="drop" if drop_missing else "error",
            max_rows=max_rows,
            n_jobs=jobs,
            resume=resume,
        )
        cov.save(written)
        if as_json:
            print_json({"file": str(written), **summary(cov)})
        else:
            print_summary(console, cov)
            console.print(f"saved as {written}", soft_wrap=True)


def _check_given(tables: list[Path], options: dict[str, Path | None]) -> None:
    lacking = [name for name, value in options.items() if value is None]
    if lacking:
        raise TableError(f"{len(tables)} tables need {' and '.join(lacking)}; give one space for all, and one file")


def _space_from_table(
    console: Terminal, table: "pd.DataFrame", target: str, no_parameters: set[str | None]
) -> ParameterSpace:
    used = table.drop(columns=[name for name in no_parameters if name in table.columns])
    space = ParameterSpace.from_table(used, target)
    console.print(
        f"no --space given: every column but {target!r} is taken as a parameter, with bounds at its extremes in the "
        "table; give a space if the target's range is wider",
    )
    return _with_sums(console, table, space)


def _with_sums(console: Terminal, table: "pd.DataFrame", space: ParameterSpace) -> ParameterSpace:
    """Return a space taken from a table with a constraint for columns that sum to a constant in every row."""
    numeric = {p.name: table[p.name].tolist() for p in space.parameters if isinstance(p, Numeric)}
    for found in filter(lambda one: one.complete, constant_sums(numeric)):
        try:
            space = ParameterSpace(space.parameters, (*space.constraints, found.constraint))
        except SpaceError:
            continue  # not within the extremes, up to rounding; training remarks on the columns
        console.print(
            f"columns {list(found.names)} sum to {found.total:g} in every row: this is taken as a constraint, which "
            "suggestions keep; give a space if it is an accident",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    return space
