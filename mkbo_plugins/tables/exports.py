"""Tables of trials as optimisers export them: `trials_dataframe` of Optuna, `summarize` of Ax, also read from files."""

import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mkbo_plugins.errors import TableError, TableWarning
from mkbo_plugins.messages.rows import Origin
from mkbo_plugins.space.space import check_doubled

if TYPE_CHECKING:
    import pandas as pd

PARAMETER = "params_"
"""What Optuna puts before the name of a parameter."""

_OPTUNA_STATES = frozenset(("COMPLETE", "PRUNED", "FAIL", "RUNNING", "WAITING"))
_AX_COLUMNS = ("trial_index", "arm_name", "trial_status", "generation_node", "generation_method", "fail_reason")


@dataclass(frozen=True)
class Export:
    """How a program writes its trials.

    Parameters
    ----------
    program
        Its name.
    state, done
        The column that says how a trial ended, and what it holds where it has an outcome.
    """

    program: str
    state: str
    done: str


OPTUNA, AX = Export("Optuna", "state", "COMPLETE"), Export("Ax", "trial_status", "COMPLETED")


def export_of(table: Any) -> Export | None:
    """Return which program wrote a table of trials; None for any other table.

    Raises
    ------
    SpaceError
        If two columns say how trials ended.
    """
    columns = [name for name in getattr(table, "columns", ()) if isinstance(name, str)]
    if AX.state in columns and "arm_name" in columns:
        check_doubled(columns, [AX.state])
        return AX
    if OPTUNA.state not in columns or not any(name.startswith(PARAMETER) for name in columns):
        return None
    check_doubled(columns, [OPTUNA.state])
    states = table[OPTUNA.state].dropna().tolist()
    return OPTUNA if all(isinstance(state, str) and state in _OPTUNA_STATES for state in states) else None


def record_columns(table: "pd.DataFrame") -> tuple[str, ...]:
    """Return the columns of an export that hold no setting; of Ax, metrics cannot be told from settings by name."""
    export = export_of(table)
    if export is None:
        return ()
    if export is AX:
        return tuple(name for name in table.columns if name in _AX_COLUMNS)
    return tuple(name for name in table.columns if not name.startswith(PARAMETER))


def completed(table: Any, names: Collection[str] = ()) -> Any:
    """Return the rows of an export that have an outcome, called as they were; anything else as it is.

    Parameters
    ----------
    table
        What may be an export.
    names
        Names of the parameters; a column that Optuna calls by one of these with `PARAMETER` before it is called so.

    Raises
    ------
    SpaceError
        If two columns say how trials ended.
    TableError
        If no trial is completed.

    Warns
    -----
    TableWarning
        If trials are left out: how many, and how they ended.
    """
    import pandas as pd

    export = export_of(table)
    if export is None:
        return table
    states = table[export.state]
    kept = (states == export.done).to_numpy(dtype=bool, na_value=False)
    others = states[~kept].astype(object)
    ended = others.where(others.notna(), "without a state").map(str)
    warn_of_left_out(f"{export.program}'s table of trials", ended, export.done)
    if not kept.any():
        raise TableError(f"{export.program}'s table has no trial that is {export.done}; run some first")
    own = isinstance(table.index.name, Origin)
    numbers = table.index if own else pd.Index(np.arange(len(table)), name=Origin("row", "the table, counting from 0"))
    renamed = {PARAMETER + name: name for name in names if PARAMETER + name not in names and name not in table.columns}
    return table.set_axis(numbers)[kept].drop(columns=export.state).rename(columns=renamed)


def warn_of_left_out(what: str, states: Iterable[str], done: str) -> None:
    """Warn of trials that are left out as they ended otherwise than `done`; counts them by their states."""
    counts: dict[str, int] = {}
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    if counts:
        total, parts = sum(counts.values()), ", ".join(f"{n} {state}" for state, n in counts.items())
        verb = "trial is" if total == 1 else "trials are"
        warnings.warn(f"{what}: {total} {verb} left out, not being {done}: {parts}", TableWarning, stacklevel=3)
