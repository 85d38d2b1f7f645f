"""The lookup process is the model that BoTorch's users get."""

from pathlib import Path

import numpy as np
import pytest

from mkbo_plugins.experiments.benchmark.campaign import normalised
from mkbo_plugins.experiments.benchmark.lookup import Lookup, train
from mkbo_plugins.experiments.benchmark.models import MODELS
from mkbo_plugins.experiments.benchmark.tables import real_problem
from tests.conftest import shared_file
from tests.core.helpers import component_of


@pytest.fixture(scope="module")
def lookup(tmp_path_factory: pytest.TempPathFactory) -> Lookup:
    problem = real_problem("graphene_pi_gopi", shared_file("data/lig_graphene.csv").parent, 0)
    return Lookup(problem, train(problem, "gp"), tmp_path_factory.mktemp("lookup"))


@pytest.mark.parametrize("form", ["stock", "moment", "product", "transfer", "transfer_link", "similarity_link", "base"])
def test_posterior_is_that_of_botorch(lookup: Lookup, form: str):
    torch = pytest.importorskip("torch")
    pretrained_gp = pytest.importorskip("mkbo_plugins.botorch").pretrained_gp
    indices = np.random.default_rng(0).choice(210, 12, replace=False)
    y = lookup.problem.outcome[indices]
    z = (y - y.mean()) / y.std(ddof=1)
    fit = lookup.candidates.fit(form, indices, z)
    mean, variance, with_tried, _ = fit.moments

    X = torch.as_tensor(lookup.problem.pool_points, dtype=torch.double)
    model = pretrained_gp(lookup.cov, X[indices], torch.as_tensor(y)[:, None], form=form)
    values = np.exp(fit.theta)
    scales = fit.density.model.form.hyperparameters
    for name, value in zip(scales, values, strict=False):
        model.covar_module.set_scale(name, float(value))
    stock = model.covar_module if form == "stock" else model.covar_module.stock
    if stock is not None:
        stock.lengthscale = torch.as_tensor(values[len(scales) : -1])
    model.likelihood.noise = float(values[-1])
    model.mean_module.constant.data.fill_(fit.posterior.process.mean)
    model.eval()
    with torch.no_grad():
        posterior = model.posterior(X)
    spread = y.std(ddof=1)
    assert y.mean() + spread * mean == pytest.approx(posterior.mean[:, 0].numpy(), rel=1e-6, abs=1e-6 * spread)
    with torch.no_grad():
        joint = model.posterior(X[np.concatenate([[7, 100], indices])]).covariance_matrix.numpy()
    assert spread**2 * with_tried[[7, 100]] == pytest.approx(joint[:2, 2:], rel=1e-5, abs=1e-6 * spread**2)
    assert spread**2 * variance == pytest.approx(posterior.variance[:, 0].numpy(), rel=1e-5, abs=1e-6 * spread**2)


def test_average_is_that_of_botorch(lookup: Lookup):
    torch = pytest.importorskip("torch")
    pretrained_average = pytest.importorskip("mkbo_plugins.botorch.average").pretrained_average
    indices = np.random.default_rng(1).choice(210, 15, replace=False)
    y = lookup.problem.outcome[indices]
    X = torch.as_tensor(lookup.problem.pool_points[indices], dtype=torch.double)
    average = pretrained_average(lookup.cov, X, torch.as_tensor(y)[:, None])
    predictions = MODELS["average"](lookup, indices, (y - y.mean()) / y.std(ddof=1))
    # Both search for the hyperparameters on their own.
    assert np.exp(normalised(predictions)) == pytest.approx(average.weights.numpy(), abs=0.02)


def test_matrices_between_candidates_are_kept(lookup: Lookup):
    fresh = Lookup(lookup.problem, lookup.cov, lookup.folder)
    pairs = fresh.candidates.points(np.arange(5), 0).frame
    known = component_of(lookup.parts, "moment", pairs).value
    assert Path(lookup.folder, "moment.npy").exists()
    assert np.array_equal(component_of(fresh.parts, "moment", pairs).value, known)
    assert np.array_equal(component_of(fresh.parts, "moment", pairs, pairs, elementwise=True).value, np.diag(known))
