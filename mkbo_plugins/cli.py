"""The command line: ``mkbo pretrain``, ``mkbo show`` and ``mkbo demo``."""

import os
import sys
import tomllib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from mkbo_plugins.errors import ArtefactError, MkboError, MkboWarning, SpaceError, TableError
from mkbo_plugins.experiments.benchmark.command import benchmark
from mkbo_plugins.pretrained import PretrainedCovariance
from mkbo_plugins.report import describe, describe_interactions, describe_parameters
from mkbo_plugins.space import ParameterSpace
from mkbo_plugins.training import pretrain as train

if TYPE_CHECKING:
    import pandas as pd

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Pre-train a covariance function on a table of condensed knowledge and look at what it learned.",
)


class Trainer(StrEnum):
    """How the table's machine is trained."""

    svm = "svm"
    gp = "gp"


class TaskName(StrEnum):
    """What the target is."""

    regression = "regression"
    classification = "classification"


class FrameName(StrEnum):
    """What the bounds are mapped to."""

    centred = "centred"
    unit = "unit"


@app.command()
def pretrain(
    table: Annotated[Path, typer.Argument(help="CSV file with a header; a column for each parameter and the target.")],
    target: Annotated[str, typer.Option(help="Name of the target column.")],
    space: Annotated[
        Path | None,
        typer.Option(help="TOML file: a [name] section with bounds = [low, high] or levels = [...] per parameter."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write; TABLE.mkbo.json beside the table if left out.")
    ] = None,
    trainer: Annotated[Trainer, typer.Option(help="Support vector machine or Gaussian process.")] = Trainer.svm,
    task: Annotated[TaskName, typer.Option(help="Target of numbers, or of two labels.")] = TaskName.regression,
    kernel: Annotated[str, typer.Option(help="se, exponential, polynomial or linear.")] = "se",
    frame: Annotated[FrameName, typer.Option(help="Map bounds to [-1, 1] or to [0, 1].")] = FrameName.centred,
    ard: Annotated[bool, typer.Option(help="Learn a weight for each parameter.")] = True,
    groups: Annotated[str | None, typer.Option(help="Column whose equal values mark replicates.")] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(help="Column that is not a parameter, where no --space is given; repeat for several."),
    ] = None,
    log_target: Annotated[bool, typer.Option("--log-target", help="Train on the target's logarithm.")] = False,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out rows that lack a value.")] = False,
    max_rows: Annotated[int, typer.Option(help="Of a longer table, train on this many rows, spread evenly.")] = 500,
    resume: Annotated[
        Path | None,
        typer.Option(help="File that keeps the grid search; after an interruption the same command goes on from it."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Parallel workers; -1 for all cores.")] = -1,
) -> None:
    """Pre-train a covariance on TABLE and save it as one small file.

    Example: mkbo pretrain patents.csv --target strength_MPa --space space.toml --out alloy.mkbo.json
    """
    console = Console()
    with _plain_errors("stopped" if resume is None else "stopped; the same command goes on from here"):
        written = out if out is not None else table.with_suffix(".mkbo.json")
        _check_writable(written)
        frame_data = _read_csv(table)
        chosen = (
            _read_space(space)
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
        _print_summary(console, cov)
        console.print(f"saved as {written}", highlight=False, soft_wrap=True)


app.command()(benchmark)


@app.command()
def show(file: Annotated[Path, typer.Argument(help="A saved covariance, *.mkbo.json.")]) -> None:
    """Show what a saved covariance has learned.

    Example: mkbo show alloy.mkbo.json
    """
    with _plain_errors():
        _print_summary(Console(), PretrainedCovariance.load(file))


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for results; a second run continues in it.")] = Path("mkbo-demo"),
    seeds: Annotated[int, typer.Option(min=1, help="Paired campaigns from different starting points.")] = 4,
    trials: Annotated[int, typer.Option(min=1, help="Trials after three starting points.")] = 12,
) -> None:
    """Tune a real classifier with and without knowledge of cheap earlier runs, and print what happened.

    64 support vector classifiers trained on 200 of scikit-learn's handwritten digits are the table; tuning on all
    1,797 images is the target. Both models start from the same points.

    Example: mkbo demo --seeds 10
    """
    with _plain_errors(when_interrupted="stopped; the same command goes on from here"):
        try:
            from mkbo_plugins.experiments.demo import run_demo
        except ImportError as error:
            raise MkboError(f"{error}; the demo needs both: pip install 'mkbo_plugins[botorch,plot]'") from error
        run_demo(Console(), out, seeds=seeds, trials=trials)


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        typer.echo(f"mkbo_plugins {metadata.version('mkbo_plugins')}")
        raise typer.Exit


@contextmanager
def _plain_errors(when_interrupted: str = "stopped") -> Iterator[None]:
    """Print errors and warnings of this package as plain sentences; an error ends the command with status 2."""
    errors = Console(stderr=True)

    def print_warning(message: Warning | str, category: type[Warning], *args: object) -> None:
        if issubclass(category, MkboWarning):
            errors.print(f"note: {message}", highlight=False, markup=False, soft_wrap=True)
        else:
            original(message, category, *args)  # type: ignore[arg-type]

    with warnings.catch_warnings():
        warnings.simplefilter("always", MkboWarning)
        original, warnings.showwarning = warnings.showwarning, print_warning  # type: ignore[assignment]
        try:
            yield
        except MkboError as error:
            errors.print(f"error: {error}", highlight=False, markup=False, soft_wrap=True)
            sys.exit(2)
        except KeyboardInterrupt:
            errors.print(when_interrupted, highlight=False)
            sys.exit(130)


def _check_writable(path: Path) -> None:
    """Refuse a file that cannot be written before time is spent on what goes into it."""
    if path.is_dir():
        raise ArtefactError(f"cannot write {path}: it is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ArtefactError(f"cannot write {path}: its folder does not exist; make it first")
    if not os.access(path.parent, os.W_OK):
        raise ArtefactError(f"cannot write {path}: its folder cannot be written to; choose another with --out")


def _read_csv(path: Path) -> "pd.DataFrame":
    import pandas as pd

    try:
        table = pd.read_csv(path)
        if len(table.columns) == 1 and any(separator in table.columns[0] for separator in ";\t"):
            raise TableError(
                f"{path} has the single column {table.columns[0]!r}; save it with commas between columns and with "
                "decimal points"
            )
        return table
    except FileNotFoundError:
        raise TableError(f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TableError(
            f"{path} cannot be read as a CSV table: {error}; save it as CSV with commas, decimal points and UTF-8 text"
        ) from error


def _read_space(path: Path) -> ParameterSpace:
    try:
        spec = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpaceError(f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SpaceError(f"{path} cannot be read as TOML: {error}") from error
    return ParameterSpace.from_dict(spec)


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


def _print_summary(console: Console, cov: PretrainedCovariance) -> None:
    facts = Table(box=None, show_header=False)
    for label, text in describe(cov):
        facts.add_row(label, text)
    console.print(facts)
    parameters = Table(
        "parameter",
        "range",
        "length scale",
        title="How fast the table's target changes with each parameter: the shorter, the faster",
    )
    for row in describe_parameters(cov):
        parameters.add_row(*row)
    console.print(parameters)
    shares, captured = describe_interactions(cov)
    if not shares:
        console.print(
            "(length scales are too small to say which parameters the covariance varies with)", highlight=False
        )
        return
    weights = Table("varies with", "share of prior variance", title="How the covariance spreads its expected variation")
    for name, share in shares:
        weights.add_row(name, f"{share:.1%}")
    console.print(weights)
    console.print(f"(listed and smaller terms together: {captured:.1%} of the covariance)", highlight=False)
