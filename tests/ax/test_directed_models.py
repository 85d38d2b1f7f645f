"""Models of metrics whose direction is known: signs of maximised and minimised ones, other metrics, storage."""

import json

import numpy as np
import pytest
import torch
from ax.adapter.registry import Generators, MBM_X_trans, Y_trans
from ax.api.client import Client
from ax.core.observation import ObservationFeatures

from mkbo_plugins.ax import diagnose, pretrained_surrogate_spec, storage, use_pretrained
from mkbo_plugins.ax.fitted import fitted_adapter, models_by_metric
from mkbo_plugins.botorch import PretrainedMean
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.errors import KernelError, MkboError
from tests.ax.experiments import add_trials, mixed_client, mixed_points, predict, strength
from tests.ax.test_combined import make_client, outcome, trial_points
from tests.several_tables import combined


def half(cov, points, direction):
    """Return half the standardised prediction of the table at points of an experiment."""
    g = (predict(cov, points) - cov.fixed.decision_mean) / cov.fixed.decision_spread
    return (0.5 if direction == "same" else -0.5) * g


def models(client):
    adapter = fitted_adapter(client._experiment, client._generation_strategy)
    return {name: model for name, (_, model) in models_by_metric(adapter).items()}, adapter


def whole(points):
    """Return points at whole numbers of layers, where the table's space has them."""
    return [{**point, "layers": float(round(point["layers"]))} for point in points]


def inputs(adapter, model):
    (dataset, *_) = adapter.generator.surrogate.training_data
    return model.input_transform.transform(dataset.X)


@pytest.mark.parametrize("direction", ["same", "opposite"])
@pytest.mark.parametrize("objective", ["y", "-y"])
def test_predictions_are_those_of_residuals_plus_the_mean(small_cov, objective, direction):
    """The direction is that of the metric: Ax models the metric itself, be it to be large or small."""
    client, points, others = mixed_client(objective), whole(mixed_points(8)), whole(mixed_points(13)[8:])
    use_pretrained(client, small_cov, initial_trials=2, direction=direction)
    add_trials(client, points, lambda point: strength(small_cov, point))
    found, adapter = models(client)
    model, X = found["y"], inputs(adapter, found["y"])
    y = np.array([strength(small_cov, point) for point in points])
    z = (y - y.mean()) / y.std(ddof=1)
    np.testing.assert_allclose(model.train_targets.numpy(), z, rtol=1e-9, atol=1e-10)
    with torch.no_grad():
        K = model.covar_module(X).to_dense().numpy() + model.likelihood.noise.item() * np.eye(len(z))
        constant = model.mean_module.constant.item()
        mean = model.mean_module(X).numpy() - constant
    np.testing.assert_allclose(mean, half(small_cov, points, direction), rtol=1e-7, atol=1e-8)
    dual = np.linalg.solve(K, z - mean - constant)
    predicted = np.array([client.predict([point])[0]["y"][0] for point in others])
    with torch.no_grad():
        cross = model.covar_module(columns(adapter, model, others), X).to_dense().numpy()
    expected = y.mean() + y.std(ddof=1) * (half(small_cov, others, direction) + constant + cross @ dual)
    np.testing.assert_allclose(predicted, expected, rtol=0, atol=1e-6 * y.std())


def columns(adapter, model, points):
    """Return the model's inputs at points of the experiment."""
    features = [ObservationFeatures(parameters=dict(point)) for point in points]
    for transform in adapter.transforms.values():
        features = transform.transform_observation_features(features)
    raw = torch.tensor([[float(f.parameters[name]) for name in adapter.parameters] for f in features])
    return model.input_transform.transform(raw.double())


def test_metrics_have_directions_of_their_own(small_cov):
    client = mixed_client("y, -price", outcome_constraints=["cost <= 100"])
    covs = {"y": small_cov, "price": small_cov, "cost": small_cov}
    use_pretrained(client, covs, initial_trials=2, direction={"y": "same", "price": "opposite"})
    signs = {"y": 1, "price": -1, "cost": 1}
    add_trials(
        client,
        mixed_points(5),
        lambda point: {name: sign * strength(small_cov, point) for name, sign in signs.items()},
    )
    found, _ = models(client)
    assert found["y"].mean_module.directed.signs == (1.0,)
    assert found["price"].mean_module.directed.signs == (-1.0,)
    assert not isinstance(found["cost"].mean_module, PretrainedMean)
    assert len(client.get_next_trials(1)) == 1
    assert list(diagnose(client)["form"]) == [DEFAULT_FORM] * 3


def test_a_specification_directs_any_metric(small_cov):
    client = mixed_client("y", outcome_constraints=["cost <= 100"])
    add_trials(client, mixed_points(5), lambda point: {"y": strength(small_cov, point), "cost": point["power"] / 1000})
    experiment = client._experiment

    def adapter(cov, direction):
        spec = pretrained_surrogate_spec(cov, experiment.search_space, direction=direction)
        return Generators.BOTORCH_MODULAR(
            experiment=experiment, data=experiment.lookup_data(), surrogate_spec=spec,
            transforms=[*MBM_X_trans, *Y_trans], fit_on_init=True,
        )  # fmt: skip

    found = models_by_metric(adapter({"y": small_cov, "cost": small_cov}, {"cost": "opposite"}))
    assert found["cost"][1].mean_module.directed.signs == (-1.0,)
    assert not isinstance(found["y"][1].mean_module, PretrainedMean)
    both = adapter(small_cov, "same").generator.surrogate.model  # one batched model of both metrics
    assert both.mean_module.directed.signs == (1.0,)
    assert both.mean_module.batch_shape == (2,)


def test_tables_have_directions_of_their_own_that_are_stored(tmp_path, monkeypatch):
    client = make_client()
    use_pretrained(client, combined(), initial_trials=2, direction=["unknown", "opposite"])
    add_trials(client, trial_points(5), outcome)
    path = tmp_path / "experiment.json"
    client.save_to_json_file(str(path))
    monkeypatch.setattr(storage, "_known", {})
    resumed = Client.load_from_json_file(str(path))
    assert models(resumed)[0]["y"].mean_module.directed.signs == (0.0, -1.0)
    assert resumed.get_next_trials(1) == client.get_next_trials(1)


def test_experiments_stored_without_directions_are_read(small_cov, tmp_path):
    client, path = mixed_client(), tmp_path / "experiment.json"
    use_pretrained(client, small_cov, initial_trials=2)
    add_trials(client, mixed_points(4), lambda point: strength(small_cov, point))
    client.save_to_json_file(str(path))
    text = path.read_text()
    assert '"directions": {}' in text
    path.write_text(text.replace(', "directions": {}', ""))
    assert "directions" not in path.read_text()
    json.loads(path.read_text())
    loaded = Client.load_from_json_file(str(path))
    assert not isinstance(models(loaded)[0]["y"].mean_module, PretrainedMean)
    assert loaded.get_next_trials(1) == client.get_next_trials(1)


def test_ax_may_choose_between_a_directed_model_and_its_own(small_cov):
    client = mixed_client()
    use_pretrained(client, small_cov, initial_trials=2, direction="same", select=True)
    add_trials(client, mixed_points(6), lambda point: strength(small_cov, point))
    assert isinstance(models(client)[0]["y"].mean_module, PretrainedMean)


def test_directions_that_cannot_be_used_are_refused(small_cov):
    client = mixed_client()
    with pytest.raises(KernelError, match=r"form='stock' does without the table.*'unknown'"):
        use_pretrained(client, small_cov, form="stock", direction="same")
    space = client._experiment.search_space
    for direction, message in (("up", "got 'up'"), ({"y": "same"}, "one covariance without a name")):
        with pytest.raises(MkboError, match=message):
            pretrained_surrogate_spec(small_cov, space, direction=direction)
