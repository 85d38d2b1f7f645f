"""The kernel mixture in scikit-optimize."""

import numpy as np
import pytest
from skopt import gp_minimize

from mkbo_plugins.errors import KernelError
from mkbo_plugins.pretraining.mixture import pretrain_mixture
from mkbo_plugins.skopt import mixture_regressor, pretrained_regressor
from tests.skopt.conftest import as_records, mixed_dimensions, normalised, related


@pytest.fixture(scope="module")
def mixture(table, space):
    return pretrain_mixture(table, "strength", space)


def test_gram_is_that_of_the_core(mixture):
    dimensions = [dimension for dimension in mixed_dimensions() if dimension.name != "tip"]
    space = normalised(dimensions)
    rows = space.rvs(12, random_state=0)
    kernel = mixture_regressor(mixture, dimensions).kernel
    assert kernel.scale("output_scale") == 1.0
    expected = mixture.gram(as_records(dimensions, rows))
    np.testing.assert_allclose(kernel(space.transform(rows)), expected, rtol=0, atol=1e-10)


def test_gp_minimize_runs_with_it(mixture, small_cov):
    dimensions = mixed_dimensions()
    regressor = mixture_regressor(mixture, dimensions, random_state=0)
    result = gp_minimize(
        lambda row: related(small_cov, dimensions, row),
        dimensions,
        base_estimator=regressor,
        n_calls=10,
        n_initial_points=6,
        random_state=0,
    )
    assert np.isfinite(result.func_vals).all()
    assert result.models[-1].kernel_.cov == mixture
    assert result.models[-1].kernel_.scale("output_scale") != 1.0


def test_forms_that_need_a_machine_are_refused(mixture):
    with pytest.raises(KernelError, match="kernel mixture"):
        pretrained_regressor(mixture, mixed_dimensions())
