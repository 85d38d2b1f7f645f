"""The command ``mkbo check``."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mkbo_plugins.cli.messages import (
    HOW_TAKEN,
    check_named,
    check_writable,
    chosen_parameters,
    print_json,
    print_parameters,
)
from mkbo_plugins.cli.options import GROUPS, IGNORE, LEVELS, NOISE, PARAMETERS, TABLE, TASK, TaskName
from mkbo_plugins.errors import ArtefactError, MkboWarning, SpaceError
from mkbo_plugins.files import write_new
from mkbo_plugins.messages.commands import in_options, plain_errors
from mkbo_plugins.messages.counts import counted
from mkbo_plugins.messages.terminal import Terminal
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.doubts import doubts_of_columns
from mkbo_plugins.tables.inputfiles import read_trials_file
from mkbo_plugins.tables.inspection import Finding, Severity, inspect_table
from mkbo_plugins.tables.spacefiles import read_space_file, space_text
from mkbo_plugins.tables.taken import sums_kept, take_parameters, taken_columns

if TYPE_CHECKING:
    import pandas as pd


def check(
    table: Annotated[Path, TABLE],
    target: Annotated[str, typer.Option(help="Name of the target column.")],
    space: Annotated[Path | None, typer.Option(help="TOML file with the parameters, as for mkbo pretrain.")] = None,
    task: Annotated[TaskName, TASK] = TaskName.regression,
    groups: Annotated[str | None, GROUPS] = None,
    noise: Annotated[str | None, NOISE] = None,
    ignore: Annotated[list[str] | None, IGNORE] = None,
    log_target: Annotated[bool, typer.Option("--log-target", help="The target's logarithm is to be learned.")] = False,
    parameters: Annotated[list[str] | None, PARAMETERS] = None,
    levels: Annotated[list[str] | None, LEVELS] = None,
    write_space: Annotated[
        Path | None,
        typer.Option(help="New TOML file for the parameters as taken, to be edited and given as --space."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what the columns of TABLE are taken as, and everything that is wrong with it, before anything is trained.

    Errors keep a table from being used, remarks deserve a look. Exit codes: 0 no errors; 1 errors; 2 a file cannot be
    read.

    Example: mkbo check patents.csv --target strength_MPa --write-space space.toml

    Example: mkbo check patents.xlsx::Sheet1 --target strength_MPa --space space.toml --json
    """
    with plain_errors():
        if write_space is not None:
            _check_new(write_space, space)
        described = None if space is None else read_space_file(space)
        data, records, notes = _read(table, described, levels or ())
        columns, used = list(data.columns), [target, groups, noise, *(described.names if described else ())]
        ignored = check_named("--ignore", ignore, columns, used)
        check_named("--levels", levels, columns, used)
        chosen = chosen_parameters(parameters, columns, used, {"--space": space, "--ignore": ignore})
        ignored = (*ignored, *(name for name in records if chosen is None and name not in used))
        findings = inspect_table(
            data,
            target,
            described,
            task=task.value,
            log_target=log_target,
            groups=groups,
            noise=noise,
            ignore=ignored,
            parameters=chosen,
        )
        names = [name for name in taken_columns(columns, {target, groups, noise, *ignored}, chosen) if name in columns]
        taken = take_parameters(data, names)
        known = taken.parameters if described is None else described.parameters
        if write_space is not None:
            if not known:
                raise SpaceError(f"{write_space} is not written: no column can be taken as a parameter")
            left_out = [name for name in columns if name not in {target, *(p.name for p in known)}]
            doubts = doubts_of_columns(data, known, target, described=False, named=chosen is not None)
            asked = {name for doubt in doubts for name in doubt.no_parameters}
            write_new(write_space, space_text(known, left_out, sums_kept(data, known), asked).encode())
    findings = sorted([*notes, *findings], key=lambda finding: finding.severity is Severity.REMARK)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    if as_json:
        found = [asdict(finding) | {"message": in_options(finding.message)} for finding in findings]
        specs = {parameter.name: parameter.to_spec() for parameter in known}
        print_json({"table": str(table), "rows": len(data), "errors": errors, "parameters": specs, "findings": found})
    else:
        console = Terminal()
        print_parameters(console, known)
        if described is None and known:
            console.print(HOW_TAKEN, soft_wrap=True)
        for finding in findings:
            console.print(f"{finding.severity}: {in_options(finding.message)}", soft_wrap=True)
        remarks = len(findings) - errors
        summary = ", ".join([counted(len(data), "row"), counted(errors, "error"), counted(remarks, "remark")])
        console.print(f"{table}: {summary}", soft_wrap=True)
        if write_space is not None:
            console.print(f"parameters written to {write_space}; edit them, and give them as --space", soft_wrap=True)
    if errors:
        raise typer.Exit(1)


def _check_new(path: Path, space: Path | None) -> None:
    """Refuse to write a space that is given, or over a file."""
    if space is not None:
        raise SpaceError("--write-space writes what columns are taken as where no --space is given; leave out one")
    check_writable(path)
    if os.path.lexists(path):
        raise ArtefactError(f"cannot write {path}: it exists, and is not replaced; name another file")


def _read(
    table: Path, space: ParameterSpace | None, levels: Sequence[str]
) -> tuple["pd.DataFrame", tuple[str, ...], list[Finding]]:
    """Return a table, its columns that are records of trials, and how it was read as remarks."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data, records = read_trials_file(table, space, levels)
    notes = [str(one.message) for one in caught if issubclass(one.category, MkboWarning)]
    return data, records, [Finding(Severity.REMARK, None, note) for note in notes]
