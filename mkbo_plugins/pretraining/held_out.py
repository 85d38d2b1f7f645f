"""What a trained machine predicts for each row of its table when that row is held out."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from mkbo_plugins.core.gp.exact_gp import held_out_residuals, symmetric_inverse
from mkbo_plugins.core.training.subset import farthest_point_subset
from mkbo_plugins.core.training.svr import leave_one_out
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.covariance.pretrained import PretrainedCovariance, only_table
from mkbo_plugins.errors import TableError
from mkbo_plugins.pretraining import long_tables
from mkbo_plugins.pretraining.trainers import held_out_error, machine_weights, noise_weights
from mkbo_plugins.tables.labels import balanced_weights
from mkbo_plugins.tables.ranking import by_rank
from mkbo_plugins.tables.replicates import joined_replicates
from mkbo_plugins.tables.table import Task, TrainingTable, read_table


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Values and their predictions from all other rows.

    Parameters
    ----------
    values
        The target in the table's units, (n,); labels are -1 and 1.
    predicted
        Held-out predictions in the same units, (n,).
    numbers
        Number of each row in the table given, (n,), counting from 0.
    classes
        Names of the classes -1 and 1 where the target is a label, else None.
    """

    values: Float[np.ndarray, " n"]
    predicted: Float[np.ndarray, " n"]
    numbers: Int[np.ndarray, " n"]
    classes: tuple[str, str] | None


def held_out(
    cov: Covariance,
    table: Any,
    *,
    groups: Any = None,
    sample_weight: Any = None,
    noise: Any = None,
    missing: Literal["error", "drop"] = "error",
) -> HeldOut:
    """Return exact leave-one-out predictions of the machine behind a covariance, for the table it was trained on.

    Exact means that nothing is estimated: every prediction is that of a fit without the row, the settings and weights
    held. Of a support vector machine these fits are as exact as their solver, to about 1e-4 standard deviations of the
    target, unlike the saved coefficients, which are solved in double precision.

    Of rows that repeat a setting, there is one with their mean, and the number of the first. Where some rows of a long
    table stand for all, predictions are those of the regression that gave them their values, with the kernel trained.

    Parameters
    ----------
    cov
        The covariance.
    table, groups, sample_weight, noise, missing
        As they were given to `pretrain`.

    Raises
    ------
    TableError
        If the table is not the one trained on.
    """
    cov = only_table(cov)
    record = cov.record
    if cov.campaigns:
        raise TableError(
            "held-out predictions are of one table, and this covariance is of several campaigns; cov.campaigns says "
            "how well each predicts its own rows"
        )
    task: Task = "classification" if record.task == "classification" else "regression"
    data = read_table(
        table,
        record.target,
        cov.space,
        task=task,
        log_target=cov.log_target,
        groups=groups,
        sample_weight=sample_weight,
        noise=noise,
        missing=missing,
    )
    values = joined_replicates(data).y
    data = joined_replicates(data if cov.ranked is None else by_rank(data))
    X = np.asarray(cov.space.to_coordinates(data.X, cov.frame))
    if len(X) > record.rows:
        used = farthest_point_subset(X, record.rows)
        X, data, values = X[used], data.rows(used), values[used]
    if not set(map(tuple, cov.support)) <= set(map(tuple, X)):
        raise TableError(
            f"the table is not the one that the covariance was trained on ({record.rows} rows, target "
            f"{record.target!r}): rows of that one are not in it"
        )
    if data.classes is not None:
        data = replace(data, sample_weight=balanced_weights(data.y, data.sample_weight))
    residuals = _of_regression(cov, X, data)
    if residuals is None:
        residuals = (_of_process if record.trainer == "gp" else _of_machine)(cov, X, data)
    if not _is_recorded(cov, data, residuals):
        raise TableError(
            "values, weights or groups of the table are not those that the covariance was trained on: held-out errors "
            "differ"
        )
    predicted = data.y + residuals if cov.ranked is None else cov.ranked.value_of(data.y + residuals)
    if cov.log_target:
        values, predicted = np.exp(values), np.exp(predicted)
    return HeldOut(values, predicted, data.numbers, data.classes)


def _is_recorded(cov: PretrainedCovariance, data: TrainingTable, residuals: Float[np.ndarray, " N"]) -> bool:
    return math.isclose(held_out_error(data, residuals), cov.record.loo_mse, rel_tol=1e-3, abs_tol=1e-12)


def _of_regression(
    cov: PretrainedCovariance, X: Float[np.ndarray, "N d"], data: TrainingTable
) -> Float[np.ndarray, " N"] | None:
    """Return the residuals of a table that some of its rows stand for; None if the recorded error is not of these."""
    if len(X) <= long_tables.STAND_INS or data.classes is not None or len(cov.alpha) > long_tables.STAND_INS:
        return None
    landmarks = X[farthest_point_subset(X, long_tables.STAND_INS)]
    residuals = long_tables.regression(cov.kernel, X, data, landmarks).residuals
    return residuals if _is_recorded(cov, data, residuals) else None


def _of_machine(cov: PretrainedCovariance, X: Float[np.ndarray, "N d"], data: TrainingTable) -> Float[np.ndarray, " N"]:
    gram = np.asarray(cov.kernel.gram(X))
    labels = data.classes is not None
    assert cov.C is not None
    epsilon = cov.epsilon or 0.0
    return leave_one_out(gram, data.y, cov.C, epsilon, machine_weights(data), data.groups, labels=labels).residuals


def _of_process(cov: PretrainedCovariance, X: Float[np.ndarray, "N d"], data: TrainingTable) -> Float[np.ndarray, " N"]:
    gram = np.asarray(cov.kernel.gram(X))
    weight = noise_weights(data)
    factors = [np.ones(len(X)) if weight is None else 1 / weight]
    factors += [] if data.noise is None else [data.noise**2]
    # A process leaves residuals of noise / amplitude times its dual vector, which gives back the shares of the noise.
    residual = data.y - cov.fixed.decision(X)
    alike = len(cov.alpha) == len(X)
    if alike:
        shares = np.linalg.lstsq(np.column_stack([factor * cov.alpha for factor in factors]), residual)[0]
        noise = np.column_stack(factors) @ shares
    if not (alike and np.allclose(residual, noise * cov.alpha, atol=1e-6 * np.ptp(data.y))):
        raise TableError("values or weights of the table are not those that the covariance was trained on")
    return -held_out_residuals(symmetric_inverse(gram + np.diag(noise)), cov.alpha, data.groups)
