"""How near adding campaigns one by one comes to training on all: ``python tools/grow_library.py TABLES``.

Of every fourth data set of LCBench in the folder TABLES, a library of 16 others with 100 rows each is trained on at
once, and begun with some of them and given the others one by one. Both are compared at every tenth configuration.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from mkbo_plugins import add_campaign, pretrain
from mkbo_plugins.errors import MkboWarning
from mkbo_plugins.experiments.benchmark.drawn import LCBENCH
from mkbo_plugins.experiments.benchmark.tables import read_columns
from mkbo_plugins.experiments.published.lcbench import FILE, datasets_of, task
from mkbo_plugins.experiments.published.library import BY, TARGET

CAMPAIGNS, ROWS, EVERY = 16, 100, 4
BEGUN_WITH = (2, 4, 8, 12)
FORMS = ("moment", "normalised")


def compared(file: Path, target: str) -> list[dict[str, float]]:
    """Return correlations of predictions and Gram matrices, a row for each number of campaigns begun with."""
    known = task(file, target, CAMPAIGNS, ROWS, 0, False)
    library, space = known.library, known.space
    settings = {"by": BY, "trainer": "gp", "n_jobs": 1, "progress": False}
    parts = {name: part.drop(columns=BY) for name, part in library.groupby(BY, sort=False)}
    X, at_once, rows = known.own[list(LCBENCH)].iloc[::10], pretrain(library, TARGET, space, **settings), []
    for begun in BEGUN_WITH:
        cov = pretrain(library[library[BY].isin(list(parts)[:begun])], TARGET, space, **settings)
        for name in list(parts)[begun:]:
            cov = add_campaign(cov, parts[name], name, progress=False)
        pairs = {"predictions": (cov.predict(X), at_once.predict(X))}
        pairs |= {form: (cov.gram(X, form=form).ravel(), at_once.gram(X, form=form).ravel()) for form in FORMS}
        found = {name: float(np.corrcoef(one, other)[0, 1]) for name, (one, other) in pairs.items()}
        rows.append({"begun with": begun} | found)
    return rows


def main(folder: Path) -> None:
    """Print medians and least values over data sets."""
    targets = datasets_of(read_columns(folder / FILE, LCBENCH))[::EVERY]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MkboWarning)
        found = pd.DataFrame([row for target in targets for row in compared(folder / FILE, target)])
    print(found.groupby("begun with").agg(["median", "min"]).round(3).to_string())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
