"""The kernel: the host's contract, gradients, and Gram matrices equal to those of the covariance in raw units."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from skopt.learning.gaussian_process.kernels import WhiteKernel
from skopt.space import Categorical, Integer, Real

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.errors import KernelError
from mkbo_plugins.skopt import PretrainedKernel, pretrained_regressor
from tests.conftest import shared_file
from tests.skopt.conftest import FORM_NAMES, as_records, mixed_dimensions, normalised, sample

PARTS = {"base": "base", "reweighted": "reweighted", "normalised": "normalised", "two_layer": "two_layer"}


def kernel_of(cov, dimensions, form, **settings):
    return pretrained_regressor(cov, dimensions, form, **settings).kernel


def randomised(kernel, seed=0):
    """Return the kernel with other hyperparameters."""
    return kernel.clone_with_theta(kernel.theta + np.random.default_rng(seed).normal(0, 0.4, len(kernel.theta)))


@pytest.fixture(params=FORM_NAMES)
def kernel(request, small_cov):
    return randomised(kernel_of(small_cov, mixed_dimensions(), request.param))


@pytest.fixture
def X(small_cov):
    return sample(small_cov, 6)[0]


def random_target(rng, space):
    """Return random dimensions for parameters of a table, and the values of those kept constant."""
    dimensions, fixed = [], {}
    for name in rng.permutation(space.names):
        parameter = space[str(name)]
        choice = rng.random()
        if parameter.name in ("gas", "flag"):
            levels = list(rng.permutation(parameter.levels))
            levels = levels[: max(1, rng.integers(1, len(levels) + 1))]
            if choice < 0.2:
                fixed[parameter.name] = str(levels[0])
            else:
                dimensions.append(Categorical([str(level) for level in levels], name=parameter.name))
        elif choice < 0.2:
            fixed[parameter.name] = 3 if parameter.name == "layers" else parameter.lower * 2
        elif parameter.name == "layers":
            prior = "log-uniform" if choice < 0.5 else "uniform"
            dimensions.append(Integer(1, int(rng.integers(3, 9)), prior=prior, name="layers"))
        else:
            low = parameter.lower * rng.uniform(0.8, 2)
            high = low * rng.uniform(2, 20)
            prior, base = ("log-uniform", int(rng.choice([2, 10]))) if choice < 0.6 else ("uniform", 10)
            dimensions.append(Real(low, high, prior=prior, base=base, name=parameter.name))
    dimensions.append(Real(-3.0, 4.0, name="extra"))
    if rng.random() < 0.5:
        dimensions.append(Categorical(["only"], name="constant"))
    return [dimensions[j] for j in rng.permutation(len(dimensions))], fixed


@pytest.fixture(scope="module")
def broad_cov():
    space = ParameterSpace.from_dict(
        {
            "power": (100.0, 5500.0),
            "rate": (1e-5, 1e-1, "log"),
            "layers": (1, 6, "int"),
            "gas": ["Argon", "Nitrogen", "Air"],
            "flag": ["off", "on"],
        }
    )
    X = space.sobol(24, seed=2)
    y = np.sin(X[:, 0] / 1500) + 0.3 * np.log10(X[:, 1]) + 0.2 * X[:, 2] * X[:, 4] + (X[:, 3] == 1)
    return pretrain((X, y), space=space, C=5.0, epsilon=0.1, sigma=2.0, progress=False)


@pytest.mark.parametrize("seed", range(30))
def test_gram_matrices_equal_those_in_raw_units_over_random_spaces(broad_cov, seed):
    rng = np.random.default_rng(seed)
    dimensions, fixed = random_target(rng, broad_cov.space)
    inputs = "normalised" if seed % 2 else "raw"
    built_from = dimensions if seed % 3 else {d.name: d for d in dimensions}
    if seed % 3 == 0:
        dimensions = [built_from[name] for name in sorted(built_from)]
    kernels = {form: kernel_of(broad_cov, built_from, form, fixed=fixed) for form in PARTS}
    space = normalised(dimensions)
    if inputs == "raw":
        space.set_transformer_by_type("identity", Real)
        space.set_transformer_by_type("identity", Integer)
    rows = space.rvs(7, random_state=seed)
    # Parameters that the table lacks are the same everywhere, so that their stock covariance is 1.
    extra = [d.name for d in dimensions].index("extra")
    rows = [[*row[:extra], 1.0, *row[extra + 1 :]] for row in rows]
    columns = space.transform(rows)
    records = [{**record, **fixed} for record in as_records(dimensions, rows)]
    for form, kernel in kernels.items():
        kernel.set_params(inputs=inputs)
        expected = broad_cov.gram(records, form=PARTS[form])
        if form == "reweighted":
            expected = expected / broad_cov.fixed.mean_diagonal
        scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        assert np.abs(kernel(columns) - expected).max() <= 1e-10 * scale.max()
        assert np.abs(kernel(columns[:3], columns) - expected[:3]).max() <= 1e-10 * scale.max()
        assert np.allclose(kernel.diag(columns), np.diag(expected), rtol=1e-10)


def test_gradient_in_the_hyperparameters(kernel, X):
    _, gradient = kernel(X, eval_gradient=True)
    assert gradient.shape == (6, 6, len(kernel.theta))
    for j in range(len(kernel.theta)):
        step = 1e-5 * np.eye(len(kernel.theta))[j]
        ahead, behind = (kernel.clone_with_theta(kernel.theta + s)(X) for s in (step, -step))
        assert np.allclose(gradient[..., j], (ahead - behind) / 2e-5, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("inputs", ["normalised", "raw"])
def test_gradient_in_the_columns(kernel, small_cov, inputs):
    X = sample(small_cov, 6)[0]
    # Between levels and whole numbers, where the host's search goes.
    x = np.random.default_rng(1).uniform(0.1, 0.9, X.shape[1])
    if inputs == "raw":
        space = normalised(mixed_dimensions())
        rows = space.rvs(6, random_state=0)
        for kind in (Real, Integer):
            space.set_transformer_by_type("identity", kind)
        X = space.transform(rows)
        x = 0.6 * X[0] + 0.4 * X[1] + 1e-3
        kernel.set_params(inputs="raw")
    found = kernel.gradient_x(x, X)
    assert found.shape == X.shape
    assert np.array_equal(kernel.gradient_x(x[None, :], X), found)
    for j in range(len(x)):
        step = 1e-6 * max(1.0, abs(x[j])) * np.eye(len(x))[j]
        numeric = (kernel(x + step, X) - kernel(x - step, X))[0] / (2 * step[j])
        assert np.allclose(found[:, j], numeric, rtol=1e-5, atol=1e-8 / max(1.0, abs(x[j])))


def test_contract_of_the_host(kernel, X):
    copy = clone(kernel)
    assert copy == kernel
    assert copy is not kernel
    assert copy.cov is kernel.cov
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert kernel != kernel.clone_with_theta(kernel.theta + 1)
    assert np.array_equal(kernel.clone_with_theta(kernel.theta).theta, kernel.theta)
    assert kernel.bounds.shape == (len(kernel.theta), 2)
    assert sum(h.n_elements for h in kernel.hyperparameters) == kernel.n_dims == len(kernel.theta)
    assert not kernel.is_stationary()
    assert "strength" in repr(kernel)
    first = kernel(X)
    first[:] = np.nan
    assert np.isfinite(kernel(X)).all()
    assert np.allclose(kernel.diag(X), np.diag(kernel(X)), rtol=1e-9)
    assert np.allclose(kernel(X, X[:2]), kernel(X)[:, :2], rtol=1e-9)


def test_it_serves_scikit_learns_own_regressor_and_sums(small_cov):
    X, y, _ = sample(small_cov, 12)
    kernel = kernel_of(small_cov, mixed_dimensions(), "two_layer")
    model = GaussianProcessRegressor(kernel + WhiteKernel(0.01, (1e-4, 1.0)), normalize_y=True).fit(X, y)
    assert isinstance(model.kernel_.k1, PretrainedKernel)
    assert model.log_marginal_likelihood_value_ > model.log_marginal_likelihood((kernel + WhiteKernel(0.01)).theta)
    assert np.allclose(model.kernel_.gradient_x(X[0] + 0.01, X), model.kernel_.k1.gradient_x(X[0] + 0.01, X))


def test_wrong_arguments_are_refused(small_cov, X):
    kernel = kernel_of(small_cov, mixed_dimensions(), "transfer")
    with pytest.raises(KernelError, match="Y is None"):
        kernel(X, X, eval_gradient=True)
    with pytest.raises(KernelError, match="length_scale must have 8 entries"):
        kernel.set_params(length_scale=np.ones(3))(X)
    with pytest.raises(KernelError, match="theta must have 11 entries"):
        kernel.theta = np.zeros(2)


GRAPHENE = ParameterSpace.from_dict(
    {
        "power_mW": (0.0, 5500.0),
        "time_ms": (500.0, 20000.0),
        "gas": ["Argon", "Nitrogen", "Air"],
        "pressure_psi": (0.0, 1000.0),
    }
)


def test_gram_matrices_on_a_real_table():
    data = pd.read_csv(shared_file("data/lig_graphene.csv"))
    rows = data[data["precursor"] == "PI"].sample(60, random_state=0)
    cov = pretrain(rows, "G_D_ratio", GRAPHENE, trainer="gp")
    dimensions = [
        Categorical(["Air", "Argon", "Nitrogen"], name="gas"),
        Real(0.0, 700.0, name="pressure_psi"),
        Real(900.0, 18000.0, prior="log-uniform", name="time_ms"),
        Integer(1000, 5000, name="power_mW"),
    ]
    space = normalised(dimensions)
    points = space.rvs(40, random_state=0)
    columns, records = space.transform(points), as_records(dimensions, points)
    for form in ("base", "normalised", "two_layer"):
        expected = cov.gram(records, form=form)
        assert np.abs(kernel_of(cov, dimensions, form)(columns) - expected).max() < 1e-10
