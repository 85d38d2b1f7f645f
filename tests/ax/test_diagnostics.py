"""What analyses say of the models in use."""

import numpy as np
import pytest
import torch
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig
from ax.core.analysis_card import AnalysisCardGroup, NotApplicableStateAnalysisCard
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json

from mkbo_plugins import ParameterSpace, pretrain_mixture
from mkbo_plugins.ax import PretrainedDiagnostics, PretrainedPlot, diagnose, use_mixture, use_pretrained
from mkbo_plugins.ax.diagnostics import prior_variances
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.core.gp.bayes_factor import judge
from mkbo_plugins.core.gp.form_model import Points
from mkbo_plugins.errors import TableWarning
from tests.ax.experiments import add_trials, mixed_client, mixed_points, strength
from tests.conftest import MIXED_SPACE, mixed_table

UNITS = 1000.0


@pytest.fixture(scope="module")
def client(small_cov):
    """Return a client with two metrics, one of them with a covariance, after ten trials."""
    client = mixed_client("y, -price")
    use_pretrained(client, {"y": small_cov})
    add_trials(
        client,
        mixed_points(10),
        lambda point: {"y": UNITS * strength(small_cov, point), "price": round(point["power"] / 1000, 3)},
    )
    return client


@pytest.fixture(scope="module")
def cards(client):
    (group,) = client.compute_analyses(analyses=[PretrainedPlot()], display=False)
    assert isinstance(group, AnalysisCardGroup)
    return {card.title: card for card in group.flatten()}


def model_of_y(client):
    surrogate = client._generation_strategy.fit(client._experiment).generator.surrogate
    return surrogate.model.models[surrogate.outcomes.index("y")]


def test_every_metric_has_both_plots(cards):
    assert sorted(cards) == [
        f"{metric}: {what}"
        for metric in ("price", "y")
        for what in ("each trial predicted from the others", "parts of the fitted prior")
    ]
    assert all(isinstance(card, PlotlyAnalysisCard) for card in cards.values())


def test_observed_and_predicted_values_are_in_units_of_the_metric(client, cards, small_cov):
    card = cards["y: each trial predicted from the others"]
    table = card.df.set_index("arm")
    for trial in client._experiment.trials.values():
        arm = trial.arm
        assert table.loc[arm.name, "observed"] == pytest.approx(UNITS * strength(small_cov, arm.parameters))
        assert f"power: {arm.parameters['power']}" in table.loc[arm.name, "parameters"]
    assert np.corrcoef(table["observed"], table["predicted"])[0, 1] > 0.5
    figure = card.get_figure()
    assert list(figure.data[1].x) == list(table["observed"])
    assert list(figure.data[1].y) == list(table["predicted"])
    assert figure.layout.xaxis.title.text == "observed y"


def test_predictions_are_those_of_the_model_in_use_without_the_trial(client, cards):
    """By hand: condition the fitted prior on all other trials, the noise of an observation included."""
    table = cards["y: each trial predicted from the others"].df
    model = model_of_y(client)
    with torch.no_grad():
        noisy = model.likelihood(model.forward(model.train_inputs[0])).covariance_matrix.numpy()
        mean = model.mean_module(model.train_inputs[0]).numpy()
    targets = model.train_targets.numpy()
    unit = table["observed"].std() / targets.std(ddof=1)
    table = table.sort_values("observed").iloc[np.argsort(np.argsort(targets))]
    for i, row in enumerate(table.itertuples()):
        rest = np.arange(len(table)) != i
        gain = np.linalg.solve(noisy[rest][:, rest], noisy[rest, i])
        missed = mean[i] + gain @ (targets - mean)[rest] - targets[i]
        deviation = np.sqrt(noisy[i, i] - gain @ noisy[rest, i])
        assert (row.predicted - row.observed) / unit == pytest.approx(missed, abs=1e-4)
        assert (row.upper - row.lower) / unit == pytest.approx(2 * 1.96 * deviation, rel=1e-3)


def test_parts_of_the_prior_add_up(client, cards):
    model, card = model_of_y(client), cards["y: parts of the fitted prior"]
    variances = prior_variances(model)
    assert list(variances) == list(card.df["part"]) == ["stock part", "table: strength"]
    with torch.no_grad():
        total = model.covar_module(model.train_inputs[0], diag=True).mean()
    assert sum(variances.values()) == pytest.approx(float(total))
    of_stock = sum(model.covar_module.scale(name).item() for name in ("output_scale", "similarity_scale"))
    assert variances["stock part"] == pytest.approx(of_stock)
    unit = cards["y: each trial predicted from the others"].df["observed"].std()
    expected = [unit * variance**0.5 for variance in variances.values()]
    assert list(card.df["standard_deviation"]) == pytest.approx(expected, rel=1e-3)
    shares = diagnose(client).set_index("metric").loc["y", ["moment_share", "link_share"]]
    assert shares.sum() == pytest.approx(variances["table: strength"] / float(total))


def test_metric_without_a_covariance_is_said_to_have_none(client, cards):
    assert "Ax's own" in cards["price: each trial predicted from the others"].subtitle
    assert f"pre-trained ({DEFAULT_FORM}, strength" in cards["y: each trial predicted from the others"].subtitle
    assert list(cards["price: parts of the fitted prior"].df["part"]) == ["stock part"]
    row = diagnose(client).set_index("metric").loc["price"]
    assert row["form"] == "stock"
    assert row[["table_helps", "log_evidence_ratio", "verdict"]].isna().all()


def test_parts_are_told_apart_without_colours(cards):
    (bars,) = cards["y: parts of the fitted prior"].get_figure().data
    assert bars.marker.pattern.shape == ("/", "")
    assert list(bars.y) == ["stock part", "table: strength"]


def test_cards_are_stored_and_loaded_as_ax_stores_its_own(client, cards):
    (group,) = client.compute_analyses(analyses=[PretrainedPlot()], display=False)
    loaded = object_from_json(object_to_json(group)).flatten()
    assert [card.title for card in loaded] == list(cards)
    for card in loaded:
        assert card.get_figure() == cards[card.title].get_figure()


def test_cards_are_kept_in_a_database_with_the_experiment(small_cov, tmp_path):
    from ax.storage.sqa_store.db import create_all_tables, get_engine, init_engine_and_session_factory
    from ax.storage.sqa_store.load import load_analysis_cards_by_experiment_name
    from ax.storage.sqa_store.save import save_analysis_card

    url = f"sqlite:///{tmp_path / 'experiments.db'}"
    init_engine_and_session_factory(url=url, force_init=True)
    create_all_tables(get_engine())
    client = Client(storage_config=StorageConfig(url=url))
    client.configure_experiment([RangeParameterConfig("power", (100.0, 5500.0), parameter_type="float")], name="kept")
    client.configure_optimization("y")
    use_pretrained(client, small_cov, fixed={"rate": 1e-3, "layers": 2, "gas": "Air"})
    add_trials(client, [{"power": float(power)} for power in np.linspace(200, 5000, 6)], lambda p: p["power"] / 1000)
    (group,) = client.compute_analyses(analyses=[PretrainedPlot()], display=False)
    save_analysis_card(group, client._experiment)
    (loaded,) = load_analysis_cards_by_experiment_name("kept")
    assert [card.get_figure() for card in loaded.flatten()] == [card.get_figure() for card in group.flatten()]


def test_verdict_is_a_line_of_table_and_card(client):
    row = diagnose(client).set_index("metric").loc["y"]
    assert row["table_helps"] == "yes"
    assert row["log_evidence_ratio"] > np.log(10)
    assert np.isfinite(row["form_log_evidence_ratio"])
    assert row["verdict"].startswith("yes, the target's values speak for the table: the 10 values")
    (card,) = client.compute_analyses([PretrainedDiagnostics()], display=False)
    assert f"Does the table help y? {row['verdict']}." in card.subtitle


def test_verdict_is_that_of_the_covariance(small_cov):
    client = Client()
    space = small_cov.space
    client.configure_experiment(
        [RangeParameterConfig("power", (100.0, 5500.0), parameter_type="float")], name="same bounds"
    )
    client.configure_optimization("-y")
    fixed = {"rate": 1e-3, "layers": 2, "gas": "Air"}
    use_pretrained(client, small_cov, fixed=fixed)
    points = [{"power": float(power)} for power in np.linspace(200, 5000, 7)]
    values = [float(np.sin(point["power"] / 900)) for point in points]
    add_trials(client, points, lambda point: round(float(np.sin(point["power"] / 900)), 6))
    raw = space.to_raw([{**fixed, **point} for point in points])
    expected = small_cov.verdict(raw, values)
    row = diagnose(client).iloc[0]
    # The stock part of the table's space has length scales for constant inputs too, which costs nothing but prior.
    assert row["log_evidence_ratio"] == pytest.approx(expected.log_ratio, abs=0.5)
    # With the stock input that Ax has alone, both are the same.
    seen = Points(small_cov.to_coordinates(raw), np.asarray(space.to_coordinates(raw, "unit"))[:, :1])
    alone = judge(small_cov.fixed, seen, np.array(values))
    found = row[["log_evidence_ratio", "form_log_evidence_ratio"]].to_list()
    assert found == pytest.approx([alone.log_ratio, alone.form_log_ratio], abs=0.02)


def test_two_values_are_too_few_to_tell(small_cov):
    client = mixed_client()
    use_pretrained(client, small_cov, initial_trials=2)
    add_trials(client, mixed_points(2), lambda point: strength(small_cov, point))
    (row,) = diagnose(client).to_dict("records")
    assert row["table_helps"] == "can't tell yet"
    assert "at least 3 values" in row["verdict"]


def test_cards_say_what_is_missing_before_there_is_a_model(small_cov):
    client = mixed_client()
    use_pretrained(client, small_cov)
    for card in client.compute_analyses([PretrainedPlot(), PretrainedDiagnostics()], display=False):
        assert isinstance(card, NotApplicableStateAnalysisCard)
        assert "'Sobol' has no model" in card.blob


def test_diagnosis_sees_the_points_that_the_covariance_is_given(client):
    """A model that predicts keeps its inputs transformed, one in training does not; nothing may depend on that."""
    model = model_of_y(client)
    before = prior_variances(model)
    model.train()
    try:
        assert prior_variances(model) == pytest.approx(before)
    finally:
        model.eval()


def test_bounds_in_other_units_are_warned_of_when_switching(small_cov):
    client = Client()
    client.configure_experiment([RangeParameterConfig("laser", (0.1, 5.5), parameter_type="float")])
    client.configure_optimization("y")
    settings = {"rename": {"power": "laser"}, "fixed": {"rate": 1e-3, "layers": 2, "gas": "Air"}}
    with pytest.warns(TableWarning, match=r"'laser' runs from 0\.1 to 5\.5 here but from 100 to 5500") as caught:
        use_pretrained(client, small_cov, **settings)
    assert [warning.filename for warning in caught] == [__file__]


def test_a_kernel_mixture_has_a_fit_but_no_verdict(small_cov):
    client = mixed_client()
    use_mixture(client, pretrain_mixture(mixed_table(), "strength", ParameterSpace.from_dict(MIXED_SPACE)))
    add_trials(client, mixed_points(8), lambda point: strength(small_cov, point))
    assert "verdict" not in diagnose(client)
    table, group = client.compute_analyses([PretrainedDiagnostics(), PretrainedPlot()], display=False)
    assert table.subtitle.startswith("In use for y (base, strength")
    assert "help" not in table.subtitle
    assert list(group.flatten()[1].df["part"]) == ["pre-trained part"]
