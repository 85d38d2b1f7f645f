"""Public reports about the host that concern custom or pre-trained kernels: a user of this package meets none."""

import gpytorch
import numpy as np
import pytest
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.cross_validation import batch_cross_validation, gen_loo_cv_folds
from botorch.fit import fit_gpytorch_mll
from botorch.optim import optimize_acqf_mixed
from gpytorch.mlls import ExactMarginalLogLikelihood

from mkbo_plugins.botorch import PretrainedGP, PretrainedKernel, pretrained_gp
from tests.botorch.conftest import PRETRAINED_FORMS


def fit(model, iterations=15):
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": iterations}})
    return model


@pytest.mark.parametrize("direction", [1.0, -1.0])
def test_botorch_2299_covariance_of_a_fitted_model_in_a_new_one(cov, direction):
    """The covariance module of a fitted model knows nothing of its data; a pre-trained covariance does."""
    X, unseen = torch.tensor(cov.space.sobol(5, seed=8)), torch.tensor(cov.space.sobol(40, seed=21))
    truth = [direction * torch.tensor(cov.predict(x.numpy())) for x in (X, unseen)]
    error = {}
    for form in ("transfer", "stock"):
        mean = fit(pretrained_gp(cov, X, truth[0].unsqueeze(-1), form=form)).posterior(unseen).mean.squeeze(-1)
        error[form] = (mean - truth[1]).pow(2).mean().sqrt() / truth[1].std()
    assert error["transfer"] < 0.5 * error["stock"]


def test_botorch_2299_noise_free_predictions_keep_their_uncertainty(cov, target):
    """The reporter's nested model lost its variance away from the data."""
    X, Y = target
    model = pretrained_gp(cov, X[:3], Y[:3])
    far = torch.tensor(cov.space.sobol(20, seed=4))
    variance = model.posterior(far).variance
    assert (variance > 0).all()
    assert variance.max() > 4 * model.posterior(X[:3]).variance.max()


@pytest.mark.parametrize("form", ["transfer", "two_layer", "stock"])
def test_botorch_717_shape_of_a_custom_kernel_in_batched_cross_validation(small_cov, target, form):
    """Folds are a batch: kernels that flatten their inputs give 'the expected shape of the kernel was ...'."""
    results = batch_cross_validation(
        model_cls=PretrainedGP,
        mll_cls=ExactMarginalLogLikelihood,
        cv_folds=gen_loo_cv_folds(train_X=target[0][:5], train_Y=target[1][:5]),
        fit_args={"optimizer_kwargs": {"options": {"maxiter": 3}}},
        model_init_kwargs={"cov": small_cov, "form": form},
    )
    assert results.posterior.mean.shape == (5, 1, 1)
    for index in range(5):
        rows = [i for i in range(5) if i != index]
        alone = pretrained_gp(small_cov, target[0][rows], target[1][rows], form=form)
        fitted = results.model.covar_module[index]
        if form == "stock":
            alone.covar_module.lengthscale = fitted.lengthscale.detach()
        else:
            for name in fitted.form.hyperparameters:
                alone.covar_module.set_scale(name, fitted.scale(name).detach())
            if fitted.stock is not None:
                alone.covar_module.stock.lengthscale = fitted.stock.lengthscale.detach()
        alone.mean_module.constant = results.model.mean_module.constant[index].detach()
        alone.likelihood.noise = results.model.likelihood.noise[index].detach()
        expected = alone.posterior(target[0][index : index + 1]).mean
        assert torch.allclose(results.posterior.mean[index], expected, rtol=1e-6)


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_botorch_1529_covariances_stay_positive_definite_in_mixed_spaces(small_cov, form):
    """Replicates and nearly equal rows gave NotPSDError in the fit or while candidates were optimised."""
    X = torch.tensor(small_cov.space.sobol(6, seed=3))
    X = torch.cat([X, X, X + torch.tensor([1e-6, 1e-12, 0.0, 0.0], dtype=torch.double)])
    Y = torch.tensor(small_cov.predict(np.asarray(X))).unsqueeze(-1)
    model = fit(pretrained_gp(small_cov, X, Y, form=form))
    eigenvalues = torch.linalg.eigvalsh(model.covar_module(X).to_dense())
    assert eigenvalues.min() > -1e-8 * eigenvalues.max()
    candidate, value = optimize_acqf_mixed(
        qLogNoisyExpectedImprovement(model, X_baseline=X),
        torch.tensor([[100.0, 1e-5, 1.0, 0.0], [5500.0, 1e-1, 6.0, 2.0]], dtype=torch.double),
        q=2,
        num_restarts=1,
        raw_samples=4,
        fixed_features_list=[{3: float(level)} for level in range(3)],
        options={"maxiter": 2, "seed": 0},
        retry_on_optimization_warning=False,
    )
    assert torch.isfinite(value).all()
    assert set(candidate[:, 3].tolist()) <= {0.0, 1.0, 2.0}


@pytest.mark.parametrize("index", [0, 1])
def test_gpytorch_2591_indexing_a_batched_covariance_with_active_columns(four_cov, index):
    """Indices of the batch were applied to the active columns too: an IndexError, or silently other columns."""
    active = [1, 2, 4, 5]
    kernel = PretrainedKernel(four_cov, "two_layer", batch_shape=torch.Size([2]), active_dims=active).double()
    kernel.set_scale("feature_scale", torch.tensor([0.5, 2.0]))
    x = torch.rand(5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    expected = kernel(x).to_dense()[index]
    assert torch.allclose(kernel(x)[index].to_dense(), expected)
    assert torch.allclose(kernel(x)[index, 1:3, :].to_dense(), expected[1:3])
    assert kernel[index].active_dims.tolist() == active
    assert kernel.expand_batch(torch.Size([3, 2])).active_dims.tolist() == active


class PlainGP(gpytorch.models.ExactGP):
    """A model of GPyTorch alone."""

    def __init__(self, X, y, kernel):
        super().__init__(X, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


@pytest.mark.parametrize("form", PRETRAINED_FORMS)
def test_gpytorch_2280_prediction_at_another_number_of_points(four_cov, form):
    """A custom kernel that ignored its second argument fitted, and failed in prediction with a shape error."""
    generator = torch.Generator().manual_seed(0)
    X, at = (torch.rand(n, 6, generator=generator, dtype=torch.double) for n in (51, 151))
    model = PlainGP(X, torch.sin(3 * X[:, 0]), PretrainedKernel(four_cov, form, stock_dims=2)).double().eval()
    model.likelihood.noise = 1e-3
    prediction = model(at)
    assert prediction.mean.shape == (151,)
    assert prediction.covariance_matrix.shape == (151, 151)
    assert model.covar_module(X, at).to_dense().shape == (51, 151)
    assert (prediction.variance > -1e-8).all()
