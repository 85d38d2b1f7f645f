"""What a pre-trained covariance gives: Gram matrices, predictions and first experiments."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist, pdist

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.core import normalise, reweight
from mkbo_plugins.core.gp.spacing import least_distance
from mkbo_plugins.covariance.base import GRAM_FORMS
from mkbo_plugins.errors import KernelError, SpaceWarning
from mkbo_plugins.space.parameters import FRAMES
from tests.conftest import MIXED_SPACE, mixed_table

TABLE = mixed_table()
SPACE = ParameterSpace.from_dict(MIXED_SPACE)
POINTS = pd.DataFrame(SPACE.from_raw(SPACE.sobol(17, 8)))
KERNELS = ["se", "exponential", "polynomial", "linear"]


def fit(kernel="se", **settings):
    fixed = {"C": 5.0, "sigma": 2.0, "epsilon": 0.05, "ard": False, "progress": False}
    return pretrain(TABLE, "strength", SPACE, kernel, **(fixed | settings))


@pytest.fixture(scope="module")
def fits() -> dict[str, PretrainedCovariance]:
    return {kernel: fit(kernel) for kernel in KERNELS}


@pytest.fixture(params=[*KERNELS, "unit frame", "gp", "ard"])
def any_cov(request, fits, cov, gp_cov):
    if request.param == "unit frame":
        return fit(frame="unit")
    return {**fits, "gp": gp_cov, "ard": cov}[request.param]


# Gram matrices


@pytest.mark.parametrize("form", GRAM_FORMS)
def test_gram_is_symmetric_and_positive_semi_definite(any_cov, form):
    gram = any_cov.gram(POINTS, form=form)
    scale = np.diag(gram).max()
    assert gram.shape == (17, 17)
    assert gram == pytest.approx(gram.T, abs=1e-14 * scale)
    assert np.linalg.eigvalsh(gram).min() > -1e-10 * scale


@pytest.mark.parametrize("form", GRAM_FORMS)
def test_gram_of_points_with_themselves_and_in_parts(any_cov, form):
    gram = any_cov.gram(POINTS, form=form)
    tolerance = {"rel": 1e-10, "abs": 1e-10 * np.diag(gram).max()}
    assert any_cov.gram(POINTS, POINTS, form=form) == pytest.approx(gram, **tolerance)
    assert any_cov.gram(POINTS[3:9], POINTS, form=form) == pytest.approx(gram[3:9], **tolerance)
    assert any_cov.gram(POINTS[9:], POINTS[:4], form=form) == pytest.approx(gram[9:, :4], **tolerance)
    single = [any_cov.gram(POINTS[i : i + 1], form=form)[0, 0] for i in range(17)]
    assert single == pytest.approx(np.diag(gram), **tolerance)


def test_base_is_the_free_kernel(any_cov):
    Z = any_cov.to_coordinates(POINTS)
    assert any_cov.gram(POINTS, form="base") == pytest.approx(any_cov.kernel.gram(Z), rel=1e-12)
    by_pairs = any_cov.kernel(Z[:, None, :], Z[None, :, :])
    assert any_cov.gram(POINTS, form="base") == pytest.approx(by_pairs, rel=1e-12, abs=1e-12)


def test_reweighted_is_the_sum_over_support_vectors(any_cov):
    Z, support, alpha = any_cov.to_coordinates(POINTS), any_cov.support, any_cov.alpha
    four = any_cov.kernel(
        support[:, None, None, None, :], support[None, :, None, None, :], Z[None, None, :, None, :], Z[None, None, None]
    )
    expected = np.einsum("i,j,ijxy->xy", alpha, alpha, four)
    gram = any_cov.gram(POINTS)
    size = np.einsum("i,j,ijxx->x", np.abs(alpha), np.abs(alpha), np.abs(four)).max()
    assert gram == pytest.approx(expected, abs=1e-12 * size)
    assert np.array_equal(gram, any_cov.gram(POINTS, form="reweighted"))
    kernel = reweight(any_cov.kernel, support, alpha)
    assert kernel.gram(Z) == pytest.approx(gram, abs=1e-12 * size)


def test_normalised_has_a_unit_diagonal(any_cov):
    gram, raw = any_cov.gram(POINTS, form="normalised"), any_cov.gram(POINTS)
    assert np.array_equal(np.diag(gram), np.ones(17))
    root = np.sqrt(np.diag(raw))
    assert gram == pytest.approx(raw / root[:, None] / root, abs=1e-9)
    kernel = normalise(reweight(any_cov.kernel, any_cov.support, any_cov.alpha))
    assert gram == pytest.approx(kernel.gram(any_cov.to_coordinates(POINTS)), abs=1e-12)


@pytest.mark.parametrize("s", [0.1, 1.0, np.float32(2.0), 7, float("inf")])
def test_two_layer_is_a_function_of_the_feature_distance(any_cov, s):
    raw = any_cov.gram(POINTS) / np.diag(any_cov.gram(TABLE)).mean()
    distance = np.diag(raw)[:, None] + np.diag(raw) - 2 * raw
    gram = any_cov.gram(POINTS, form="two_layer", s=s)
    assert gram == pytest.approx(np.exp(-distance / (2 * float(s))), abs=1e-8)
    assert np.array_equal(np.diag(gram), np.ones(17))


def test_two_layer_scale_is_one_unless_told():
    cov = fit()
    assert np.array_equal(cov.gram(POINTS, form="two_layer"), cov.gram(POINTS, form="two_layer", s=1.0))
    assert not np.array_equal(cov.gram(POINTS, form="two_layer"), cov.gram(POINTS, form="two_layer", s=2.0))


def test_moment_is_the_product_of_standardised_predictions(any_cov):
    on_table = any_cov.predict(TABLE)
    g = (any_cov.predict(POINTS) - on_table.mean()) / on_table.std()
    assert any_cov.gram(POINTS, form="moment") == pytest.approx(np.outer(g, g), rel=1e-8, abs=1e-9)


def test_prediction_is_the_kernel_expansion(any_cov):
    Z = any_cov.to_coordinates(POINTS)
    expected = any_cov.kernel.gram(Z, any_cov.support) @ any_cov.alpha + any_cov.bias
    assert any_cov.predict(POINTS) == pytest.approx(expected, rel=1e-12)
    assert any_cov.predict(POINTS).shape == (17,)


@pytest.mark.parametrize("form", GRAM_FORMS)
def test_points_may_come_in_any_shape_and_order(cov, form):
    expected = cov.gram(POINTS, TABLE, form=form)
    shuffled = POINTS[["gas", "layers", "power", "rate"]].assign(note="x")
    raw = SPACE.to_raw(POINTS)
    for points in (shuffled, shuffled.set_axis(range(40, 57)), POINTS.to_dict("records"), raw, raw.tolist()):
        assert np.array_equal(cov.gram(points, TABLE, form=form), expected)
        assert np.array_equal(cov.predict(points), cov.predict(POINTS))
    order = np.random.default_rng(0).permutation(17)
    assert cov.gram(POINTS.iloc[order], TABLE, form=form) == pytest.approx(expected[order], rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("form", GRAM_FORMS)
def test_no_points_give_empty_matrices(cov, form):
    none = POINTS[:0]
    assert cov.gram(none, form=form).shape == (0, 0)
    assert cov.gram(none, POINTS, form=form).shape == (0, 17)
    assert cov.gram(POINTS, none, form=form).shape == (17, 0)
    assert cov.predict(none).shape == (0,)


def test_points_beyond_the_bounds_have_finite_values(cov):
    far = POINTS.assign(power=POINTS["power"] + 20_000.0)
    for form in GRAM_FORMS:
        assert np.isfinite(cov.gram(far, POINTS, form=form)).all()


def test_the_frame_matters():
    """The base kernel of the squared exponential sees no origin; the re-weighted one does."""
    centred, unit = fit(sigma=2.0), fit(sigma=2.0, frame="unit")
    assert centred.frame == "centred"
    assert unit.frame == "unit"
    assert unit.support.min() >= 0
    assert centred.support.min() < -0.5
    assert not np.allclose(centred.gram(TABLE, form="normalised"), unit.gram(TABLE, form="normalised"), atol=0.01)


@pytest.mark.parametrize("frame", FRAMES)
def test_coordinates_are_those_of_the_frame(frame):
    cov = fit(frame=frame)
    assert np.array_equal(cov.to_coordinates(POINTS), SPACE.to_coordinates(SPACE.to_raw(POINTS), frame))
    known = {tuple(z) for z in cov.to_coordinates(TABLE)}
    assert all(tuple(z) in known for z in cov.support)


def test_attributes(cov, gp_cov):
    d = len(SPACE.coordinate_names)
    assert cov.support.shape == (len(cov.alpha), d)
    assert cov.weights.shape == (d,)
    assert (cov.C, cov.sigma, cov.epsilon) == (5.0, 2.0, 0.05)
    assert (cov.record.trainer, gp_cov.record.trainer) == ("svm", "gp")
    assert len(gp_cov.alpha) == len(TABLE)
    assert gp_cov.C is None
    assert gp_cov.epsilon is None
    assert gp_cov.loo_mse > 0
    assert len(cov.fingerprint) == 64
    assert int(cov.fingerprint, 16) >= 0
    assert cov.fingerprint != gp_cov.fingerprint
    assert cov.space == SPACE


def test_parts_must_fit_together(cov):
    smaller = ParameterSpace.from_dict({"power": (100.0, 5500.0)})
    with pytest.raises(KernelError, match="1 coordinates, got 6"):
        dataclasses.replace(cov, space=smaller)


# First experiments


def keys(points):
    return [tuple(point.items()) for point in points]


@pytest.mark.parametrize("direction", ["same", "opposite", "unknown"])
@pytest.mark.parametrize("n", [1, 5, 40])
def test_starting_points_are_distinct_points_of_the_space(cov, direction, n):
    points = cov.starting_points(n, direction)
    assert len(points) == n
    assert len(set(keys(points))) == n
    assert all(tuple(point) == SPACE.names for point in points)
    raw = SPACE.to_raw(points)
    Z = SPACE.to_coordinates(raw, "unit")
    assert Z.min() >= 0
    assert Z.max() <= 1
    assert all(type(point["layers"]) is int and point["gas"] in MIXED_SPACE["gas"] for point in points)


@pytest.mark.parametrize("direction", ["same", "opposite", "unknown"])
def test_starting_points_are_reproducible(cov, direction):
    points = cov.starting_points(6, direction, seed=3)
    assert points == cov.starting_points(6, direction, seed=3)
    assert points != cov.starting_points(6, direction, seed=4)
    assert points[:3] == cov.starting_points(3, direction, seed=3)


def test_best_comes_first(cov, gp_cov):
    everywhere = SPACE.sobol(2048, 11)
    for machine in (cov, gp_cov):
        g = machine.predict(everywhere)
        for direction, sign in (("same", 1), ("opposite", -1)):
            first, *others = machine.predict(machine.starting_points(8, direction)) * sign
            assert first >= np.quantile(g * sign, 0.99)
            assert first == pytest.approx(max(first, *others))
            assert np.mean(others) > np.quantile(g * sign, 0.7)


@pytest.mark.parametrize(("direction", "sign"), [("same", 1), ("opposite", -1)])
def test_each_starting_point_has_the_best_merit_plus_uncertainty_of_those_far_from_others(direction, sign):
    cov = fit(sigma=0.5)
    candidates = SPACE.sobol(1024, 5)
    on_table = cov.predict(TABLE)
    merit = sign * (cov.predict(candidates) - on_table.mean()) / on_table.std()
    correlation = cov.gram(candidates, form="base")
    unit = SPACE.to_coordinates(candidates, "unit")
    picked: list[int] = []
    for point in cov.starting_points(6, direction, seed=5):
        known = np.linalg.solve(correlation[np.ix_(picked, picked)], correlation[picked])
        spread = np.sqrt(np.maximum(1 - np.sum(correlation[picked] * known, axis=0), 0))
        index = int(np.flatnonzero((candidates == SPACE.to_raw(point)).all(axis=1))[0])
        apart = cdist(unit, unit[picked]).min(axis=1, initial=np.inf)
        others = np.flatnonzero(apart >= least_distance(4))
        assert index in others
        assert (merit + spread)[index] == pytest.approx((merit + spread)[others].max(), abs=1e-6)
        picked.append(index)


TREND = {  # what tables of two numbers say: points good by them crowd at an edge, or around an optimum
    "linear": lambda power, rate: power + rate,
    "one optimum": lambda power, rate: -((power - 0.6) ** 2) - (rate - 0.3) ** 2,
}


@pytest.mark.parametrize("trend", TREND)
@pytest.mark.parametrize("trainer", ["gp", "svm"])
@pytest.mark.parametrize("direction", ["same", "opposite"])
def test_starting_points_by_a_smooth_table_keep_their_distance(trend, trainer, direction):
    space = ParameterSpace.from_dict({"power": (10.0, 30.0), "rate": (1e-4, 1e-1, "log")})
    raw = space.sobol(24, 3)
    unit = space.to_coordinates(raw, "unit")
    table = pd.DataFrame(raw, columns=list(space.names)).assign(y=TREND[trend](*unit.T))
    settings = {"C": 10.0, "sigma": 2.0, "epsilon": 0.01, "ard": False} if trainer == "svm" else {}
    cov = pretrain(table, "y", space, trainer=trainer, progress=False, **settings)
    points = space.to_coordinates(space.to_raw(cov.starting_points(5, direction)), "unit")
    assert pdist(points).min() >= least_distance(2)
    sign = 1 if direction == "same" else -1
    first, everywhere = TREND[trend](*points[0]), TREND[trend](*unit.T)
    assert np.mean(sign * first >= sign * everywhere) > 0.9


def test_starting_points_with_levels_and_whole_numbers_keep_their_distance(cov):
    unit = SPACE.to_coordinates(SPACE.to_raw(cov.starting_points(8, "same")), "unit")
    assert pdist(unit).min() >= least_distance(4)


def test_starting_points_of_a_space_too_small_are_as_far_apart_as_can_be_and_say_so():
    space = ParameterSpace.from_dict({"layers": (1, 11, "int")})
    table = pd.DataFrame({"layers": np.arange(1, 12), "y": np.arange(11.0)})
    cov = pretrain(table, "y", space, C=5.0, sigma=0.5, epsilon=0.05, ard=False, progress=False)
    with pytest.warns(SpaceWarning, match=r"no room for 8 points at a distance of 0\.2.*nearest two are 0\.1 apart"):
        points = [point["layers"] for point in cov.starting_points(8, "same")]
    assert len(set(points)) == 8
    few = min(k for k in range(2, 9) if min(np.diff(sorted(points[:k]))) < 10 * least_distance(1)) - 1
    assert points[:few] == [point["layers"] for point in cov.starting_points(few, "same")]  # without a warning


def test_starting_points_do_not_crowd():
    cov = fit(sigma=0.1)
    correlation = cov.gram(cov.starting_points(8, "same"), form="base") - np.eye(8)
    candidates = SPACE.sobol(1024, 0)
    best = candidates[np.argsort(-cov.predict(candidates))[:8]]
    assert correlation.mean() < 0.7 * (cov.gram(best, form="base") - np.eye(8)).mean()


def test_unknown_direction_ignores_the_table(cov, gp_cov):
    assert cov.starting_points(7, "unknown") == gp_cov.starting_points(7)
    raw = SPACE.to_raw(cov.starting_points(8, "unknown"))
    assert np.unique(np.floor(8 * (raw[:, 0] - 100) / 5400)).size == 8  # one in each eighth of the range


def test_starting_points_of_a_coarse_space_do_not_repeat():
    space = ParameterSpace.from_dict({"layers": (1, 3, "int"), "gas": ["Argon", "Air"]})
    rows = [(layers, gas) for layers in (1, 2, 3) for gas in ("Argon", "Air")]
    table = pd.DataFrame(rows, columns=["layers", "gas"]).assign(y=[0.0, 5.0, 1.0, 3.0, 2.0, 9.0])
    cov = pretrain(table, "y", space, C=50.0, sigma=0.5, epsilon=0.01, ard=False, progress=False)
    for direction in ("same", "opposite", "unknown"):
        points = cov.starting_points(6, direction)
        assert sorted(tuple(point.values()) for point in points) == sorted(rows)
    assert cov.starting_points(1, "same") == [{"layers": 3, "gas": "Air"}]
    assert cov.starting_points(1, "opposite") == [{"layers": 1, "gas": "Argon"}]


def test_numpy_number_of_starting_points(cov):
    assert cov.starting_points(np.int64(2), "same") == cov.starting_points(2, "same")


def test_the_evaluator_can_be_chosen_without_changing_the_covariance(cov):
    pairs = cov.with_evaluator("pairs", tolerance=1e-8)
    assert pairs == cov
    assert pairs.fingerprint == cov.fingerprint
    assert (pairs.evaluator.choice, pairs.evaluator.tolerance) == ("pairs", 1e-8)
    assert cov.evaluator.choice == "auto"
    points = cov.space.sobol(6, 1)
    np.testing.assert_allclose(pairs.gram(points), cov.gram(points), rtol=1e-8)
    with pytest.raises(KernelError, match="choice"):
        cov.with_evaluator("quick")


def test_stated_errors_cover_the_difference_to_extended_precision(cov):
    points = cov.space.sobol(8, 2)
    extended = cov.with_evaluator("extended")
    exact, own_error = extended.gram(points), extended.gram_error(points)
    # Its last step, an exponential in double precision, is not finer than that of others.
    assert own_error.min() > 1e-16
    scale = np.sqrt(np.multiply.outer(np.diag(exact), np.diag(exact)))
    for choice in ("auto", "pairs"):
        chosen = cov.with_evaluator(choice)
        error = np.abs(chosen.gram(points) - exact) / scale
        assert (error <= chosen.gram_error(points) + own_error).all()
        assert chosen.gram_error(points, points[:3]).shape == (8, 3)
        assert chosen.gram_error(points).max() < 1e-9
