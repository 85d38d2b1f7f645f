"""The command ``mkbo check``."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mkbo_plugins.cli.messages import check_ignored, counted, print_json
from mkbo_plugins.cli.options import GROUPS, IGNORE, NOISE, TABLE, TASK, TaskName
from mkbo_plugins.messages.commands import in_options, plain_errors
from mkbo_plugins.messages.terminal import Terminal
from mkbo_plugins.tables.inputfiles import read_space_file, read_table_file
from mkbo_plugins.tables.inspection import Severity, inspect_table


def check(
    table: Annotated[Path, TABLE],
    target: Annotated[str, typer.Option(help="Name of the target column.")],
    space: Annotated[Path | None, typer.Option(help="TOML file with the parameters, as for mkbo pretrain.")] = None,
    task: Annotated[TaskName, TASK] = TaskName.regression,
    groups: Annotated[str | None, GROUPS] = None,
    noise: Annotated[str | None, NOISE] = None,
    ignore: Annotated[list[str] | None, IGNORE] = None,
    log_target: Annotated[bool, typer.Option("--log-target", help="The target's logarithm is to be learned.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say everything that is wrong with TABLE at once, before anything is trained on it.

    Errors keep a table from being used, remarks deserve a look. Exit codes: 0 no errors; 1 errors; 2 a file cannot be
    read.

    Example: mkbo check patents.csv --target strength_MPa

    Example: mkbo check patents.xlsx::Sheet1 --target strength_MPa --space space.toml --json
    """
    with plain_errors():
        described = None if space is None else read_space_file(space)
        data = read_table_file(table, described)
        ignored = check_ignored(ignore, data.columns, [target, groups, noise, *(described.names if described else ())])
        findings = inspect_table(
            data,
            target,
            described,
            task=task.value,
            log_target=log_target,
            groups=groups,
            noise=noise,
            ignore=ignored,
        )
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    if as_json:
        found = [asdict(finding) | {"message": in_options(finding.message)} for finding in findings]
        print_json({"table": str(table), "rows": len(data), "errors": errors, "findings": found})
    else:
        console = Terminal()
        for finding in findings:
            console.print(f"{finding.severity}: {in_options(finding.message)}", soft_wrap=True)
        remarks = len(findings) - errors
        summary = ", ".join([counted(len(data), "row"), counted(errors, "error"), counted(remarks, "remark")])
        console.print(f"{table}: {summary}", soft_wrap=True)
    if errors:
        raise typer.Exit(1)
