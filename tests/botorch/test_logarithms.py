"""Length scales and noise that are fitted through their logarithms."""

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood

from mkbo_plugins.botorch.logarithms import LogarithmAbove, fit_logarithm


def data(n=25):
    X = torch.rand(n, 3, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    return X, torch.sin(5 * X[:, :1]) + X[:, 1:2] ** 2


def test_value_bound_and_prior_stay():
    model = SingleTaskGP(*data())
    kernel, value = model.covar_module, torch.tensor([[0.3, 0.7, 2.0]], dtype=torch.double)
    kernel.lengthscale = value
    before = kernel.raw_lengthscale_constraint.lower_bound
    fit_logarithm(kernel, "lengthscale")
    assert torch.allclose(kernel.lengthscale, value, rtol=1e-6)
    assert torch.equal(kernel.raw_lengthscale_constraint.lower_bound, before)
    kernel.raw_lengthscale.data.fill_(-50.0)
    assert (kernel.lengthscale >= before).all()
    (_, _, prior, read, write), *_ = kernel.named_priors()
    write(kernel, value / 2)
    assert torch.allclose(read(kernel), value / 2)
    assert torch.isfinite(prior.log_prob(read(kernel))).all()


def test_the_optimum_stays():
    logarithms = SingleTaskGP(*data())
    fit_logarithm(logarithms.covar_module, "lengthscale")
    fit_logarithm(logarithms.likelihood.noise_covar, "noise")
    values = []
    for model in (logarithms, SingleTaskGP(*data())):
        mll = fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        mll.train()
        values.append(mll(model(*model.train_inputs), model.train_targets).item())
    assert values[0] == pytest.approx(values[1], abs=1e-4)


def test_a_state_in_other_units_is_refused():
    model, plain = SingleTaskGP(*data()), SingleTaskGP(*data())
    fit_logarithm(model.likelihood.noise_covar, "noise")
    with pytest.raises(RuntimeError, match="own units where this model has its logarithm"):
        model.load_state_dict(plain.state_dict())
    other = SingleTaskGP(*data())
    fit_logarithm(other.likelihood.noise_covar, "noise")
    model.likelihood.noise = 0.123
    other.load_state_dict(model.state_dict())
    assert other.likelihood.noise.item() == pytest.approx(0.123)
    assert isinstance(other.likelihood.noise_covar.raw_noise_constraint, LogarithmAbove)
