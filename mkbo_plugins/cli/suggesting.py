"""The command ``mkbo suggest``."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table

from mkbo_plugins.cli.messages import check_writable, counted, print_json
from mkbo_plugins.core.forms import DEFAULT_FORM, of_table
from mkbo_plugins.covariance.base import Covariance, Directions
from mkbo_plugins.covariance.pretrained import PretrainedCovariance
from mkbo_plugins.errors import MkboError, SpaceError, TableError
from mkbo_plugins.messages.commands import plain_errors
from mkbo_plugins.messages.hints import did_you_mean
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.messages.terminal import Terminal
from mkbo_plugins.space.space import ParameterSpace, check_columns
from mkbo_plugins.tables.constraints import warn_broken
from mkbo_plugins.tables.inputfiles import read_space_file, read_table_file, write_table_file
from mkbo_plugins.tables.requirements import Required, Requirement, check_named, noise_of_trials
from mkbo_plugins.tables.table import warn_outside
from mkbo_plugins.tables.trials import Trials, check_not_mistaken, differ, outcome_column

if TYPE_CHECKING:
    import pandas as pd

    from mkbo_plugins.botorch.suggest import Advice, Suggestion

SHOWN_CAMPAIGNS = 5
"""Earlier campaigns that are named as most like the one going on."""

OWN_COLUMNS = ("predicted", "uncertainty", "chance", "reason", "why")


class DirectionName(StrEnum):
    """Which way the table points."""

    same = "same"
    opposite = "opposite"
    unknown = "unknown"


def suggest(
    covariance: Annotated[Path, typer.Option(help="A saved covariance, *.mkbo.json.")],
    done: Annotated[
        Path | None,
        typer.Option(
            help="CSV or Excel table of the experiments so far: a column for each parameter and one for the outcome, "
            "left empty while an experiment is pending, or the word failed if it gave none. No table before the first."
        ),
    ] = None,
    space: Annotated[
        Path | None, typer.Option(help="TOML file with the new problem's parameters, where not those of the table.")
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of experiments to suggest.")] = 1,
    target: Annotated[
        str | None, typer.Option(help="Column of the outcome, if several columns are no parameters.")
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="Column of --done with known standard deviations of the outcome's noise.")
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            help="A further outcome, a column of --done, that must keep to a bound, as 'yield >= 80' or "
            "'impurity <= 0.5'; repeat for several. It counts from three outcomes on."
        ),
    ] = None,
    minimise: Annotated[bool, typer.Option("--minimise", help="Small outcomes are good.")] = False,
    candidates: Annotated[
        Path | None, typer.Option(help="CSV or Excel table to choose from: each row can be tried once.")
    ] = None,
    fix: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of a parameter that stays constant; repeat for several.")
    ] = None,
    direction: Annotated[
        list[DirectionName] | None,
        typer.Option(
            help="Does a large table value speak for a good outcome (same), or a small one (opposite)? If known, the "
            "table proposes the first experiments, and from three outcomes on directs the mean of the model. Unknown "
            "if left out; of several tables, once for all or once for each."
        ),
    ] = None,
    form: Annotated[str, typer.Option(help="How the table is used; stock does without it.")] = DEFAULT_FORM,
    out: Annotated[Path | None, typer.Option(help="Table to write the suggestions to, CSV or Excel.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed; the same input and seed give the same suggestions.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the suggestions as JSON.")] = False,
) -> None:
    """Suggest the next experiments, with what to expect of them and why.

    Nothing is kept between calls and no input is changed: after an interruption, the same command gives the same
    suggestions. Add them to the table of experiments, with an empty outcome while they are pending, or the word
    failed where there will be none: later suggestions keep away from there. Exit codes: 0 suggested; 2 an input cannot
    be used; 130 interrupted.

    Example: mkbo suggest --covariance alloy.mkbo.json --direction same -n 3

    Example: mkbo suggest --covariance alloy.mkbo.json --done done.csv --space space.toml -n 3 --out next.csv

    Example: mkbo suggest --covariance alloy.mkbo.json --done done.xlsx --candidates stock.csv --minimise --json

    Example: mkbo suggest --covariance alloy.mkbo.json --done done.csv --require "elongation_pct >= 12"
    """
    with plain_errors():
        if out is not None:
            check_writable(out, [covariance, done, space, candidates])
        cov = PretrainedCovariance.load(covariance)
        fixed = _fixed(cov, fix or [])
        given = None if space is None else read_space_file(space)
        searched = given or cov.space.without(fixed)
        pool = None if candidates is None else read_table_file(candidates, searched)
        if pool is not None:
            _check_fixed(pool, fixed, cov)
        points = None if pool is None else searched.to_raw(pool)
        if points is not None:
            warn_outside(points, searched, RowNames.of(pool))
            warn_broken(points, searched, RowNames.of(pool))
        requirements = _requirements(require or [], done)
        extra = [name for _, name in _named(requirements, noise)]
        table = None if done is None else read_table_file(done, searched)
        if table is not None:
            for option, name in _named(requirements, noise):
                check_named(table, option, name)
        trials, outcome = _trials(table, target, cov, searched, pool, fixed, [*extra, *_meets_columns(requirements)])
        required = [] if table is None else [Required.from_table(r, table, outcome, searched) for r in requirements]
        deviations = None if noise is None else _noise(table, outcome, noise)
        if out is not None:
            _check_replaced(out, outcome, searched, trials)
        from mkbo_plugins.botorch.suggest import suggest as advise

        advice = advise(
            cov,
            trials,
            n,
            space=given,
            fixed=fixed,
            candidates=points,
            minimise=minimise,
            form=form,
            direction=_direction(direction or [DirectionName.unknown]),
            noise=deviations,
            required=required,
            seed=seed,
        )
        if out is not None:
            write_table_file(_as_table(advice, pool, [outcome, *extra], requirements), out)
        if as_json:
            print_json(_as_json(advice, outcome, requirements))
        else:
            _print(Terminal(), advice, outcome, requirements)


def _direction(words: list[DirectionName]) -> Directions:
    return words[0].value if len(words) == 1 else [word.value for word in words]


def _requirements(texts: list[str], done: Path | None) -> list[Requirement]:
    requirements = [Requirement.parse(text) for text in texts]
    if requirements and done is None:
        raise TableError("--require needs the table of --done with the outcomes that are required; leave it out before")
    for i, one in enumerate(requirements):
        if any((one.outcome, one.at_least) == (other.outcome, other.at_least) for other in requirements[:i]):
            raise TableError(f"--require bounds {one.outcome!r} twice from the same side; keep one")
    return requirements


def _named(requirements: list[Requirement], noise: str | None) -> list[tuple[str, str]]:
    """Return the columns that options name, each with its option."""
    named = [(f"--require {str(one)!r}", one.outcome) for one in requirements]
    return named if noise is None else [*named, ("--noise", noise)]


def _noise(table: "pd.DataFrame | None", outcome: str, noise: str) -> Any:
    if table is None:
        raise TableError("--noise names a column of the table of --done; leave it out before the first experiment")
    return noise_of_trials(table, outcome, noise)


def _fixed(cov: Covariance, entries: list[str]) -> dict[str, Any]:
    """Return values by name from texts NAME=VALUE, each read as its parameter's kind asks."""
    fixed: dict[str, Any] = {}
    for entry in entries:
        name, equals, text = entry.partition("=")
        if not equals:
            raise SpaceError(f"--fix takes NAME=VALUE, got {entry!r}")
        if name not in cov.space.names:
            raise SpaceError(f"--fix names {name!r}, which is not pre-trained{did_you_mean(name, cov.space.names)}")
        if name in fixed:
            raise SpaceError(f"--fix gives {name!r} twice; keep one")
        levels = {str(level): level for level in getattr(cov.space[name], "levels", ())}
        try:
            texts = any(isinstance(level, str) for level in levels.values())
            fixed[name] = levels[text] if text in levels else text if texts else float(text)
        except ValueError:
            expected = f"one of {list(levels)}" if levels else "a number"
            raise SpaceError(f"--fix {name}: expected {expected}, got {text!r}") from None
    return fixed


def _check_fixed(table: "pd.DataFrame", fixed: dict[str, Any], cov: Covariance) -> None:
    """Raise a `TableError` if a table has rows in which a fixed parameter has another value."""
    for name, value in fixed.items():
        if name not in table:
            continue
        given = table[name]
        faulty = np.flatnonzero(given.notna() & (given != value))
        if len(faulty):
            names = RowNames.of(table)
            raise TableError(
                f"--fix {name}={value} does not hold in {names.at(faulty)}, where column {name!r} has other values; "
                f"leave these rows out, or describe {name!r} in the target's --space instead of fixing it"
            )


def _trials(
    table: "pd.DataFrame | None",
    target: str | None,
    cov: Covariance,
    space: ParameterSpace,
    pool: "pd.DataFrame | None",
    fixed: dict[str, Any],
    further: list[str],
) -> tuple[Trials, str]:
    """Return the trials and the name of their outcome, which is none of the further columns."""
    if table is None:
        return Trials.none(space), target or cov.targets[0]
    _check_fixed(table, fixed, cov)
    if target is None:
        labels = [] if pool is None else [str(name) for name in pool.columns]
        constant = [name for name in cov.space.names if name not in space.names]
        ignored = [*OWN_COLUMNS, *_table_columns(cov.tables), *constant, *further]
        columns = [*map(str, table.columns)]
        check_columns(columns, space.names)
        target = outcome_column(columns, space.names, cov.targets, ignored, labels)
        unused = [name for name in columns if name not in {target, *space.names, *ignored, *labels}]
        check_not_mistaken(table, target, unused)
    return Trials.from_table(table, target, space), target


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


def _meets_columns(requirements: list[Requirement]) -> list[str]:
    return [f"chance of {requirement}" for requirement in requirements]


def _meets(suggestion: "Suggestion", requirements: list[Requirement]) -> dict[str, float | None]:
    """Return the chance that each requirement is met, by column; None before there is a model."""
    return dict(zip(_meets_columns(requirements), suggestion.meets or [None] * len(requirements), strict=True))


def _table_columns(tables: int) -> list[str]:
    return [of_table("table_says", i, tables) for i in range(tables)]


def _table_says(suggestion: "Suggestion") -> dict[str, float]:
    """Return what each table predicts, by column."""
    return dict(zip(_table_columns(len(suggestion.table_says)), suggestion.table_says, strict=True))


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
    state = f"{counted(advice.measured, 'experiment')} measured, {advice.pending} pending"
    if advice.failed:
        state += f", {advice.failed} failed"
    if advice.best is not None:
        state += f"; best {outcome} {advice.best:.6g}"
    if advice.noise is not None:
        state += f"; measurement noise about {advice.noise:.2g}"
    console.print(state, soft_wrap=True)
    table = Table("", *(str(i) for i, _ in enumerate(advice.suggestions, 1)))
    for name in advice.suggestions[0].point:
        table.add_row(name, *(_short(s.point[name]) for s in advice.suggestions))
    table.add_section()
    if advice.noise is not None:
        predicted = (f"{s.predicted:.4g} ± {s.uncertainty:.2g}" for s in advice.suggestions)
        table.add_row(f"{outcome}, predicted", *predicted)
        if advice.best is not None:
            table.add_row("chance to beat the best", *(f"{s.chance:.0%}" for s in advice.suggestions))
        for i, name in enumerate(_meets_columns(requirements)):
            table.add_row(name, *(f"{s.meets[i]:.0%}" for s in advice.suggestions))
    table.add_row("for", *(s.reason.value for s in advice.suggestions))
    console.print(table)
    for i, s in enumerate(advice.suggestions, 1):
        console.print(f"{i}: {s.why}", soft_wrap=True)
    if advice.scales:
        scales = ", ".join(f"{name} {value:.3g}" for name, value in advice.scales.items())
        console.print(f"fitted scales: {scales}", soft_wrap=True)
    if advice.verdict is not None:
        console.print(f"Does the table help? {advice.verdict}", soft_wrap=True)
    if advice.most_like:
        shown = ", ".join(f"{name} ({value:.2f})" for name, value in advice.most_like[:SHOWN_CAMPAIGNS])
        console.print(f"most like the earlier campaigns (rank correlation): {shown}", soft_wrap=True)


def _short(value: Any) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)  # fewer digits could break a constraint
