"""Options that several commands share."""

from enum import StrEnum

import typer


class TaskName(StrEnum):
    """What the target is."""

    regression = "regression"
    classification = "classification"


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
