"""Ax searches over models for it, and predicts with its own."""

import pytest
import torch
from ax.generators.torch.botorch_modular.acquisition import Acquisition

from mkbo_plugins.ax import use_pretrained
from mkbo_plugins.ax.acquisition import SearchAcquisition, search_faster
from mkbo_plugins.botorch import PretrainedKernel
from mkbo_plugins.botorch.searching import SearchGP
from tests.ax.experiments import add_trials, mixed_client, mixed_points, strength


@pytest.fixture
def client(small_cov):
    client = mixed_client()
    use_pretrained(client, small_cov, initial_trials=3)
    add_trials(client, mixed_points(6), lambda point: strength(small_cov, point))
    return client


def test_the_search_is_over_its_own_model_and_predictions_are_of_the_fitted_one(client, small_cov, monkeypatch):
    searched = []
    subset = SearchAcquisition._subset_model

    def noted(self, *arguments, **named):
        found = subset(self, *arguments, **named)
        searched.append(found[0])
        return found

    monkeypatch.setattr(SearchAcquisition, "_subset_model", noted)
    client.get_next_trials(1)
    assert [type(model) for model in searched] == [SearchGP]
    assert searched[0].process is not None
    model = client._generation_strategy.fit(client._experiment).generator.surrogate.model
    assert not isinstance(model, SearchGP)
    assert isinstance(model.covar_module, PretrainedKernel)
    assert model.covar_module._fixed is small_cov.fixed
    X = model._original_train_inputs[:3] + 0.01
    with torch.no_grad():
        torch.testing.assert_close(
            searched[0].posterior(X).mean, model.posterior(X).mean, rtol=0, atol=1e-3 * model.train_targets.std().item()
        )


def test_an_acquisition_of_the_users_own_is_kept(client):
    class Own(Acquisition):
        pass

    adapter = client._generation_strategy.fit(client._experiment)
    adapter.generator.acquisition_class = Own
    search_faster(adapter)
    assert adapter.generator.acquisition_class is Own
    search_faster(None)
