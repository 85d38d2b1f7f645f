"""What a library would have saved on its own campaigns, as ``mkbo pretrain --forecast`` prints it."""

import warnings
from enum import StrEnum
from typing import Any

from rich.table import Table

from mkbo_plugins.errors import MkboWarning, TableError
from mkbo_plugins.messages.terminal import Terminal
from mkbo_plugins.pretraining.left_out_campaigns import LeftOutCampaigns, leave_one_campaign_out
from mkbo_plugins.space.space import ParameterSpace


class Aim(StrEnum):
    """Which outcomes campaigns look for."""

    maximise = "maximise"
    minimise = "minimise"


def check_aim(aim: Aim | None, by: str | None, *, pool: bool) -> None:
    """Raise a `TableError` if there is an aim without campaigns."""
    if aim is not None and by is None and not pool:
        raise TableError("--forecast leaves out one campaign at a time; name their column with --by, or pool tables")


def forecast_of(
    table: Any, target: str, space: ParameterSpace, *, aim: Aim, narrow: bool, **settings: Any
) -> LeftOutCampaigns:
    """Return what `leave_one_campaign_out` does, without warnings that training has given already."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MkboWarning)
        return leave_one_campaign_out(table, target, space, minimise=aim == Aim.minimise, narrow=narrow, **settings)


def print_forecast(console: Terminal, forecast: LeftOutCampaigns) -> None:
    """Print the trials of each campaign that was left out, and what follows."""
    table = Table(
        "campaign left out",
        "rows",
        "among the best",
        "by chance",
        "stock",
        "first trials",
        "library",
        title="Trials to one of the best rows of a campaign: in random order, with the stock covariance, in the order "
        "that the others propose, and with their covariance",
    )
    for one in forecast.campaigns:
        counts = [_shown(count, forecast.trials) for count in (one.stock, one.first_trials, one.library)]
        table.add_row(one.name, str(one.rows), str(one.good), f"{one.by_chance:.1f}", *counts)
    console.print(table)
    console.print(forecast.conclusion, soft_wrap=True)


def _shown(count: float, most: int) -> str:
    return f"more than {most}" if count > most else f"{count:.4g}"
