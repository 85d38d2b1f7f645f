"""Covariances of several tables in Ax: the brute-force sum, a campaign that is saved and resumed, diagnostics."""

import json

import numpy as np
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig

from mkbo_plugins.ax import diagnose, storage, use_pretrained
from mkbo_plugins.errors import MkboError
from tests.ax.experiments import add_trials
from tests.several_tables import assert_close, brute_force_sum, combined, points

FORMS = ("transfer_link", "similarity_link", "moment", "two_layer", "product", "normalised", "reweighted")


def make_client():
    """Return a client over the parameters of both tables in another order, with other bounds and one more."""
    client = Client(random_seed=0)
    client.configure_experiment(
        [
            RangeParameterConfig("r", (-5.0, 4.0), parameter_type="float"),
            RangeParameterConfig("extra", (0.0, 1.0), parameter_type="float"),
            RangeParameterConfig("q", (1e-3, 0.5), parameter_type="float", scaling="log"),
            RangeParameterConfig("p", (0.0, 12.0), parameter_type="float"),
        ],
        name="two tables",
    )
    client.configure_optimization("y")
    return client


def outcome(point):
    """Return a metric that follows the first table."""
    return round(
        float(combined().members[0].predict([{"p": point["p"], "q": point["q"]}])[0]) + 0.1 * point["extra"], 6
    )


def trial_points(n):
    inside = [point for point in points(4 * n) if point["r"] < 4 and point["q"] < 0.5][:n]
    return [point | {"extra": 0.1 * i % 1} for i, point in enumerate(inside)]


def started(form, n=6, **settings):
    client = make_client()
    use_pretrained(client, combined(), form=form, **settings)
    add_trials(client, trial_points(n), outcome)
    return client


def fitted(client):
    strategy = client._generation_strategy
    surrogate = strategy.fit(client._experiment).generator.surrogate
    return surrogate.model, surrogate.training_data[0].X


def test_the_gram_matrix_is_the_brute_force_sum_in_raw_units():
    model, X = fitted(started("reweighted", 5))
    kernel = model.covar_module
    kernel.set_scale("output_scale_1", 1.7)
    kernel.set_scale("output_scale_2", 0.4)
    # The parameter that both tables lack has the stock covariance to itself.
    kernel.stock.lengthscale = 1e6
    with torch.no_grad():
        found = kernel(model.input_transform.transform(X)).to_dense().numpy()
    found = found / kernel.stock(model.input_transform.transform(X)[:, 3:]).to_dense().detach().numpy()
    expected = brute_force_sum([1.7, 0.4], trial_points(5), trial_points(5))
    assert_close(found, expected, np.diag(expected))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_suggests_and_is_diagnosed(form):
    client = started(form)
    (suggested,) = client.get_next_trials(1).values()
    assert set(suggested) == {"p", "q", "r", "extra"}
    (row,) = diagnose(client).to_dict("records")
    assert (row["form"], row["table"]) == (form, f"hardness + yield, {combined().fingerprint[:12]}")
    for name in combined().form(form).hyperparameters:
        assert row[name] > 0
        if name.startswith("moment"):
            assert 0 <= row[name.replace("scale", "share")] <= 1
        if name.startswith("feature"):
            assert -1e-9 <= row[name.replace("scale", "effect")] <= 1


def test_a_campaign_is_saved_and_resumed(tmp_path, monkeypatch):
    client = make_client()
    use_pretrained(client, combined(), initial_trials=3, direction=["same", "opposite"])
    for _ in range(4):
        ((index, point),) = client.get_next_trials(1).items()
        client.complete_trial(index, {"y": outcome(point)})
    path = tmp_path / "experiment.json"
    client.save_to_json_file(str(path))
    monkeypatch.setattr(storage, "_known", {})
    resumed = Client.load_from_json_file(str(path))
    assert resumed.get_next_trials(1) == client.get_next_trials(1)
    assert storage.recall(combined().fingerprint) == combined()
    nodes = [trial.generator_runs[0]._generation_node_name for trial in resumed._experiment.trials.values()]
    assert nodes == ["TableDesign"] * 3 + ["Pretrained"] * 2
    assert len(resumed._experiment._properties[storage.PROPERTY]) == 1


def test_a_damaged_member_is_refused(tmp_path, monkeypatch):
    client = started("moment", 3, initial_trials=2)
    path = tmp_path / "experiment.json"
    client.save_to_json_file(str(path))
    text = path.read_text()
    assert '\\"members\\":' in text
    path.write_text(text.replace('\\"bias\\":', '\\"bias\\":1'))
    json.loads(path.read_text())
    monkeypatch.setattr(storage, "_known", {})
    with pytest.raises(MkboError, match=r"(?s)covariance.*call use_pretrained"):
        Client.load_from_json_file(str(path)).get_next_trials(1)


def test_one_direction_for_each_table():
    with pytest.raises(MkboError, match="one for each of 2 tables"):
        use_pretrained(make_client(), combined(), direction=["same", "same", "opposite"])
