"""The kernel mixture in Ax."""

from functools import cache

import numpy as np
import pytest
from ax.api.client import Client
from ax.core.parameter import ChoiceParameter, ParameterType, RangeParameter
from ax.core.search_space import SearchSpace

from mkbo_plugins import ParameterSpace
from mkbo_plugins.ax import pretrained_surrogate_spec, storage, use_mixture, use_pretrained
from mkbo_plugins.botorch import PretrainedKernel
from mkbo_plugins.covariance.mixture import MixtureCovariance
from mkbo_plugins.errors import KernelError
from mkbo_plugins.pretraining.mixture import pretrain_mixture
from tests.ax.experiments import add_trials, mixed_client, mixed_points, small_covariance, strength
from tests.ax.test_mapping import fitted_adapter, gram
from tests.conftest import MIXED_SPACE, mixed_table


@cache
def mixture() -> MixtureCovariance:
    return pretrain_mixture(mixed_table(), "strength", ParameterSpace.from_dict(MIXED_SPACE))


def started() -> Client:
    client = mixed_client()
    use_mixture(client, mixture(), initial_trials=2)
    add_trials(client, mixed_points(3), lambda point: strength(small_covariance(), point))
    return client


def run_trials(client: Client, trials: int) -> list[dict]:
    made = []
    for _ in range(trials):
        ((index, parameters),) = client.get_next_trials(1).items()
        client.complete_trial(index, {"y": strength(small_covariance(), parameters)})
        made.append(parameters)
    return made


def fitted_kernel(client: Client) -> PretrainedKernel:
    return client._generation_strategy.adapter.generator.surrogate.model.covar_module


def test_a_campaign_saved_and_reloaded_goes_on_with_the_same_suggestions(tmp_path, monkeypatch):
    path = tmp_path / "experiment.json"
    client = started()
    run_trials(client, 1)
    client.save_to_json_file(str(path))
    expected = run_trials(client, 2)
    monkeypatch.setattr(storage, "_known", {})
    reloaded = Client.load_from_json_file(str(path))
    assert run_trials(reloaded, 2) == expected
    assert fitted_kernel(reloaded).cov == mixture()


def test_gram_is_that_of_the_core_in_raw_units():
    space = SearchSpace(
        [
            ChoiceParameter("gas", ParameterType.STRING, ["Air", "Argon", "Nitrogen"], is_ordered=False),
            RangeParameter("layers", ParameterType.INT, 1, 5),
            RangeParameter("rate", ParameterType.FLOAT, 1e-4, 1e-2, log_scale=True),
            RangeParameter("power", ParameterType.FLOAT, 200.0, 5000.0),
        ]
    )
    points = ParameterSpace.from_dict(MIXED_SPACE | {"power": (200, 5000), "rate": (1e-4, 1e-2, "log")}).sobol(6)
    points = mixture().space.from_raw(points)
    points = [{**point, "layers": min(point["layers"], 5)} for point in points]
    adapter = fitted_adapter(space, points, pretrained_surrogate_spec(mixture(), space, "base"))
    np.testing.assert_allclose(gram(adapter, "base"), mixture().gram(points), rtol=0, atol=1e-10)


def test_a_direction_needs_a_machine():
    client = mixed_client()
    with pytest.raises(KernelError, match="kernel mixture"):
        use_pretrained(client, mixture(), form="base", direction="same")
