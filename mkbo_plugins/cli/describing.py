"""The command ``mkbo describe``."""

from pathlib import Path
from typing import Annotated

import typer

from mkbo_plugins.cli.messages import check_writable
from mkbo_plugins.messages.commands import plain_errors
from mkbo_plugins.messages.counts import counted
from mkbo_plugins.messages.terminal import Terminal
from mkbo_plugins.tables.inputfiles import write_table_file
from mkbo_plugins.tables.levelfiles import read_texts
from mkbo_plugins.tables.substances import describe_substances


def describe(
    table: Annotated[
        Path,
        typer.Argument(help="CSV file or Excel workbook with a row for each substance, named in the first column."),
    ],
    out: Annotated[Path, typer.Option(help="CSV or Excel table to write: names, and a column for each descriptor.")],
    smiles: Annotated[str, typer.Option(help="Column of structures as SMILES.")] = "smiles",
    fingerprints: Annotated[
        int, typer.Option(min=0, help="Number of principal components of Morgan fingerprints to add.")
    ] = 0,
) -> None:
    """Describe substances by numbers, so that a space can tell which are alike: levels = {file = "ligands.csv"}.

    Exit codes: 0 written; 2 an input cannot be used, or RDKit is not installed.

    Example: mkbo describe structures.csv --out ligands.csv
    """
    with plain_errors():
        check_writable(out, [table])
        found = read_texts(table, smiles)
        numbers = describe_substances(found, fingerprints=fingerprints)
        write_table_file(numbers.rename_axis("name").reset_index(), out)
    Terminal().print(
        f"{counted(len(numbers), 'substance')} described by {', '.join(map(str, numbers))}; in a space, name the file: "
        f'levels = {{file = "{out.name}"}}',
        soft_wrap=True,
    )
