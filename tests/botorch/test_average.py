"""The average of forms as acquisition functions see it."""

import pytest
import torch
from botorch.acquisition import LogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.optim import optimize_acqf
from botorch.sampling.pathwise import draw_matheron_paths
from botorch.sampling.pathwise.posterior_samplers import get_matheron_path_model

from mkbo_plugins.botorch.average import SLOTS, AverageGP, pretrained_average
from mkbo_plugins.errors import MkboError

PATHS = 2000


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


@pytest.fixture(scope="module")
def halves(average):
    return AverageGP(average.members, torch.tensor([0.5, 0.5], dtype=torch.double))


@torch.no_grad()
def test_paths_in_each_place_have_the_moments_of_its_member(halves, cov):
    torch.manual_seed(0)
    X = torch.as_tensor(cov.space.sobol(4, seed=5), dtype=torch.double)
    values = draw_matheron_paths(halves, torch.Size([PATHS]))(X)
    assert values.shape == (PATHS, SLOTS, len(X))
    exact = halves.posterior(X).distribution
    deviations = exact.variance.sqrt()
    assert ((values.mean(dim=0) - exact.mean).abs() < 5 * deviations / PATHS**0.5).all()
    for place, drawn in zip(exact.covariance_matrix, values.unbind(1), strict=True):
        # An entry of a covariance of normal draws varies by the root of (c_ii c_jj + c_ij^2) / n.
        spread = ((torch.outer(place.diagonal(), place.diagonal()) + place**2) / PATHS).sqrt()
        assert ((torch.cov(drawn.T) - place).abs() < 5 * spread).all()


def test_paths_are_shaped_as_those_of_the_hosts_ensembles(halves, cov):
    X = torch.as_tensor(cov.space.sobol(6, seed=7), dtype=torch.double).reshape(2, 3, -1)
    model = get_matheron_path_model(halves)
    together = model.posterior(X).mean
    assert together.shape == halves.posterior(X).mean.shape == (2, SLOTS, 3, 1)
    model._path.set_ensemble_as_batch(True)
    assert torch.allclose(model(X.unsqueeze(-3).expand(-1, SLOTS, -1, -1)), together)


def test_thompson_samples_are_optimised(average, cov, data):
    torch.manual_seed(1)
    bounds = torch.stack([data[0].min(dim=0).values, data[0].max(dim=0).values])
    acquisition = PathwiseThompsonSampling(average)
    found, value = optimize_acqf(acquisition, bounds, q=2, num_restarts=2, raw_samples=16, options={"maxiter": 5})
    assert found.shape == (2, data[0].shape[1])
    assert value >= acquisition(torch.as_tensor(cov.space.sobol(8, seed=9)).reshape(4, 2, -1)).max()


@pytest.mark.parametrize("weights", [[0.5, 0.5], [0.97, 0.02, 0.01], [1 / 3] * 3])
def test_places_follow_weights(average, weights):
    counts = AverageGP(average.members, torch.tensor(weights)).counts
    assert sum(counts) == SLOTS
    assert all(abs(count / SLOTS - weight) < 1 / SLOTS for count, weight in zip(counts, weights, strict=True))


def test_several_outcomes_are_refused(cov, data):
    with pytest.raises(MkboError, match="one outcome"):
        pretrained_average(cov, data[0], data[1].repeat(1, 2))
