"""Tables whose target is one of two class labels, such as passed and failed."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.errors import TableError
from mkbo_plugins.space.parameters import is_finite_number

SHOWN_CLASSES = 5


def read_labels(values: list[Any], target: str) -> tuple[Float[np.ndarray, " N"], tuple[str, str]]:
    """Return labels as -1 and 1, (N,), and the names of these classes.

    Of truth values True is 1, of numbers the larger one, of texts the later one in alphabetical order.

    Parameters
    ----------
    values
        Truth values, numbers or texts, (N,).
    target
        Name of the column.

    Raises
    ------
    TableError
        If they are of another kind, or not of exactly two classes.
    """
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    kinds = (lambda v: isinstance(v, bool), lambda v: isinstance(v, str), is_finite_number)
    if not any(all(map(kind, plain)) for kind in kinds):
        raise TableError(
            f"labels in target {target!r} must all be texts, all be True or False, or all be finite numbers, got "
            f"{sorted({type(value).__name__ for value in plain})}; mend the column"
        )
    classes = sorted(set(plain))
    if len(classes) == 1:
        raise TableError(f"every row of target {target!r} is {classes[0]!r}: there is nothing to tell apart")
    if len(classes) > 2:
        shown = ", ".join(map(repr, classes[:SHOWN_CLASSES])) + (", ..." if len(classes) > SHOWN_CLASSES else "")
        raise TableError(
            f"target {target!r} has {len(classes)} classes ({shown}), and a machine tells two apart: train on one "
            f"against the others, with a column that says whether it is {classes[-1]!r}, or on numbers with "
            "task='regression' (--task regression)"
        )
    return np.where([value == classes[1] for value in plain], 1.0, -1.0), (str(classes[0]), str(classes[1]))


def check_classes(y: Float[np.ndarray, " N"], classes: tuple[str, str], groups: Int[np.ndarray, " N"] | None) -> None:
    """Check that each class is left when any row, or group of rows, is held out.

    Raises
    ------
    TableError
        If it is not.
    """
    members = np.arange(len(y)) if groups is None else groups
    for sign, name in zip((-1.0, 1.0), classes, strict=True):
        if len(np.unique(members[y == sign])) < 2:
            raise TableError(
                f"class {name!r} is found in one {'row' if groups is None else 'group'} only: leave-one-out needs it "
                "in two or more; add rows of it"
            )


def balanced_weights(
    y: Float[np.ndarray, " N"], sample_weight: Float[np.ndarray, " N"] | None
) -> Float[np.ndarray, " N"]:
    """Return weights, (N,), of mean 1, with which both classes weigh the same."""
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    per_class = np.where(y > 0, np.sum(weight[y > 0]), np.sum(weight[y < 0]))
    return weight / per_class * len(y) / 2


def error_rate(
    y: Float[np.ndarray, " N"], predicted: Float[np.ndarray, " N"], weight: Float[np.ndarray, " N"] | None
) -> float:
    """Return the weighted share of labels, -1 and 1, whose predictions are zero or of the other sign."""
    return float(np.average(y * predicted <= 0, weights=weight))
