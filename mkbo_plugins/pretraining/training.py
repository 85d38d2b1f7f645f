"""Pre-training: from a table of condensed knowledge to a covariance function."""

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from mkbo_plugins.core import Exponential, FreeKernel, Linear, Polynomial, SquaredExponential
from mkbo_plugins.covariance.combined import CombinedCovariance
from mkbo_plugins.covariance.limits import COORDINATES
from mkbo_plugins.covariance.record import TRAINERS, Trainer
from mkbo_plugins.errors import FitError, MkboWarning
from mkbo_plugins.pretraining.campaigns import fit_campaigns
from mkbo_plugins.pretraining.inputs import Source, check_alike, sources_of
from mkbo_plugins.pretraining.members import CAMPAIGN, campaigns_of, members_of, pooled
from mkbo_plugins.pretraining.one_table import Fitted, Rows, Settings, chained, check_counts, check_flags, fit_table
from mkbo_plugins.space.described import Described
from mkbo_plugins.space.parameters import Frame
from mkbo_plugins.space.space import ParameterSpace, check_frame
from mkbo_plugins.tables.table import Task, TrainingTable, read_table

KERNELS: dict[str, FreeKernel] = {
    "se": SquaredExponential(),
    "exponential": Exponential(),
    "polynomial": Polynomial(degree=3),
    "linear": Linear(),
}


def pretrain(
    table: Any,
    target: str | Sequence[str | None] | None = None,
    space: ParameterSpace | Sequence[ParameterSpace] | None = None,
    kernel: str | FreeKernel = "se",
    ard: bool = True,
    frame: Frame = "centred",
    task: Task = "regression",
    trainer: Trainer = "svm",
    *,
    combine: Literal["sum", "chain", "pool"] = "sum",
    by: str | None = None,
    dates: str | None = None,
    C: float | Sequence[float] | None = None,
    sigma: float | Sequence[float] | None = None,
    epsilon: float | Sequence[float] | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    noise: Any = None,
    missing: Literal["error", "drop"] = "error",
    log_target: bool = False,
    rank_target: bool = False,
    max_rows: int | None = None,
    n_jobs: int | None = None,
    progress: bool = True,
    resume: str | os.PathLike[str] | None = None,
) -> Any:
    """Pre-train a covariance function on a table of condensed knowledge, or on several.

    Parameters
    ----------
    table
        DataFrame with a column for each parameter and the target, or a pair of arrays (X, y): X (N, number of
        parameters) in raw units with columns in space order, y (N,); or the result of a scikit-optimize run, or an
        Optuna study, whose completed trials are the rows. Of a DataFrame that Optuna's ``trials_dataframe`` or Ax's
        ``summarize`` gave, completed trials are the rows, too, and parameters are called as in `space`, with or without
        Optuna's ``params_``; a warning counts the others.
        A list of these for several tables.
    target
        Name of the target column; of several tables, one for all or a list with one for each.
    space
        The table's parameters; `ParameterSpace.from_table` makes one from the columns' extremes. Of several tables, a
        list with one for each, or one for all, of which each DataFrame has the parameters that are among its columns.
    kernel
        ``"se"``, ``"exponential"``, ``"polynomial"`` (of degree 3), ``"linear"``, or a free kernel, whose weights
        (and sigma) are replaced.
    ard
        Learn a weight for each coordinate from the table (by the marginal likelihood of a Gaussian process), then a
        common scale; otherwise all weights are equal, as in the paper.
    frame
        ``"centred"`` maps bounds to [-1, 1], ``"unit"`` to [0, 1]. The frame decides what is learned: the
        re-weighted kernel depends on the origin.
    task
        ``"regression"``, or ``"classification"`` for a target of two labels: texts, truth values or numbers. The later
        one in order (True, the larger number, the later text) is 1, the other -1; both classes are given the same
        weight, however many rows each has. C and sigma minimise the hinge loss of held-out rows.
    trainer
        ``"svm"``: dual coefficients of a support vector machine whose C, epsilon and sigma minimise the exact
        leave-one-out error, squared in regression; ``"gp"``: dual vector and mean of the Gaussian process (of labels,
        of the numbers -1 and 1).
    combine
        What becomes of several tables. ``"sum"``: each has a covariance of its own, and models sum over them with
        scales that the optimiser fits; tables may share all, some or none of their parameters. ``"chain"``: one kernel
        that each table re-weights in turn (Theorem 3 applied to its own result; the order does not matter to it), for
        tables with the same parameters. Its coordinate weights and sigma are those of the last table, whose decision
        function is kept too; so the table nearest to the target comes last. ``"pool"``: tables are campaigns of one
        kind, as with `by`, called by their studies' names or numbered.
    by
        Name of a column that says which campaign a row is of, such as earlier studies, machines or data sets. The
        outcomes of each are taken as normal scores of their ranks, as for `rank_target`. One machine is trained on what
        campaigns have in common, the mean of their predictions; in covariance models, the covariance of these
        predictions over campaigns is added to its moment. All share coordinate weights, which the longest ten campaigns
        give. A single campaign is as its table without `by`.
    dates
        Name of a column with the day of each row, as 2026-11-03, or a time that begins so. Each campaign is recorded
        with its first and last day; nothing is learned from them.
    C, sigma, epsilon
        Value or values to try, instead of the default grids: C and epsilon in the target's units (after the
        logarithm, or in normal scores, if these are taken; for labels C has no unit, and there is no epsilon), sigma in
        squared frame coordinates. For kernels without a sigma, the weights are divided by it.
    groups
        Column name or labels (N,); rows of one group are left out together. Rows of the same settings are so in any
        case. Of several tables, a column name for all or a list with one entry for each, as for `sample_weight` and
        `noise`.
    sample_weight
        Column name or positive weights (N,) of the rows: the noise variance of a row is divided by its weight, its box
        bound and its share of the leave-one-out error are multiplied by it.
    noise
        Column name or standard deviations (N,) of the measurement noise, where it is known, in the target's units. The
        Gaussian process has this noise and a fitted one, the same for all rows, on top of it; box bounds of a support
        vector machine are divided by it. It takes the place of `sample_weight`.
    missing
        What to do with rows that lack a value: ``"error"``, or ``"drop"`` with a warning that lists them.
    log_target
        Train on the logarithm of the target.
    rank_target
        Train on normal scores of the target's ranks, which no unit, scale or tail of its distribution changes;
        predictions are turned back to values. Noise becomes what it changes of a score. Outcomes of campaigns are
        ranked within each in any case.
    max_rows
        Most rows to train on. Of a longer table, rows that fill the space (each as far as can be from those before it,
        in frame coordinates) are the whole table to weights, leave-one-out and support vectors; a warning names them
        and tells the error on the rows not used. Training time grows with the cube of this number.
        Without it, 500 such rows stand for a longer table: each has the value there of a kernel ridge regression on
        all rows in their span, and its standard error as `noise`. The recorded leave-one-out error is then that of
        the regression, with the kernel trained, on all rows. Of labels, these 500 rows are trained on as they are.
        Of campaigns, it is the number of settings, of those of all campaigns together, in whose span all rows of each
        are regressed; without it 500, or so many that coefficients for all campaigns fit into a file.
    n_jobs
        Parallel workers, as joblib understands it.
    progress
        Show a progress bar where a person can see it.
    resume
        File in which trainer ``"svm"`` keeps coordinate weights and finished grid cells; where an interrupted call
        left one, the same call goes on from there. It may be deleted afterwards. For a single table only.

    Returns
    -------
    PretrainedCovariance or CombinedCovariance
        The fitted, frozen covariance; a combined one of several tables with ``combine="sum"``.

    Raises
    ------
    MkboError
        A `TableError`, `SpaceError`, `KernelError` or `FitError` that says what is wrong and what to do.

    Warns
    -----
    GridEdgeWarning
        If the best value of a grid is its first or last one.
    TableWarning
        If the table is usable, but rows lie outside the bounds, break a constraint or were left out; or if columns sum
        to a constant and no constraint says so.
    SampleWarning
        If only some rows were trained on, or stand for all; its ``rows`` names them.

    Notes
    -----
    Source: Shilton et al., arXiv 1802.05370; coordinate weights and trainer ``"gp"`` are extensions of it.
    The leave-one-out error is conditional on coordinate weights, which all rows have shaped.

    Of rows that repeat the same settings (in the same group), the mean is trained on, weighed by their number; for the
    Gaussian process that is the model of all rows, whose noise their scatter tells. Of labels all rows are trained on,
    and those of a setting held out together. `max_rows` counts settings then, and of labels rows.
    """
    flags = {"ard": ard, "log_target": log_target, "rank_target": rank_target, "progress": progress}
    _check_settings(frame, task, trainer, combine, flags)
    check_counts(max_rows, n_jobs)
    _check_scale(task, epsilon, log_target=log_target, rank_target=rank_target)
    if resume is not None and not isinstance(resume, (str, os.PathLike)):
        raise FitError(f"resume (--resume) must name a file, got {type(resume).__name__}")
    grids = {"C": C, "sigma": sigma, "epsilon": epsilon}
    if trainer == "gp":
        given = [name for name, value in (grids | {"resume": resume}).items() if value is not None]
        if given:
            raise FitError(
                f"trainer='gp' (--trainer gp) learns its scales from the evidence; leave out {given}, or use "
                "trainer='svm' (--trainer svm)"
            )
    settings = Settings(
        _template(kernel),
        ard,
        frame,
        task,
        trainer,
        grids,
        bool(log_target),
        bool(rank_target),
        max_rows,
        n_jobs,
        progress,
        resume,
    )
    if combine == "pool":
        (table, target), by = pooled(table, target, space, by), CAMPAIGN if by is None else by
    sources = sources_of(table, target, space, groups, sample_weight, noise)
    _check_several(len(sources), combine, trainer, resume)
    told = members_of(sources, by, dates, task, resume)
    if combine == "chain":
        check_alike(sources)
    tables = []
    for source in sources:
        with source.named_errors():
            _check_size(source.space)
            data = read_table(
                source.table,
                source.target,
                source.space,
                task=task,
                log_target=log_target,
                groups=source.groups,
                sample_weight=source.sample_weight,
                noise=source.noise,
                missing=missing,
            )
            for remark in source.remarks(data):
                warnings.warn(source.named(remark), stacklevel=2)
            tables.append(data)
    campaigns = [] if told is None else campaigns_of(tables[0], told, sources[0].space, settings)
    if len(campaigns) > 1:
        fits = [fit_campaigns(campaigns, sources[0].space, settings)]
    else:
        rows = _rows_of_each(sources, tables, settings)
        fits = _fit_each(sources, rows, settings, chain=combine == "chain")
    for note in _warnings(sources, fits):
        warnings.warn(note, stacklevel=2)
    covs = [fit.cov for fit in fits]
    if len(covs) == 1:
        return covs[0]
    return chained(covs[:-1], covs[-1], rows[-1].trained) if combine == "chain" else CombinedCovariance(tuple(covs))


def _rows_of_each(sources: Sequence[Source], tables: Sequence[TrainingTable], settings: Settings) -> list[Rows]:
    """Return what of each table is trained on."""
    found = []
    for source, data in zip(sources, tables, strict=True):
        with source.named_errors():
            found.append(Rows.of(data, source.space, settings))
    return found


def _fit_each(sources: Sequence[Source], rows: Sequence[Rows], settings: Settings, *, chain: bool) -> list[Fitted]:
    """Return the covariance of each table; in a chain all have the kernel of the last one."""
    fits: list[Fitted] = []
    for source, one in zip(reversed(sources), reversed(rows), strict=True):
        with source.named_errors():
            fits.append(fit_table(one, settings, fits[0].cov.kernel if chain and fits else None))
    return fits[::-1]


def _warnings(sources: Sequence[Source], fits: Sequence[Fitted]) -> Iterator[MkboWarning]:
    """Yield what deserves a look in fits and is no mere note, each with the name of its table."""
    for source, fit in zip(sources, fits, strict=True):
        yield from (source.named(note) for note in fit.notes if isinstance(note, MkboWarning))


def _check_scale(task: Task, epsilon: Any, *, log_target: bool, rank_target: bool) -> None:
    if task == "classification" and (epsilon is not None or log_target or rank_target):
        raise FitError(
            "labels have no tube, no logarithm and no ranks; leave out epsilon, log_target (--log-target) and "
            "rank_target (--rank-target)"
        )
    if rank_target and log_target:
        raise FitError("no logarithm changes ranks; leave out log_target (--log-target) or rank_target (--rank-target)")


def _check_several(tables: int, combine: str, trainer: str, resume: Any) -> None:
    if tables > 1 and resume is not None:
        raise FitError("resume keeps the search on one table; train each by itself and join them, CombinedCovariance")
    if tables > 1 and combine == "chain" and trainer == "gp":
        raise FitError(
            "combine='chain' (--combine chain) trains machines with one kernel, which trainer='gp' (--trainer gp) "
            "cannot; use trainer='svm' (--trainer svm)"
        )


def _check_size(space: ParameterSpace) -> None:
    described = sum(len(p.levels) for p in space.parameters if isinstance(p, Described))
    count = len(space.coordinate_names) + described
    if count > COORDINATES:
        kinds = "parameters, levels and descriptors" if described else "parameters and levels"
        raise FitError(
            f"the space has {count} {kinds}, and a covariance takes at most {COORDINATES}; leave out "
            "what hardly matters, as with ignore (--ignore) or parameters (--parameters)"
        )


def _template(kernel: str | FreeKernel) -> FreeKernel:
    if isinstance(kernel, FreeKernel):
        # A sigma is replaced together with the weights, which are learned relative to it.
        return kernel if kernel.exponent_rate is None else replace(kernel, sigma=1.0)  # type: ignore[call-arg]
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise FitError(f"kernel must be one of {list(KERNELS)} or a free kernel, got {kernel!r}")
    return KERNELS[kernel]


def _check_settings(frame: str, task: Any, trainer: Any, combine: Any, flags: dict[str, bool]) -> None:
    check_frame(frame)
    for name, value, allowed in (
        ("task", task, get_args(Task)),
        ("trainer", trainer, TRAINERS),
        ("combine", combine, ("sum", "chain", "pool")),
    ):
        if not isinstance(value, str) or value not in allowed:
            *others, last = map(repr, allowed)
            raise FitError(f"{name} must be {', '.join(others)} or {last}, got {value!r:.60}")
    check_flags(flags)
