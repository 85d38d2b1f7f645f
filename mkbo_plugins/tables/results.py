"""What optimisers leave behind as tables: a result of scikit-optimize, and a study of Optuna."""

from typing import TYPE_CHECKING, Any

import numpy as np

from mkbo_plugins.errors import TableError
from mkbo_plugins.messages.hints import did_you_mean
from mkbo_plugins.messages.rows import Origin
from mkbo_plugins.space.levels import as_level
from mkbo_plugins.tables.exports import OPTUNA, warn_of_left_out

if TYPE_CHECKING:
    import pandas as pd


def is_result(table: Any) -> bool:
    """Return whether a table is the result of a scikit-optimize run."""
    return all(hasattr(table, name) for name in ("x_iters", "func_vals")) and hasattr(
        getattr(table, "space", None), "dimensions"
    )


def is_study(table: Any) -> bool:
    """Return whether a table is an Optuna study."""
    return all(hasattr(table, attribute) for attribute in ("get_trials", "study_name", "directions"))


def as_frame(table: Any, target: str | None) -> tuple[Any, str | None]:
    """Return the result of a run or a study as a table, with the name of its target; anything else as it is."""
    if is_result(table):
        return from_result(table, target)
    return from_study(table, target) if is_study(table) else (table, target)


def from_result(result: Any, target: str | None) -> tuple["pd.DataFrame", str]:
    """Return the points a scikit-optimize result tried as a table, with the values found, and their column.

    Raises
    ------
    TableError
        If a dimension has no name, or that of the target, or there is not one value for each point.
    """
    import pandas as pd

    names = [dimension.name for dimension in result.space.dimensions]
    nameless = [j for j, name in enumerate(names) if name is None]
    if nameless:
        raise TableError(
            f"dimensions {nameless} of the result (counting from 0) have no name; set dimension.name for each, or pass "
            "(X, y)"
        )
    target = "objective" if target is None else target
    if target in names:
        raise TableError(f"target {target!r} is also a dimension of the result; give the target another name")
    points, values = len(result.x_iters), np.shape(result.func_vals)
    if values != (points,):
        raise TableError(
            f"the result has {points} points in x_iters, and func_vals of shape {values}; it must have one for each"
        )
    return pd.DataFrame(result.x_iters, columns=names).assign(**{target: result.func_vals}), target


def from_study(study: Any, target: str | None) -> tuple["pd.DataFrame", str]:
    """Return the completed trials of an Optuna study as a table, with a column for each parameter and the values found.

    Parameters that a trial does not have, and values that are not finite, are missing.

    Parameters
    ----------
    study
        The study.
    target
        Which objective, by its name if the study has names for them, else ``"value"``, or of several ``"values_0"`` and
        so on, as Optuna's own tables call them; None is the only one.

    Raises
    ------
    TableError
        If there is no such objective, it has the name of a parameter, or no trial is completed.

    Warns
    -----
    TableWarning
        If trials are left out since they failed, were pruned or are running.
    """
    import pandas as pd

    count = len(study.directions)
    names = study.metric_names or (["value"] if count == 1 else [f"values_{i}" for i in range(count)])
    if target is None and count > 1:
        raise TableError(f"the study has {count} objectives; name the target, one of {names}")
    target = names[0] if target is None else target
    if target not in names:
        raise TableError(
            f"target {target!r} is no objective of the study, which has {names}{did_you_mean(target, names)}"
        )
    every = study.get_trials(deepcopy=False)
    trials = [trial for trial in every if trial.state.name == OPTUNA.done]
    others = [trial.state.name for trial in every if trial.state.name != OPTUNA.done]
    warn_of_left_out(f"the study {study.study_name!r}", others, OPTUNA.done)
    if not trials:
        raise TableError("the study has no completed trial yet; run it first")
    if any(target in trial.params for trial in trials):
        raise TableError(
            f"target {target!r} is also a parameter of the study; name its objective by study.set_metric_names"
        )
    values = [trial.values[names.index(target)] for trial in trials]
    rows = [
        {name: as_level(choice) for name, choice in trial.params.items()}
        | {target: value if np.isfinite(value) else np.nan}
        for trial, value in zip(trials, values, strict=True)
    ]
    index = pd.Index([trial.number for trial in trials], name=Origin("trial", f"the study {study.study_name!r}"))
    return pd.DataFrame(rows, index=index), target
