"""Options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class TaskName(StrEnum):
    """What the target is."""

    regression = "regression"
    classification = "classification"


class DirectionName(StrEnum):
    """Which way the table points."""

    same = "same"
    opposite = "opposite"
    unknown = "unknown"


_TABLE = (
    "CSV file or Excel workbook with a header; a column for each parameter and the target. One of several sheets is "
    "named as book.xlsx::Sheet1."
)
TABLE = typer.Argument(help=_TABLE)
TABLES = typer.Argument(metavar="TABLE...", help=f"{_TABLE} Several tables give one covariance.")
TASK = typer.Option(help="Target of numbers, or of two labels.")
IGNORE = typer.Option(help="Column that is not a parameter, where no --space is given; repeat for several.")
GROUPS = typer.Option(help="Column whose equal values mark rows that are held out together.")
NOISE = typer.Option(help="Column of known standard deviations of the target's measurement noise.")
PARAMETERS = typer.Option(
    help="Columns that are the parameters, as a,b,c, where no --space is given: the other way to say --ignore. May be "
    "repeated, as for names with a comma."
)
LEVELS = typer.Option(
    help="Column every word of which is a level, None and NA and numbers too, where no --space is given; repeat for "
    "several."
)
DoneOption = Annotated[
    Path | None,
    typer.Option(
        help="CSV or Excel table of the experiments so far: a column for each parameter and one for the outcome, "
        "left empty while an experiment is pending, or the word failed if it gave none. No table before the first."
    ),
]
SpaceOption = Annotated[
    Path | None, typer.Option(help="TOML file with the new problem's parameters, where not those of the table.")
]
CountOption = Annotated[int, typer.Option("-n", min=1, help="Number of experiments to suggest.")]
TargetOption = Annotated[str | None, typer.Option(help="Column of the outcome, if several columns are no parameters.")]
NoiseOption = Annotated[
    str | None, typer.Option(help="Column of --done with known standard deviations of the outcome's noise.")
]
RequireOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A further outcome, a column of --done, that must keep to a bound, as 'yield >= 80' or "
        "'impurity <= 0.5'; repeat for several. It counts from three outcomes on."
    ),
]
MinimiseOption = Annotated[bool, typer.Option("--minimise", help="Small outcomes are good.")]
CandidatesOption = Annotated[
    Path | None, typer.Option(help="CSV or Excel table to choose from: each row can be tried once.")
]
FixOption = Annotated[
    list[str] | None, typer.Option(help="NAME=VALUE of a parameter that stays constant; repeat for several.")
]
DirectionOption = Annotated[
    list[DirectionName] | None,
    typer.Option(
        help="Does a large table value speak for a good outcome (same), or a small one (opposite)? If known, the "
        "table proposes the first experiments, and from three outcomes on directs the mean of the model. Unknown "
        "if left out; of several tables, once for all or once for each."
    ),
]
FormOption = Annotated[str, typer.Option(help="How the table is used; stock does without it.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed; the same input and seed give the same suggestions.")]
