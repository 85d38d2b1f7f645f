"""Pre-training: what is learned, and that the same table always teaches the same."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.core import Exponential, Linear, Polynomial, SquaredExponential, TaylorSeries
from mkbo_plugins.covariance.base import GRAM_FORMS
from mkbo_plugins.covariance.limits import COORDINATES
from mkbo_plugins.errors import FitError, SampleWarning, TableWarning
from tests.conftest import MIXED_SPACE, mixed_table, shared_file

TABLE = mixed_table()
SPACE = ParameterSpace.from_dict(MIXED_SPACE)
N = len(TABLE)
FIXED = {"C": 5.0, "sigma": 2.0, "epsilon": 0.05, "ard": False, "progress": False}
NOISY = TABLE.assign(strength=TABLE["strength"] + np.random.default_rng(0).normal(0, 0.3, N))
GRIDS = {"C": [0.1, 3.0, 30.0], "sigma": [0.1, 2.0, 50.0], "epsilon": [0.0, 0.05, 0.2]}


def train(table=TABLE, target="strength", **settings):
    return pretrain(table, target, SPACE, **({} if settings.get("trainer") == "gp" else FIXED) | settings)


@functools.cache
def standard(trainer):
    """Return what the table teaches; for tests that compare something else with it."""
    return train(trainer=trainer)


# What the numbers must be


REFERENCE = ["se 0.36", "se 0.1225", "se 1.44", "exp 0.36"]


@pytest.mark.parametrize("entry", range(4), ids=REFERENCE)
def test_authors_own_program(entry):
    """The authors' program, trained on the same rows with the same settings, prints these values."""
    reference = json.loads(shared_file("reference/svmheavy_values.json").read_text())["svr"][entry]
    X, y, expected = (np.array(reference[key]) for key in ("X", "y", "alpha"))
    cov = pretrain(
        (X, y),
        space=ParameterSpace.from_dict({"a": (0, 1), "b": (0, 1)}),
        kernel={"se": "se", "exp": "exponential"}[reference["kernel"]],
        ard=False,
        frame="unit",
        C=reference["C_over_N"],
        sigma=reference["sigma"],
        epsilon=reference["epsilon"],
        progress=False,
    )
    alpha = np.zeros(len(y))
    for point, value in zip(cov.support, cov.alpha, strict=True):
        alpha[np.flatnonzero((point == X).all(axis=1))] = value
    scale = reference["C_over_N"]
    assert alpha == pytest.approx(expected, abs=2e-4 * scale)
    assert cov.bias == pytest.approx(reference["bias"], abs=1e-4)
    assert cov.loo_mse == pytest.approx(reference["loo_mse"], rel=3e-3)
    assert (cov.C, cov.sigma, cov.epsilon) == (scale, reference["sigma"], reference["epsilon"])
    assert np.array_equal(cov.weights, [1, 1])


def test_support_vector_machine_is_optimal(cov, table):
    """The optimality conditions of the dual: no solver is needed to check them."""
    residual = table["strength"].to_numpy() - cov.predict(table)
    alpha = np.zeros(len(table))
    Z = cov.to_coordinates(table)
    for point, value in zip(cov.support, cov.alpha, strict=True):
        alpha[np.flatnonzero((point == Z).all(axis=1))] = value
    C, epsilon, slack = cov.C, cov.epsilon, 1e-4
    assert abs(alpha.sum()) < 1e-9 * C * len(alpha)
    assert (np.abs(alpha) <= C * (1 + 1e-9)).all()
    inside = alpha == 0
    free = ~inside & (np.abs(alpha) < C * (1 - 1e-9))
    assert (np.abs(residual[inside]) <= epsilon + slack).all()
    assert residual[free] == pytest.approx(np.sign(alpha[free]) * epsilon, abs=slack)
    assert (residual * np.sign(alpha))[~inside & ~free].min() >= epsilon - slack
    assert free.any()


def dual_ratio(cov, table):
    """Return noise over amplitude as rows reveal it: y - g = (noise / amplitude) alpha / weight."""
    return (table["strength"].to_numpy() - cov.predict(table)) / cov.alpha


@pytest.mark.parametrize("kernel", ["se", "exponential", "polynomial", "linear"])
def test_gaussian_process_is_ridge_regression_on_the_kernel(kernel):
    cov = train(kernel=kernel, trainer="gp")
    ratio = dual_ratio(cov, TABLE)
    assert ratio == pytest.approx(np.full(N, ratio.mean()), rel=1e-4)
    assert ratio.mean() > 0
    assert len(cov.alpha) == N
    assert cov.bias == pytest.approx(TABLE["strength"].mean())
    assert cov.C is None
    assert cov.epsilon is None


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_gaussian_process_leave_one_out_equals_refits(grouped, weighted):
    groups = np.arange(N) // 3 if grouped else None
    weight = np.resize([0.5, 1.0, 1.5], N) if weighted else np.ones(N)
    cov = train(trainer="gp", groups=groups, sample_weight=weight if weighted else None)
    ratio = dual_ratio(cov, TABLE) * weight
    assert ratio == pytest.approx(np.full(N, ratio.mean()), rel=1e-4)
    gram, y = cov.gram(TABLE, form="base"), TABLE["strength"].to_numpy()
    labels = np.arange(N) if groups is None else groups
    errors = np.empty(N)
    for label in np.unique(labels):
        held, kept = labels == label, labels != label
        system = gram[np.ix_(kept, kept)] + np.diag(ratio.mean() / weight[kept])
        errors[held] = gram[np.ix_(held, kept)] @ np.linalg.solve(system, y[kept] - cov.bias) + cov.bias - y[held]
    assert cov.loo_mse == pytest.approx(np.average(errors**2, weights=weight), rel=1e-4)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_support_vector_leave_one_out_equals_refits(grouped, weighted):
    labels = np.arange(N) // 3 if grouped else np.arange(N)
    weight = np.resize([0.5, 1.0, 1.5], N) if weighted else np.ones(N)
    settings = {"sample_weight": weight} if weighted else {}
    cov = train(groups=labels if grouped else None, **settings)
    errors = np.empty(N)
    for label in np.unique(labels):
        kept, held = labels != label, labels == label
        # The box bound of a row is C times its weight, relative to the mean weight of the whole table.
        scale = weight[kept].mean()
        other = {"sample_weight": weight[kept], "C": FIXED["C"] * scale} if weighted else {}
        refit = train(TABLE[kept], **other)
        errors[held] = refit.predict(TABLE[held]) - TABLE["strength"][held]
    assert cov.loo_mse == pytest.approx(np.average(errors**2, weights=weight), rel=2e-3)


def test_explained_share(cov, table):
    y = table["strength"].to_numpy()
    assert cov.record.rows == len(y)
    assert cov.record.target == "strength"
    assert cov.record.target_mean == pytest.approx(y.mean())
    assert cov.record.target_spread == pytest.approx(y.std())
    assert cov.record.explained == pytest.approx(1 - cov.loo_mse / y.var())
    assert cov.record.explained > 0.8


# What it chooses


@pytest.mark.parametrize("trainer", ["svm", "gp"])
@pytest.mark.parametrize("frame", ["centred", "unit"])
def test_irrelevant_coordinate_is_found(trainer, frame):
    rng = np.random.default_rng(3)
    X = rng.uniform(-3, 3, (30, 3))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 2]
    settings = {"trainer": "gp"} if trainer == "gp" else {"C": 5.0, "sigma": 1.0, "epsilon": 0.05, "progress": False}
    space = ParameterSpace.from_dict(dict.fromkeys("abc", (-3, 3)))
    cov = pretrain((X, y), space=space, frame=frame, **settings)
    assert cov.weights[1] < 0.05 * min(cov.weights[0], cov.weights[2])
    assert cov.weights.max() == pytest.approx(1)
    assert np.argmax(cov.weights) == 0
    equal = pretrain((X, y), space=space, frame=frame, ard=False, **settings)
    assert equal.weights == pytest.approx(np.ones(3))
    if trainer == "gp":
        assert cov.loo_mse < equal.loo_mse


def test_grid_keeps_the_best_cell():
    cov = train(NOISY, **GRIDS)
    cells = [(c, s, e) for c in GRIDS["C"] for s in GRIDS["sigma"] for e in GRIDS["epsilon"]]
    errors = {cell: train(NOISY, C=cell[0], sigma=cell[1], epsilon=cell[2]).loo_mse for cell in cells}
    assert cov.loo_mse == pytest.approx(min(errors.values()), rel=1e-9)
    assert errors[cov.C, cov.sigma, cov.epsilon] == pytest.approx(min(errors.values()), rel=1e-9)
    assert cov.fingerprint == train(NOISY, C=cov.C, sigma=cov.sigma, epsilon=cov.epsilon).fingerprint


def test_order_and_doubles_of_the_grid_do_not_matter():
    shuffled = {"C": (30.0, 0.1, 3.0, 3.0), "sigma": np.array([50.0, 0.1, 2.0]), "epsilon": [0.05, 0, 0.2]}
    assert train(NOISY, **shuffled).fingerprint == train(NOISY, **GRIDS).fingerprint


@pytest.mark.parametrize("trainer", ["svm", "gp"])
def test_weights_matter(trainer):
    """Of two rows that contradict each other, the heavier one is believed."""
    inputs = np.linspace(0, 1, 11)
    table = pd.DataFrame({"a": [*inputs, 0.5001], "y": [*inputs, 2.0]})
    space = ParameterSpace.from_dict({"a": (0, 1)})
    settings = {"C": 1.0, "sigma": 1.0, "epsilon": 0.01, "ard": False, "progress": False} if trainer == "svm" else {}
    at_half = [
        pretrain(table, "y", space, trainer=trainer, sample_weight=[*np.ones(11), last], **settings)
        for last in (0.01, 1, 100)
    ]
    low, middle, high = (cov.predict([{"a": 0.5}])[0] for cov in at_half)
    assert low < middle < high
    assert high - low > 0.3


@pytest.mark.parametrize("trainer", ["svm", "gp"])
def test_equal_weights_are_no_weights(trainer):
    plain, weighted = standard(trainer), train(trainer=trainer, sample_weight=[7.0] * N)
    assert weighted.predict(TABLE) == pytest.approx(plain.predict(TABLE), rel=1e-6)
    assert weighted.loo_mse == pytest.approx(plain.loo_mse, rel=1e-4)


@pytest.mark.parametrize("trainer", ["svm", "gp"])
def test_known_noise_makes_a_row_count_less(trainer):
    wrong = TABLE.assign(strength=TABLE["strength"] + np.where(np.arange(N) == 4, 30.0, 0.0))
    noise = np.where(np.arange(N) == 4, 60.0, 0.05)

    def followed(**settings):
        """Return how far the fit follows the wrong value."""
        settings |= {} if trainer == "gp" else {"C": 300.0}
        return float((train(wrong, trainer=trainer, **settings).predict(TABLE) - TABLE["strength"])[4])

    assert abs(followed(noise=noise)) < 0.5 * followed(noise=np.full(N, 0.05))
    as_column = train(wrong.assign(spread=noise), trainer=trainer, noise="spread")
    assert as_column.fingerprint == train(wrong, trainer=trainer, noise=noise).fingerprint


def test_machine_without_support_vectors_is_refused():
    with pytest.raises(FitError, match="smaller epsilon"):
        train(epsilon=50.0)


# Long tables


@pytest.mark.parametrize("trainer", ["svm", "gp"])
def test_of_a_long_table_some_rows_are_the_table(trainer):
    weight = np.random.default_rng(1).uniform(0.5, 2, N)
    groups = np.arange(N) // 2
    with pytest.warns(SampleWarning, match="of 24 rows, 15 .* max_rows") as caught:
        cov = train(NOISY, trainer=trainer, max_rows=15, sample_weight=weight, groups=groups)
    rows = list(caught[0].message.rows)
    assert len(rows) == 15
    assert cov.record.rows == 15
    alone = train(NOISY.iloc[rows], trainer=trainer, sample_weight=weight[rows], groups=groups[rows])
    assert cov.predict(TABLE) == pytest.approx(alone.predict(TABLE))
    assert cov.loo_mse == pytest.approx(alone.loo_mse)
    assert cov.record.notes[0] == str(caught[0].message)
    others = NOISY.drop(index=rows)
    error = np.sqrt(np.mean((cov.predict(others) - others["strength"]) ** 2))
    assert f"{error:.4g}" in cov.record.notes[0]


def test_rows_of_a_long_table_keep_the_numbers_they_had_before_others_were_dropped():
    gaps = NOISY.copy()
    gaps.loc[[0, 3], "power"] = np.nan
    with pytest.warns(TableWarning) as caught:
        train(gaps, missing="drop", max_rows=15)
    (sample,) = (w.message for w in caught if issubclass(w.category, SampleWarning))
    assert not {0, 3} & set(sample.rows)
    assert max(sample.rows) > 21


def test_a_table_within_the_limit_is_used_whole():
    assert train(max_rows=N) == train()


# Kernels


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("se", SquaredExponential()),
        ("exponential", Exponential()),
        ("polynomial", Polynomial(degree=3)),
        ("linear", Linear()),
    ],
)
@pytest.mark.parametrize("trainer", ["svm", "gp"])
def test_kernel_by_name_is_the_kernel(name, kernel, trainer):
    by_name, by_kernel = train(kernel=name, trainer=trainer), train(kernel=kernel, trainer=trainer)
    assert type(by_name.kernel) is type(kernel)
    assert by_name == by_kernel
    assert (by_name.sigma is None) == (name in ("polynomial", "linear"))


@pytest.mark.parametrize("trainer", ["svm", "gp"])
@pytest.mark.parametrize(
    "kernel",
    [
        SquaredExponential(sigma=99.0, weights=(1.0, 2.0)),
        Polynomial(degree=2),
        TaylorSeries(coefficients=(1.0, 0.5, 0.25)),
    ],
    ids=["se", "polynomial", "taylor"],
)
def test_kernel_weights_and_sigma_are_replaced_and_the_rest_kept(kernel, trainer):
    cov = train(kernel=kernel, trainer=trainer)
    assert type(cov.kernel) is type(kernel)
    assert len(cov.weights) == len(SPACE.coordinate_names)
    for name in ("degree", "coefficients"):
        assert getattr(cov.kernel, name, None) == getattr(kernel, name, None)
    if trainer == "svm" and cov.sigma is not None:
        assert cov.sigma == FIXED["sigma"]


@pytest.mark.parametrize("kernel", ["polynomial", "linear"])
def test_sigma_divides_weights_where_kernels_have_none(kernel):
    assert train(kernel=kernel, sigma=4.0).weights == pytest.approx(np.full(6, 0.25))


# The same again


def test_same_table_same_fingerprint():
    for settings in (GRIDS, {"ard": True}, {"trainer": "gp"}):
        assert train(NOISY, **settings).fingerprint == train(NOISY, **settings).fingerprint


def test_workers_do_not_change_the_outcome():
    assert train(NOISY, **GRIDS, n_jobs=2).fingerprint == train(NOISY, **GRIDS).fingerprint


def test_new_process_same_fingerprint():
    script = """
from tests.test_training import GRIDS, NOISY, train
for settings in (GRIDS, {"ard": True}, {"trainer": "gp"}):
    print(train(NOISY, **settings).fingerprint)
"""
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=root,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "99"},
    )
    expected = [train(NOISY, **settings).fingerprint for settings in (GRIDS, {"ard": True}, {"trainer": "gp"})]
    assert done.stdout.split() == expected


@pytest.mark.parametrize("trainer", ["svm", "gp"])
def test_arrays_teach_the_same_as_the_frame(trainer):
    frame = standard(trainer)
    for X in (SPACE.to_raw(TABLE), TABLE[["gas", "layers", "rate", "power"]]):
        arrays = train((X, TABLE["strength"].to_numpy()), trainer=trainer)
        assert arrays == frame
    shuffled = TABLE[["strength", "gas", "layers", "rate", "power"]].set_axis(range(99, 99 + N))
    assert train(shuffled, trainer=trainer).fingerprint == frame.fingerprint


def test_any_setting_that_matters_changes_the_fingerprint():
    base = train()
    for settings in ({"C": 4.0}, {"sigma": 2.1}, {"epsilon": 0.06}, {"frame": "unit"}, {"log_target": True}):
        assert train(**settings).fingerprint != base.fingerprint


# Units


@pytest.mark.parametrize("factor", [1000.0, 1e-6])
@pytest.mark.parametrize("trainer", ["svm", "gp"])
def test_units_of_the_target(factor, trainer):
    scaled_table = TABLE.assign(strength=factor * TABLE["strength"])
    settings = {"C": None, "epsilon": None, "sigma": [2.0]} if trainer == "svm" else {}
    plain = train(**settings) if settings else standard("gp")
    scaled = train(scaled_table, trainer=trainer, **settings)
    if trainer == "svm":
        assert pytest.approx(factor * plain.C) == scaled.C
        assert pytest.approx(factor * plain.epsilon) == scaled.epsilon
    assert scaled.predict(TABLE) == pytest.approx(factor * plain.predict(TABLE), rel=1e-5)
    assert scaled.loo_mse == pytest.approx(factor**2 * plain.loo_mse, rel=1e-3)
    size = np.abs(plain.alpha).max()
    assert scaled.alpha == pytest.approx(factor * plain.alpha, abs=1e-4 * factor * size)
    for form in ("normalised", "two_layer", "moment"):
        assert scaled.gram(TABLE, form=form) == pytest.approx(plain.gram(TABLE, form=form), abs=1e-4)
    assert scaled.gram(TABLE) == pytest.approx(factor**2 * plain.gram(TABLE), rel=1e-3, abs=factor**2 * 1e-3)


@pytest.mark.parametrize("trainer", ["svm", "gp"])
def test_units_of_the_parameters(trainer):
    """The frame sees no units: the same table in other units teaches the same covariance."""
    space = ParameterSpace.from_dict(MIXED_SPACE | {"power": (0.1, 5.5), "rate": (1e-2, 1e2, "log")})
    other = TABLE.assign(power=TABLE["power"] / 1000, rate=TABLE["rate"] * 1000)
    plain = standard(trainer)
    settings = {} if trainer == "gp" else FIXED
    rescaled = pretrain(other, "strength", space, trainer=trainer, **settings)
    assert rescaled.predict(other) == pytest.approx(plain.predict(TABLE), rel=1e-4)
    assert rescaled.gram(other, form="normalised") == pytest.approx(plain.gram(TABLE, form="normalised"), abs=1e-3)


def test_log_target_predicts_in_the_units_of_the_table():
    logged = TABLE.assign(strength=np.log(TABLE["strength"]))
    by_hand = train(logged, trainer="gp")
    cov = train(trainer="gp", log_target=True)
    assert cov.log_target
    assert not by_hand.log_target
    assert cov.predict(TABLE) == pytest.approx(np.exp(by_hand.predict(TABLE)))
    assert cov.predict(TABLE) == pytest.approx(TABLE["strength"].to_numpy(), rel=0.1)
    assert np.array_equal(cov.alpha, by_hand.alpha)
    for form in GRAM_FORMS:
        assert np.array_equal(cov.gram(TABLE, form=form), by_hand.gram(TABLE, form=form))


def test_numpy_flags_are_flags(tmp_path):
    cov = train(log_target=np.True_, ard=np.False_, rank_target=np.False_)
    assert cov == train(log_target=True)
    assert PretrainedCovariance.load(cov.save(tmp_path / "knowledge.mkbo.json")) == cov


def test_dropped_rows_teach_nothing():
    gaps = TABLE.astype({"power": float, "gas": object})
    gaps.loc[3, "power"] = np.nan
    gaps.loc[7, "gas"] = None
    kept = TABLE.drop(index=[3, 7])
    for trainer in ("svm", "gp"):
        with pytest.warns(TableWarning, match=r"\[3, 7\]"):
            cov = train(gaps, trainer=trainer, missing="drop")
        assert cov == train(kept, trainer=trainer)


def test_smallest_table():
    for settings in ({}, {"trainer": "gp"}):
        cov = train(TABLE[:3], **settings)
        assert np.isfinite(cov.gram(TABLE)).all()
        assert cov.record.rows == 3


def test_real_table_predicts_a_related_material():
    """Graphene from polyimide foretells graphene from another precursor, as the table's own ranking does."""
    data = pd.read_csv(shared_file("data/lig_graphene.csv"))
    space = ParameterSpace.from_dict(
        {
            "power_mW": (10, 5555),
            "time_ms": (500, 20210),
            "gas": ["Argon", "Nitrogen", "Air"],
            "pressure_psi": (0, 1000),
        }
    )
    source = data[data["precursor"] == "PI"][::2]
    target = data[data["precursor"] == "GOPI"]
    cov = pretrain(source, "G_D_ratio", space, trainer="gp")
    ranks = pd.DataFrame({"predicted": cov.predict(target), "measured": target["G_D_ratio"].to_numpy()}).rank()
    assert ranks.corr().iloc[0, 1] > 0.8
    assert isinstance(cov, PretrainedCovariance)


@pytest.mark.parametrize("trainer", ["svm", "gp"])
def test_the_share_explained_is_of_the_weighted_variance(table, space, trainer):
    loud = np.arange(len(table)) % 2 == 1
    noisy = table.assign(strength=table["strength"] + 30 * loud * np.random.default_rng(0).normal(size=len(table)))
    weight = np.where(loud, 1e-3, 1.0)
    options = {"C": 5.0, "epsilon": 0.05, "sigma": 2.0} if trainer == "svm" else {}
    record = pretrain(noisy, "strength", space, trainer=trainer, sample_weight=weight, progress=False, **options).record
    y = noisy["strength"]
    mean = np.average(y, weights=weight)
    assert record.target_mean == pytest.approx(mean)
    variance = np.average((y - mean) ** 2, weights=weight)
    assert record.explained == pytest.approx(1 - record.loo_mse / variance)


@pytest.mark.parametrize("trainer", ["svm", "gp"])
def test_sigma_of_a_kernel_given_has_no_effect(table, space, trainer):
    options = {"C": 5.0, "epsilon": 0.05, "sigma": 2.0} if trainer == "svm" else {}
    one, other = (
        pretrain(table, "strength", space, trainer=trainer, kernel=SquaredExponential(s), progress=False, **options)
        for s in (1.0, 1e4)
    )
    assert one.fingerprint == other.fingerprint


def test_a_space_that_no_covariance_can_hold_is_refused_before_training():
    names = [f"x{i}" for i in range(COORDINATES + 1)]
    table = pd.DataFrame(np.random.default_rng(0).random((5, len(names))), columns=names).assign(y=range(5))
    with pytest.raises(FitError, match=rf"{COORDINATES + 1} parameters and levels.* at most {COORDINATES}"):
        pretrain(table, "y", ParameterSpace.from_dict(dict.fromkeys(names, (0, 1))))
