"""The command ``mkbo suggest``."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table

from mkbo_plugins.cli.campaign import OWN_COLUMNS, meets_columns, read_campaign, table_columns
from mkbo_plugins.cli.messages import check_writable, print_json
from mkbo_plugins.cli.options import (
    CandidatesOption,
    CountOption,
    DirectionOption,
    DoneOption,
    FixOption,
    FormOption,
    MinimiseOption,
    NoiseOption,
    RequireOption,
    SeedOption,
    SpaceOption,
    TargetOption,
)
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.covariance.pretrained import PretrainedCovariance
from mkbo_plugins.errors import MkboError, TableError
from mkbo_plugins.messages.commands import plain_errors
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.messages.terminal import Terminal
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.suggestion.advice import shown
from mkbo_plugins.tables.inputfiles import read_table_file, write_table_file
from mkbo_plugins.tables.requirements import Requirement
from mkbo_plugins.tables.trials import Trials, differ

if TYPE_CHECKING:
    import pandas as pd

    from mkbo_plugins.botorch.suggest import Advice, Suggestion


def suggest(
    covariance: Annotated[Path, typer.Option(help="A saved covariance, *.mkbo.json.")],
    done: DoneOption = None,
    space: SpaceOption = None,
    n: CountOption = 1,
    target: TargetOption = None,
    noise: NoiseOption = None,
    require: RequireOption = None,
    minimise: MinimiseOption = False,
    candidates: CandidatesOption = None,
    fix: FixOption = None,
    direction: DirectionOption = None,
    form: FormOption = DEFAULT_FORM,
    out: Annotated[Path | None, typer.Option(help="Table to write the suggestions to, CSV or Excel.")] = None,
    seed: SeedOption = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the suggestions as JSON.")] = False,
) -> None:
    """Suggest the next experiments, with what to expect of them and why.

    Nothing is kept between calls and no input is changed: after an interruption, the same command gives the same
    suggestions. Add them to the table of experiments, with an empty outcome while they are pending, or the word
    failed where there will be none: later suggestions keep away from there. Exit codes: 0 suggested; 2 an input cannot
    be used; 130 interrupted.

    Example: mkbo suggest --covariance alloy.mkbo.json --direction same -n 3

    Example: mkbo suggest --covariance alloy.mkbo.json --done done.csv --direction same -n 3 --out next.csv

    Example: mkbo suggest --covariance alloy.mkbo.json --done done.xlsx --candidates stock.csv --minimise --json

    Example: mkbo suggest --covariance alloy.mkbo.json --done done.csv --require "elongation_pct >= 12"
    """
    with plain_errors():
        if out is not None:
            check_writable(out, [covariance, done, space, candidates])
        campaign = read_campaign(
            PretrainedCovariance.load(covariance),
            done,
            space,
            candidates,
            target=target,
            noise=noise,
            require=require,
            fix=fix,
            minimise=minimise,
            direction=direction,
            form=form,
        )
        outcome, requirements = campaign.outcome, campaign.requirements
        if out is not None:
            _check_replaced(out, outcome, campaign.searched, campaign.trials)
        advice = campaign.advise(n, seed)
        if out is not None:
            write_table_file(_as_table(advice, campaign.pool, [outcome, *campaign.extra], requirements), out)
        if as_json:
            print_json(_as_json(advice, outcome, requirements))
        else:
            _print(Terminal(), advice, outcome, requirements)


def _check_replaced(out: Path, outcome: str, space: ParameterSpace, trials: Trials) -> None:
    """Raise a `TableError` if the file to be replaced is no table of suggestions, or one with outcomes still needed."""
    if not out.exists() or not out.stat().st_size:
        return
    try:
        earlier = read_table_file(out, space)
        points = space.to_raw(earlier)
    except MkboError as error:
        raise TableError(
            f"{out} would be replaced, but is not a table of suggestions for these parameters ({error}); name another "
            "file, or delete it"
        ) from None
    missing = [name for name in OWN_COLUMNS if name not in earlier]
    if missing:
        raise TableError(
            f"{out} would be replaced, but is not a table of suggestions: it has no column {missing[0]!r}; name "
            "another file, or delete it"
        )
    measured = np.flatnonzero(earlier[outcome].notna()) if outcome in earlier else np.array([], int)
    lost = measured[differ(points[measured], np.concatenate([trials.X, trials.failed]))]
    if len(lost):
        raise TableError(
            f"{out} would be replaced, but has outcomes in column {outcome!r} of experiments that are not among those "
            f"done, in {RowNames.of(earlier).at(lost)}; add them to the table of --done, or name another file"
        )


def _as_table(
    advice: "Advice", pool: "pd.DataFrame | None", outcomes: list[str], requirements: list[Requirement]
) -> "pd.DataFrame":
    """Return suggestions as rows to be filled in: parameters (whole rows of candidates), empty outcomes, reasons."""
    import pandas as pd

    rows: list[dict[Any, Any]] = []
    for s in advice.suggestions:
        point: dict[Any, Any] = (
            dict(s.point) if pool is None or s.candidate is None else pool.iloc[s.candidate].to_dict()
        )
        expected = {name: getattr(s, name) for name in OWN_COLUMNS} | _meets(s, requirements)
        rows.append(point | dict.fromkeys(outcomes) | expected | _table_says(s))
    return pd.DataFrame(rows)


def _meets(suggestion: "Suggestion", requirements: list[Requirement]) -> dict[str, float | None]:
    """Return the chance that each requirement is met, by column; None before there is a model."""
    return dict(zip(meets_columns(requirements), suggestion.meets or [None] * len(requirements), strict=True))


def _table_says(suggestion: "Suggestion") -> dict[str, float]:
    """Return what each table predicts, by column."""
    return dict(zip(table_columns(len(suggestion.table_says)), suggestion.table_says, strict=True))


def _as_json(advice: "Advice", outcome: str, requirements: list[Requirement]) -> dict[str, Any]:
    verdict = advice.verdict
    return {
        "outcome": outcome,
        "measured": advice.measured,
        "pending": advice.pending,
        "failed": advice.failed,
        "best": advice.best,
        "noise": advice.noise,
        "scales": dict(advice.scales),
        "table_helps": None
        if verdict is None
        else {name: getattr(verdict, name) for name in ("answer", "log_ratio", "form", "form_log_ratio", "instead")},
        "most_like": [{"campaign": name, "rank_correlation": value} for name, value in advice.most_like],
        "suggestions": [
            {name: value for name, value in asdict(s).items() if name not in ("table_says", "meets")}
            | _table_says(s)
            | ({"meets": dict(zip(map(str, requirements), s.meets, strict=False))} if requirements else {})
            for s in advice.suggestions
        ],
    }


def _print(console: Terminal, advice: "Advice", outcome: str, requirements: list[Requirement]) -> None:
    console.print(advice.state(outcome), soft_wrap=True)
    table = Table("", *(str(i) for i, _ in enumerate(advice.suggestions, 1)))
    for name, *values in point_rows(advice):
        table.add_row(name, *values)
    table.add_section()
    for name, *values in expected_rows(advice, outcome, requirements):
        table.add_row(name, *values)
    console.print(table)
    for i, s in enumerate(advice.suggestions, 1):
        console.print(f"{i}: {s.why}", soft_wrap=True)
    for sentence in advice.findings:
        console.print(sentence, soft_wrap=True)


def point_rows(advice: "Advice") -> list[list[str]]:
    """Return a row for each parameter: its name and its values in the suggestions."""
    return [[name, *(shown(s.point[name]) for s in advice.suggestions)] for name in advice.suggestions[0].point]


def expected_rows(advice: "Advice", outcome: str, requirements: list[Requirement]) -> list[list[str]]:
    """Return a row for each thing that is expected of the suggestions, and one for what they are for."""
    rows = []
    if advice.noise is not None:
        predicted = [f"{s.predicted:.4g} ± {s.uncertainty:.2g}" for s in advice.suggestions]
        rows.append([f"{outcome}, predicted", *predicted])
        if advice.best is not None:
            rows.append(["chance to beat the best", *(f"{s.chance:.0%}" for s in advice.suggestions)])
        for i, name in enumerate(meets_columns(requirements)):
            rows.append([name, *(f"{s.meets[i]:.0%}" for s in advice.suggestions)])
    return [*rows, ["reason", *(s.reason.value for s in advice.suggestions)]]
