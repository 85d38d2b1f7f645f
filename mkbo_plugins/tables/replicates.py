"""Rows that repeat the settings of another: what is trained on is one row for each setting."""

from dataclasses import replace

import numpy as np
from jaxtyping import Int

from mkbo_plugins.core.training.scatter import weighted_means
from mkbo_plugins.errors import TableError
from mkbo_plugins.tables.table import TrainingTable


def joined_replicates(data: TrainingTable) -> TrainingTable:
    """Return a table with one row for each setting, or, of labels, with the rows of each setting as a group.

    A setting's row has the mean of its values; how many there are, their weights or known noise, and their scatter stay
    known. Where there are groups, rows of different groups stay apart, and labels stay in their groups. Where all
    rows of each setting have the same value, they are copies, and count as one. A table without repeated settings is
    returned as it is.

    Parameters
    ----------
    data
        The table.

    Raises
    ------
    TableError
        If there are fewer than three settings, or their means are constant.
    """
    first, members = _settings(data)
    if len(first) == len(data.y):
        return data
    if len(first) < 3:
        raise TableError(
            f"{len(data.y)} rows have only {len(first)} different settings, and a table needs at least 3; add rows "
            "with others"
        )
    if data.classes is not None:
        return data if data.groups is not None else replace(data, groups=members)
    return _of_means(data, first, members)


def replicates_note(data: TrainingTable, rows: int) -> str:
    """Return in words what became of the replicates among so many rows of a table, given what they were joined to."""
    if data.classes is not None:
        settings = len(np.unique(data.X, axis=0))
        return f"{rows} rows have {settings} different settings; all rows of a setting are held out together"
    note = f"{rows} rows have {len(data.y)} different settings; each setting's mean is trained on"
    if data.noise is None and data.counts is None:
        return f"{rows} rows have {len(data.y)} different settings, each with one value; its copies are left out"
    if data.noise is not None:
        return f"{note}, weighed by the known noise of its rows"
    return (
        f"{note}, weighed by the number of its rows, whose values scatter about it with a standard deviation of "
        f"{np.sqrt(data.scatter.variance):.4g} ({data.scatter.freedom} degrees of freedom)"
    )


def _settings(data: TrainingTable) -> tuple[Int[np.ndarray, " K"], Int[np.ndarray, " N"]]:
    """Return the first row of each setting, in the table's order, and the setting of each row, from 0 to K - 1.

    Rows of different groups have different settings.
    """
    # -0.0 equals 0.0.
    keys = data.X + 0.0 if data.groups is None else np.column_stack([data.X + 0.0, data.groups])
    _, first, members = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), dtype=int)
    place[order] = np.arange(len(order))
    return first[order], place[members.reshape(-1)]


def _of_means(data: TrainingTable, first: Int[np.ndarray, " K"], members: Int[np.ndarray, " N"]) -> TrainingTable:
    groups = None if data.groups is None else data.groups[first]
    if data.noise is not None:
        precision = data.noise**-2
        y = weighted_means(data.y, members, precision)[0]
        noise = np.bincount(members, precision) ** -0.5
        return TrainingTable(data.X[first], y, data.target, groups, None, data.numbers[first], noise=noise)
    counts = np.bincount(members)
    of_rows = np.ones(len(data.y)) if data.sample_weight is None else data.sample_weight
    y, scatter = weighted_means(data.y, members, of_rows)
    weight, unit = None, 1.0
    if data.sample_weight is not None:
        weight = np.bincount(members, of_rows) / counts
        unit = float(weight.mean())
        weight = weight / unit
    means = TrainingTable(data.X[first], y, data.target, groups, weight, data.numbers[first])
    if np.array_equal(data.y, data.y[first][members]):
        # Copies of rows are no measurements: that they agree would speak for a noise of 0.
        return replace(means, y=data.y[first])
    return replace(means, counts=counts, scatter=scatter._replace(sum_of_squares=scatter.sum_of_squares / unit))
