"""Sections 2.1 and 5: the posterior, acquisition functions, and both algorithms, on a host."""

import numpy as np
import pytest

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.core import SquaredExponential
from mkbo_plugins.core.confidence import gp_ucb_beta
from mkbo_plugins.core.gp.exact_gp import ExactGP
from tests.theory import paper
from tests.theory.paper import POINTS, close, exact, mp

SIGMA, NOISE, CONSTANT = 0.75, 0.00390625, 0.125
C, EPSILON = 0.75, 0.125
TABLE = (1.0, -0.5, 0.75, 0.25, -1.25, 0.5)
TRIED = ((-0.5, 0.5), (0.75, 0.75), (0.25, -0.875), (0.0, 0.125))
POOL = ((-0.875, -0.25), (0.5, 0.375), (-0.125, -0.5), (0.625, -0.25), (-0.375, 0.875), (0.875, -0.875), (-0.75, -0.75))
SPACE = ParameterSpace.from_dict({"a": (-1.0, 1.0), "b": (-1.0, 1.0)})


def objective(x):
    """Return the objective to be maximised."""
    return float(np.sin(9 * x[0]) + x[1])


VALUES = [objective(x) for x in TRIED]


@pytest.fixture(scope="module")
def cov():
    """Return a covariance as in the paper, with frame coordinates that are the raw ones."""
    settings = {"C": C, "epsilon": EPSILON, "sigma": SIGMA}
    return pretrain((np.array(POINTS), np.array(TABLE)), space=SPACE, ard=False, progress=False, **settings)


@pytest.fixture(scope="module")
def reweighted(cov):
    """Return K_2^E of the same points and coefficients."""
    return paper.reweighted(paper.squared_exponential(SIGMA), exact(cov.support), exact(cov.alpha))


@pytest.fixture(scope="module")
def brute():
    """Return the posterior of the squared exponential with zero mean."""
    return paper.Posterior(paper.squared_exponential(SIGMA), exact(TRIED), exact(VALUES), mp.mpf(NOISE))


@pytest.fixture(scope="module")
def predicted():
    kernel = SquaredExponential(sigma=SIGMA)
    X, Z = np.array(TRIED), np.array(POOL)
    covariance = kernel.gram(X) + NOISE * np.eye(len(X))
    process = ExactGP.conditioned(covariance, np.array(VALUES), mean=0.0)
    return process.predict(kernel.gram(Z, X), 1.0)


def test_posterior_mean(predicted, brute):
    close(predicted[0], [brute.mean(x) for x in exact(POOL)], rtol=1e-12)


def test_posterior_variance(predicted, brute):
    close(predicted[1], [brute.variance(x) for x in exact(POOL)], rtol=1e-12)


class Hosted:
    """BoTorch's model with a pre-trained covariance, and the same by brute force."""

    def __init__(self, cov, form, kernel, X, y):
        torch = pytest.importorskip("torch")
        pytest.importorskip("botorch")
        from mkbo_plugins.botorch import pretrained_gp

        self.X, self.y = X, y
        self.model = pretrained_gp(
            cov, torch.tensor(X, dtype=torch.double), torch.tensor(y, dtype=torch.double)[:, None], form=form
        )
        self.model.likelihood.noise = NOISE
        self.model.mean_module.constant = CONSTANT
        self.model.eval()
        # As the host has rounded them, and standardised.
        noise, self.constant = exact(
            [self.model.likelihood.noise[0].detach(), self.model.mean_module.constant.detach()]
        )
        self.mean, self.spread = exact([np.mean(y), np.std(y, ddof=1)])
        standardised = [(value - self.mean) / self.spread - self.constant for value in exact(y)]
        self.posterior = paper.Posterior(kernel, exact(X), standardised, noise)

    def moments(self, x):
        """Return mean and standard deviation in units of the objective by brute force."""
        mean = self.mean + self.spread * (self.constant + self.posterior.mean(x))
        return mean, self.spread * mp.sqrt(self.posterior.variance(x))

    def best(self):
        """Return y^+."""
        return max(self.y)

    def merits(self, acquisition, **options):
        """Return what an acquisition function of BoTorch says of the pool."""
        import torch

        # As tensors, since BoTorch rounds numbers to single precision.
        options = {name: torch.tensor(value, dtype=torch.double) for name, value in options.items()}
        found = acquisition(self.model, **options)(torch.tensor(POOL, dtype=torch.double)[:, None, :])
        return found.detach().numpy()


@pytest.fixture(scope="module")
def hosted(cov, reweighted):
    diagonal = paper.total(reweighted(x, x) for x in exact(POINTS)) / len(POINTS)
    return Hosted(cov, "reweighted", lambda x, y: reweighted(x, y) / diagonal, list(TRIED), VALUES)


def test_probability_of_improvement(hosted):
    from botorch.acquisition import ProbabilityOfImprovement

    expected = [paper.probability_of_improvement(*hosted.moments(x), hosted.best()) for x in exact(POOL)]
    close(hosted.merits(ProbabilityOfImprovement, best_f=hosted.best()), expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:ExpectedImprovement has known numerical issues")
def test_expected_improvement(hosted):
    from botorch.acquisition import ExpectedImprovement

    expected = [paper.expected_improvement(*hosted.moments(x), hosted.best()) for x in exact(POOL)]
    close(hosted.merits(ExpectedImprovement, best_f=hosted.best()), expected, rtol=1e-9)


def test_upper_confidence_bound(hosted):
    from botorch.acquisition import UpperConfidenceBound

    beta = gp_ucb_beta(4, len(POOL))
    expected = [paper.upper_confidence_bound(*hosted.moments(x), beta) for x in exact(POOL)]
    close(hosted.merits(UpperConfidenceBound, beta=beta), expected, rtol=1e-9)


@pytest.mark.parametrize(("t", "candidates", "delta"), [(1, 1, 0.5), (4, 25, 0.1), (50, 1000, 0.01)])
def test_the_sequence_beta_t(t, candidates, delta):
    # Theorem 1 of the source that the paper names: 2 log(|D| t^2 pi^2 / (6 delta))
    expected = 2 * mp.log(candidates * mp.mpf(t) ** 2 * mp.pi**2 / (6 * mp.mpf(delta)))
    close(gp_ucb_beta(t, candidates, delta), expected, rtol=1e-14)


def run(cov, form, kernel, trials=3):
    """Run a loop over the pool on the host and by brute force, and assert that both choose the same."""
    import torch
    from botorch.acquisition import UpperConfidenceBound
    from botorch.optim import optimize_acqf_discrete

    X, y, chosen = list(TRIED), list(VALUES), []
    for t in range(1, trials + 1):
        hosted, beta = Hosted(cov, form, kernel, X, y), gp_ucb_beta(t, len(POOL))
        acquisition = UpperConfidenceBound(hosted.model, torch.tensor(beta, dtype=torch.double))
        found, _ = optimize_acqf_discrete(acquisition, 1, torch.tensor(POOL, dtype=torch.double))
        best = max(POOL, key=lambda x: paper.upper_confidence_bound(*hosted.moments(exact(x)), beta))
        assert tuple(found[0].tolist()) == best
        X, y, chosen = [*X, best], [*y, objective(best)], [*chosen, best]
    return chosen


def test_algorithm_1(cov):
    pytest.importorskip("botorch")
    from mkbo_plugins.botorch import pretrained_gp

    torch = pytest.importorskip("torch")
    model = pretrained_gp(
        cov, torch.tensor(TRIED, dtype=torch.double), torch.tensor(VALUES, dtype=torch.double)[:, None], form="stock"
    )
    # BoTorch's length scales are those of inputs scaled to [0, 1].
    lengths = exact(2 * model.covar_module.lengthscale.detach().numpy()[0])
    se = paper.squared_exponential(1)
    scaled = lambda x: [value / length for value, length in zip(x, lengths, strict=True)]  # noqa: E731
    assert len(set(run(cov, "stock", lambda x, y: se(scaled(x), scaled(y))))) > 1


def test_algorithm_2_trains_a_machine(cov):
    kernel = paper.squared_exponential(SIGMA)
    points, y, alpha, bias = exact(cov.support), exact(TABLE), exact(cov.alpha), mp.mpf(cov.bias)
    g = [paper.total(a * kernel(one, x) for a, one in zip(alpha, points, strict=True)) + bias for x in exact(POINTS)]
    quadratic = paper.tensor_sum(kernel, 2, points, alpha) / 2
    primal = quadratic + C * paper.total(max(0, abs(a - b) - EPSILON) for a, b in zip(g, y, strict=True))
    of_rows = [y[POINTS.index(tuple(map(float, x)))] for x in points]
    dual = quadratic + EPSILON * paper.total(map(abs, alpha)) - paper.inner(of_rows, alpha)
    # Both are met by the same coefficients: the optimum, whose constraints they keep.
    assert abs(primal + dual) <= 1e-5 * primal
    assert abs(paper.total(alpha)) < 1e-12
    assert max(map(abs, alpha)) <= C + 1e-12
    close(cov.predict(np.array(POINTS)), g, rtol=1e-12)


def test_algorithm_2_reweights_the_covariance(cov, reweighted):
    close(cov.gram(np.array(POOL)), paper.gram(reweighted, exact(POOL)), rtol=1e-9)


def test_algorithm_2(cov, reweighted):
    diagonal = paper.total(reweighted(x, x) for x in exact(POINTS)) / len(POINTS)
    assert len(set(run(cov, "reweighted", lambda x, y: reweighted(x, y) / diagonal))) > 1
