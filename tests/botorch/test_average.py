"""The average of forms as acquisition functions see it."""

import pytest
import torch
from botorch.acquisition import LogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.optim import optimize_acqf

from mkbo_plugins.botorch.average import SLOTS, AverageGP, pretrained_average
from mkbo_plugins.errors import MkboError


@pytest.fixture(scope="module")
def data(cov):
    X = torch.as_tensor(cov.space.sobol(12, seed=3), dtype=torch.double)
    return X, torch.as_tensor(cov.predict(X.numpy()))[:, None]


@pytest.fixture(scope="module")
def average(cov, data):
    return pretrained_average(cov, *data, forms=("stock", "moment"))


def test_posterior_is_the_weighed_mixture_of_its_members(average, cov):
    X = torch.as_tensor(cov.space.sobol(6, seed=4), dtype=torch.double)
    posterior = average.posterior(X)
    shares = torch.tensor(average.counts, dtype=torch.double) / SLOTS
    members = [member.posterior(X) for member in average.members]
    mean = sum(share * member.mean for share, member in zip(shares, members, strict=True))
    assert torch.allclose(posterior.mixture_mean, mean)
    assert abs(shares - average.weights).max() <= 1 / SLOTS


def test_weights_are_densities_of_points_left_out(average):
    scores = []
    for member in average.members:
        with torch.no_grad():
            prior = member.train().likelihood(member(*member.train_inputs))
        y, total = member.train_targets, 0.0
        for i in range(len(y)):
            rest = [j for j in range(len(y)) if j != i]
            gain = torch.linalg.solve(prior.covariance_matrix[rest][:, rest], prior.covariance_matrix[rest, i])
            mean = prior.mean[i] + gain @ (y - prior.mean)[rest]
            variance = prior.covariance_matrix[i, i] - gain @ prior.covariance_matrix[rest, i]
            total += torch.distributions.Normal(mean, variance.sqrt()).log_prob(y[i])
        scores.append(total)
    assert torch.allclose(torch.softmax(torch.stack(scores), 0), average.weights, atol=1e-6)


def test_a_table_that_explains_the_target_has_the_say(average):
    assert average.weights[1] > 0.9


def test_one_form_is_that_form(cov, data):
    alone = pretrained_average(cov, *data, forms=("moment",))
    X = torch.as_tensor(cov.space.sobol(5, seed=6), dtype=torch.double)[:, None]
    best = data[1].max()
    expected = LogExpectedImprovement(alone.members[0], best)(X)
    assert torch.allclose(LogExpectedImprovement(alone, best)(X), expected)


def test_batches_of_candidates_can_be_optimised(average, cov, data):
    bounds = torch.stack([data[0].min(dim=0).values, data[0].max(dim=0).values])
    acquisition = qLogNoisyExpectedImprovement(average, data[0], prune_baseline=False)
    found, value = optimize_acqf(acquisition, bounds, q=2, num_restarts=1, raw_samples=8, options={"maxiter": 3})
    assert found.shape == (2, data[0].shape[1])
    assert torch.isfinite(value)


@pytest.mark.parametrize("weights", [[0.5, 0.5], [0.97, 0.02, 0.01], [1 / 3] * 3])
def test_places_follow_weights(average, weights):
    counts = AverageGP(average.members, torch.tensor(weights)).counts
    assert sum(counts) == SLOTS
    assert all(abs(count / SLOTS - weight) < 1 / SLOTS for count, weight in zip(counts, weights, strict=True))


def test_several_outcomes_are_refused(cov, data):
    with pytest.raises(MkboError, match="one outcome"):
        pretrained_average(cov, data[0], data[1].repeat(1, 2))
