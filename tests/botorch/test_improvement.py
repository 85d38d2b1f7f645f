import numpy as np
import pytest
import torch

from mkbo_plugins.botorch import improvement as shared
from mkbo_plugins.botorch import pretrained_gp
from mkbo_plugins.botorch.improvement import noisy_improvement


@pytest.fixture(scope="module")
def done(small_cov):
    return small_cov.space.sobol(8, seed=3)


@pytest.fixture(scope="module")
def model(small_cov, done):
    y = small_cov.predict(done)
    Y = torch.tensor((y - y.mean()) / y.std() + 0.3 * np.random.default_rng(0).standard_normal(8))[:, None]
    model = pretrained_gp(small_cov, torch.tensor(done), Y)
    model.likelihood.noise = 0.1
    return model.eval()


@pytest.mark.parametrize("awaited", [0, 2])
def test_it_is_the_mean_improvement_on_the_function_at_points_done_and_pending(model, small_cov, done, awaited):
    pending, points = small_cov.space.sobol(2, seed=5)[:awaited], small_cov.space.sobol(4, seed=6)
    found = np.exp(noisy_improvement(model, done, pending, seed=0)(points))
    with torch.no_grad():
        joint = model.posterior(torch.tensor(np.concatenate([points, done, pending])))
    mean, covariance = joint.mean[:, 0].numpy(), joint.distribution.covariance_matrix.numpy()
    draws = np.random.default_rng(1).multivariate_normal(mean, covariance, 200_000)
    gain = draws[:, :4] - draws[:, 4:].max(axis=1)[:, None]
    assert found == pytest.approx(np.maximum(gain, 0).mean(axis=0), rel=0.1)


def test_points_are_evaluated_in_blocks_with_the_same_values(model, small_cov, done, monkeypatch):
    points = small_cov.space.sobol(32, seed=6)
    whole = noisy_improvement(model, done, done[:0], 0)(points)
    monkeypatch.setattr(shared, "BLOCK", 5)
    torch.manual_seed(0)
    assert noisy_improvement(model, done, done[:0], 0)(points) == pytest.approx(whole, rel=1e-9, abs=1e-9)
