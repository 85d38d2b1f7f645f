"""The command ``mkbo pretrain``."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from mkbo_plugins.cli.messages import check_writable, plain_errors, print_json
from mkbo_plugins.cli.options import IGNORE, TABLE, TASK, TaskName
from mkbo_plugins.cli.summary import print_summary, summary
from mkbo_plugins.errors import TableError
from mkbo_plugins.inputfiles import SHEET_MARK, read_space_file, read_table_file
from mkbo_plugins.space import ParameterSpace
from mkbo_plugins.training import pretrain as train

if TYPE_CHECKING:
    import pandas as pd


class Trainer(StrEnum):
    """How the table's machine is trained."""

    svm = "svm"
    gp = "gp"


class FrameName(StrEnum):
    """What the bounds are mapped to."""

    centred = "centred"
    unit = "unit"


def pretrain(
    table: Annotated[Path, TABLE],
    target: Annotated[str, typer.Option(help="Name of the target column.")],
    space: Annotated[
        Path | None,
        typer.Option(help="TOML file: a [name] section with bounds = [low, high] or levels = [...] per parameter."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write; TABLE.mkbo.json beside the table if left out.")
    ] = None,
    trainer: Annotated[Trainer, typer.Option(help="Support vector machine or Gaussian process.")] = Trainer.svm,
    task: Annotated[TaskName, TASK] = TaskName.regression,
    kernel: Annotated[str, typer.Option(help="se, exponential, polynomial or linear.")] = "se",
    frame: Annotated[FrameName, typer.Option(help="Map bounds to [-1, 1] or to [0, 1].")] = FrameName.centred,
    ard: Annotated[bool, typer.Option(help="Learn a weight for each parameter.")] = True,
    groups: Annotated[str | None, typer.Option(help="Column whose equal values mark replicates.")] = None,
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
    """Pre-train a covariance on TABLE and save it as one small file.

    mkbo check says beforehand what is wrong with the table. Exit codes: 0 saved; 2 the table cannot be used.

    Example: mkbo pretrain patents.csv --target strength_MPa --space space.toml --out alloy.mkbo.json

    Example: mkbo pretrain patents.xlsx::Sheet1 --target strength_MPa --ignore alloy --ignore reference
    """
    console = Console(stderr=as_json)
    with plain_errors("stopped" if resume is None else "stopped; the same command goes on from here"):
        written = out if out is not None else Path(str(table).partition(SHEET_MARK)[0]).with_suffix(".mkbo.json")
        check_writable(written)
        frame_data = read_table_file(table)
        chosen = (
            read_space_file(space)
            if space is not None
            else _space_from_table(console, frame_data, target, groups, ignore or [])
        )
        cov = train(
            frame_data,
            target,
            chosen,
            kernel=kernel,
            ard=ard,
            frame=frame.value,
            task=task.value,
            trainer=trainer.value,
            groups=groups,
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
            console.print(f"saved as {written}", highlight=False, soft_wrap=True)


def _space_from_table(
    console: Console, table: "pd.DataFrame", target: str, groups: str | None, ignore: list[str]
) -> ParameterSpace:
    unknown = [name for name in ignore if name not in table.columns]
    if unknown:
        raise TableError(f"--ignore names {unknown}, which are not columns of the table; it has {list(table.columns)}")
    used = table.drop(columns=[name for name in {*ignore, groups} if name in table.columns])
    space = ParameterSpace.from_table(used, target)
    console.print(
        f"no --space given: every column but {target!r} is taken as a parameter, with bounds at its extremes in the "
        "table; give a space if the target's range is wider",
        highlight=False,
    )
    return space
