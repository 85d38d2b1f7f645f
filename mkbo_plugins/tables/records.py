"""Columns that say of a run which, where, when or how it was, rather than what it was set to."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

_SETTINGS = re.compile(r"(?:params?|parameters?|config)[_./](?=.)")
"""What trackers of runs put before the name of a setting: Optuna, MLflow, scikit-learn, Weights & Biases."""

_ID = "id ids well plate row col column sample trial experiment exp replicate replicates rep repeat"
_CIRCUMSTANCES = (
    "seed timestamp user operator comment comments note notes remark remarks generation_node generation_method"
)
_RECORDS = frozenset(f"{_ID} {_CIRCUMSTANCES}".split())
_DONE = "complete completed finished done ok success succeeded passed"
_NOT_DONE = (
    "fail failed failure crashed pruned abandoned killed error running waiting pending candidate staged early_stopped "
    "preempted cancelled canceled stopped aborted"
)
_ENDED_WELL = frozenset(_DONE.split())
_ENDED = _ENDED_WELL | frozenset(_NOT_DONE.split())
_DEVIATIONS = frozenset(("sd", "std", "stdev", "stddev", "stderr", "sem"))


class Record(NamedTuple):
    """Columns that may keep a record, and what is asked about them."""

    columns: tuple[str, ...]
    message: str


def is_called_setting(name: str) -> bool:
    """Return whether a column is called as trackers of runs call settings."""
    return _SETTINGS.match(name) is not None


def words(name: str) -> list[str]:
    """Return the words of a name, in lower case."""
    return re.findall(r"[a-z]+\d?", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def records(table: "pd.DataFrame", names: Sequence[str], texts: Iterable[str]) -> list[Record]:
    """Return columns that may be records of runs, each once.

    Parameters
    ----------
    table
        The table.
    names
        Columns that are taken as parameters.
    texts
        Those of them that are taken as levels.
    """
    found: list[Record] = []
    levels = frozenset(texts)
    for kind in (_of_states, _besides_settings, _of_deviations, _by_name, _of_settings):
        known = {name for record in found for name in record.columns}
        left = [name for name in names if name not in known]
        found += kind(table, left, levels)
    return found


def _of_states(table: "pd.DataFrame", names: Sequence[str], texts: frozenset[str]) -> list[Record]:
    """Return columns that say how runs ended, for each of which some did well."""
    found = []
    for name in [name for name in names if name in texts]:
        levels = [str(level) for level in dict.fromkeys(table[name].dropna())]
        well = [level for level in levels if level.casefold() in _ENDED_WELL]
        if not well or any(level.casefold() not in _ENDED for level in levels):
            continue
        others = [level for level in levels if level not in well]
        rows = (
            f", and the rows of {others} out of the file if their outcomes are not to be learned from" if others else ""
        )
        found.append(
            Record(
                (name,),
                f"column {name!r} says how runs ended, which is no setting: leave it out with table.drop(columns=...) "
                f"(--ignore){rows}",
            )
        )
    return found


def _besides_settings(table: "pd.DataFrame", names: Sequence[str], texts: frozenset[str]) -> list[Record]:
    """Return columns that do not begin as settings of a tracker do, where others do."""
    settings = [name for name in names if is_called_setting(name)]
    others = tuple(name for name in names if name not in settings)
    if not settings or not others:
        return []
    return [
        Record(
            others,
            f"columns {list(others)} are not called as settings are, such as {settings[0]!r}; leave those that are "
            "none out with table.drop(columns=...) (--ignore)",
        )
    ]


def _of_deviations(table: "pd.DataFrame", names: Sequence[str], texts: frozenset[str]) -> list[Record]:
    found = [name for name in names if name not in texts and not _DEVIATIONS.isdisjoint(words(name)[-1:])]
    return [
        Record(
            (name,),
            f"column {name!r} seems to hold standard deviations; those of the target's noise are said by noise= "
            "(--noise), any others are left out with table.drop(columns=...) (--ignore)",
        )
        for name in found
    ]


def _by_name(table: "pd.DataFrame", names: Sequence[str], texts: frozenset[str]) -> list[Record]:
    found = tuple(
        name for name in names if name.startswith("_") or not _RECORDS.isdisjoint([name.casefold(), *words(name)[-1:]])
    )
    if not found:
        return []
    return [
        Record(
            found,
            f"columns {list(found)} seem, by their names, to say which run it was, where or by whom, rather than what "
            "it was set to; if they are no parameters, leave them out with table.drop(columns=...) (--ignore)",
        )
    ]


def _of_settings(table: "pd.DataFrame", names: Sequence[str], texts: frozenset[str]) -> list[Record]:
    """Return columns of levels each of which stands for one combination of all others, in several rows."""
    found: list[Record] = []
    for name in [name for name in names if name in texts]:
        others = [other for other in names if other != name and (other,) not in [one.columns for one in found]]
        count = table[name].nunique()
        if len(others) < 2 or not 3 <= count < len(table):
            continue
        if len(table[[name, *others]].drop_duplicates()) == count == len(table[others].drop_duplicates()):
            found.append(
                Record(
                    (name,),
                    f"column {name!r} names settings: each of its {count} values stands for one combination of "
                    f"{others}; if it is no parameter, leave it out with table.drop(columns=...) (--ignore)",
                )
            )
    return found


def without(parameters: Sequence[str], asked: Iterable[str]) -> str | None:
    """Return how to leave out all columns that were asked about, or None where that says nothing or leaves nothing."""
    import shlex

    doubtful = set(asked)
    left = [name for name in parameters if name not in doubtful]
    if len(doubtful) < 2 or not left:
        return None
    given = left if any("," in name for name in left) else [",".join(left)]
    options = " --parameters ".join(map(shlex.quote, given))
    return (
        f"all columns asked about are left out by parameters= (--parameters {options}); add to these names whichever "
        "is a parameter after all"
    )
