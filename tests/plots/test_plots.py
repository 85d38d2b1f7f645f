"""What plots draw is what the objects say."""

from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.errors import MkboError, TableError
from mkbo_plugins.plots import (
    best_so_far,
    covariance_slice,
    covariance_slices,
    evidence_over_trials,
    held_out_predictions,
    interaction_orders,
    outcomes_by_prediction,
    overview,
    parameter_weights,
    prediction_slice,
    prior_draws,
    resemblance,
    save_figure,
    svg_of,
)
from tests.several_tables import TABLE_A, combined

FORMS = ("stock", "transfer")


def _axes(count=1):
    return list(np.ravel(Figure().subplots(1, count, squeeze=False)))


def test_held_out_predictions_are_those_behind_the_error(cov, table):
    axes = _axes()[0]
    assert held_out_predictions(cov, table, ax=axes) is axes
    values, predicted = axes.get_lines()[0].get_data()
    np.testing.assert_array_equal(values, table["strength"])
    assert np.mean((values - predicted) ** 2) == pytest.approx(cov.loo_mse, rel=1e-9)
    assert "strength" in axes.get_xlabel()


def test_shares_by_order_are_a_whole_and_by_parameter_at_least(cov):
    orders = interaction_orders(cov)
    assert sum(bar.get_height() for bar in orders.patches) == pytest.approx(1.0)
    weights = parameter_weights(cov, ax=_axes()[0])
    assert sum(bar.get_width() for bar in weights.patches) >= 1 - 1e-9
    assert [label.get_text() for label in weights.get_yticklabels()] == list(cov.space.names)


@pytest.mark.parametrize("parameter", ["power", "rate", "layers", "gas"])
def test_slices_are_correlations_in_raw_units(cov, parameter):
    centre = {"power": 800.0, "rate": 1e-3, "layers": 2, "gas": "Air"}
    axes = covariance_slice(cov, parameter, centre)
    assert axes.get_xlabel() == parameter
    assert (axes.get_xscale() == "log") == (parameter == "rate")
    for line in axes.get_lines()[:2]:
        assert np.nanmax(line.get_ydata()) <= 1 + 1e-9
    at_centre = cov.space.to_raw(centre)[0, cov.space.names.index(parameter)]
    numbers, correlations = axes.get_lines()[0].get_data()
    assert correlations[np.argmin(np.abs(np.asarray(numbers) - at_centre))] == pytest.approx(1.0, abs=1e-3)
    if parameter == "gas":
        assert [label.get_text() for label in axes.get_xticklabels()] == ["Argon", "Nitrogen", "Air"]


def test_stock_slices_know_nothing_of_the_table(cov, gp_cov):
    centre = {"power": 800.0, "rate": 1e-3, "layers": 2, "gas": "Air"}
    one, other = (covariance_slice(c, "power", centre).get_lines() for c in (cov, gp_cov))
    np.testing.assert_array_equal(one[0].get_ydata(), other[0].get_ydata())
    assert not np.allclose(one[1].get_ydata(), other[1].get_ydata())


def test_every_parameter_has_a_slice(cov):
    axes = _axes(4)
    figure = covariance_slices(cov, ax=axes)
    assert figure is axes[0].figure
    assert [a.get_xlabel() for a in axes] == list(cov.space.names)
    with pytest.raises(MkboError, match="4 axes"):
        covariance_slices(cov, ax=axes[:2])


def test_draws_have_the_spread_of_their_prior_and_can_be_repeated(cov):
    axes = _axes(2)
    prior_draws(cov, "power", draws=2000, ax=axes)
    values = np.array([line.get_ydata() for line in axes[0].get_lines()])
    np.testing.assert_allclose(values.std(axis=0), 1.0, atol=0.1)
    first, again, other = (prior_draws(cov, "gas", seed=seed).axes[1].get_lines()[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.get_ydata(), again.get_ydata())
    assert not np.allclose(first.get_ydata(), other.get_ydata())


def test_evidence_rises_where_the_target_is_the_table_and_shows_the_verdicts(cov):
    X = cov.space.sobol(10, seed=4)
    y = -cov.predict(X)
    axes = evidence_over_trials(cov, X, y, form="transfer", ax=_axes()[0])
    lines = {line.get_label(): line.get_data() for line in axes.get_lines()}
    trials, odds = lines["with the table"]
    assert list(trials) == list(range(3, 11))
    verdict = cov.verdict(X, y, "transfer")
    assert odds[-1] == pytest.approx(verdict.log_ratio / np.log(10))
    assert lines["form 'transfer'"][1][-1] == pytest.approx(verdict.form_log_ratio / np.log(10))
    assert odds[-1] > 1
    assert len(evidence_over_trials(cov, X, y, form="stock").get_lines()) == len(lines) - 1
    with pytest.raises(TableError, match="at least 3"):
        evidence_over_trials(cov, X[:2], y[:2])


def test_overview_of_labels_and_of_numbers(cov, table):
    assert "explain" in overview(cov).get_suptitle()
    passed = table.assign(strength=np.where(table["strength"] > table["strength"].median(), "good", "bad"))
    of_labels = pretrain(passed, "strength", cov.space, task="classification", trainer="gp")
    assert "labels" in overview(of_labels).get_suptitle()
    assert prediction_slice(of_labels, "gas").get_ylabel() == "decision value for strength"
    axes = held_out_predictions(of_labels, passed)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["bad", "good"]


@pytest.mark.parametrize("call", [covariance_slice, prior_draws])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"parameter": "colour"}, "'colour'"),
        ({"parameter": "gas", "centre": {"power": 1.0}}, "'rate'"),
        ({"parameter": "gas", "forms": ["magic"]}, "'magic'"),
    ],
)
def test_mistakes_are_named(cov, call, arguments, words):
    with pytest.raises(MkboError, match=words):
        call(cov, **arguments)


def test_pictures_are_written_whole_and_by_their_kind(cov, tmp_path):
    figure = interaction_orders(cov).figure
    for kind in ("png", "svg", "pdf"):
        save_figure(figure, tmp_path / f"a.{kind}")
        assert (tmp_path / f"a.{kind}").stat().st_size > 1000
    with pytest.raises(MkboError, match=r"such as \.png"):
        save_figure(figure, tmp_path / "a.picture")


@pytest.mark.parametrize(
    "plot", [parameter_weights, interaction_orders, overview, lambda cov: held_out_predictions(cov, TABLE_A)]
)
def test_plots_of_one_table_name_the_way_to_it(plot):
    with pytest.raises(MkboError, match=r"combines 2, of \['hardness', 'yield'\].*cov.members\[0\]"):
        plot(combined())
    plot(combined().members[0])


def test_slices_of_several_tables():
    assert len(covariance_slices(combined()).axes) == 3
    prior_draws(combined(), "q")


@pytest.mark.parametrize("parameter", ["power", "rate", "gas"])
def test_slices_of_the_prediction_are_predictions(cov, parameter):
    centre = {"power": 800.0, "rate": 1e-3, "layers": 2, "gas": "Air"}
    axes = prediction_slice(cov, parameter, centre)
    numbers, predicted = axes.get_lines()[0].get_data()
    levels = cov.space[parameter].indexed_levels
    points = [centre | {parameter: levels[int(v)] if levels else v} for v in numbers]
    np.testing.assert_allclose(predicted, cov.predict(points), rtol=1e-12)
    assert axes.get_ylabel() == "strength, predicted"
    with pytest.raises(MkboError, match=r"cov.members\[0\]"):
        prediction_slice(combined(), "q")


@pytest.mark.parametrize("minimise", [False, True])
def test_the_best_so_far_is_the_best_of_those_that_count(minimise):
    y, allowed = np.array([2.0, 5.0, 1.0, 3.0, 0.0, 9.0]), np.array([False, True, True, True, False, True])
    lines = {line.get_label(): line for line in best_so_far(y, "y", minimise=minimise, allowed=allowed).get_lines()}
    found = lines["best so far"].get_ydata()
    best = min if minimise else max
    for i, value in enumerate(found):
        counted = [one for one, counts in zip(y[: i + 1], allowed[: i + 1], strict=True) if counts]
        assert value == best(counted) if counted else np.isnan(value)
    np.testing.assert_array_equal(lines["requirement not met"].get_xdata(), [1, 5])
    assert "requirement not met" not in [line.get_label() for line in best_so_far(y, "y").get_lines()]


def test_names_with_dollar_signs_are_drawn_as_they_stand_and_equal_figures_are_equal_bytes():
    figures = [outcomes_by_prediction(np.arange(3.0), np.ones(3), r"cost $\no$ $", "y").figure for _ in range(2)]
    one, other = map(svg_of, figures)
    assert one == other
    assert "<!-- cost $\\no$ $ -->" in one.decode()


def test_long_names_of_levels_are_shortened_and_turned(table, cov):
    long = {gas: f"{gas}, technical grade, bottle {i}" for i, gas in enumerate(("Argon", "Nitrogen", "Air"))}
    spec = cov.space.to_dict() | {"gas": list(long.values())}
    named = pretrain(table.assign(gas=table["gas"].map(long)), "strength", ParameterSpace.from_dict(spec), trainer="gp")
    labels = prediction_slice(named, "gas").get_xticklabels()
    for label, name in zip(labels, long.values(), strict=True):
        assert label.get_rotation() == 90
        assert label.get_text()[-1] == "…"
        assert name.startswith(label.get_text()[:-1])
    assert [label.get_rotation() for label in prediction_slice(cov, "gas").get_xticklabels()] == [0, 0, 0]


def test_bars_of_earlier_campaigns_are_their_correlations_best_first():
    most_like = [(f"run ${i}", 0.9 - 0.12 * i) for i in range(15)]
    axes = resemblance(most_like, ax=_axes()[0])
    assert [bar.get_width() for bar in axes.patches] == [value for _, value in most_like[:12]]
    tops = [bar.get_y() for bar in axes.patches]
    assert tops == sorted(tops, reverse=True)
    assert axes.get_yticklabels()[0].get_text() == r"run \$0"
    low, high = axes.get_xlim()
    assert low < min(value for _, value in most_like[:12])
    assert high > 1
    assert resemblance(most_like[:3], ax=_axes()[0]).get_xlim()[0] == 0
    with pytest.raises(TableError, match="no campaign to draw"):
        resemblance([])


def test_characters_that_no_picture_holds_are_drawn_as_python_writes_them():
    name = "run \x1b[31m \ud83d \uffff 10\N{NO-BREAK SPACE}°C"
    axes = resemblance([(name, 0.5)], ax=_axes()[0])
    assert axes.get_yticklabels()[0].get_text() == "run \\x1b[31m \\ud83d \\uffff 10\N{NO-BREAK SPACE}°C"
    ElementTree.fromstring(svg_of(axes.figure))
