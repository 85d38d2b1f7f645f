"""A kernel mixture fitted to a table, as optimisers get it."""

import numpy as np
import pytest

from mkbo_plugins import PretrainedCovariance
from mkbo_plugins.botorch.suggest import suggest
from mkbo_plugins.cli.summary import summary
from mkbo_plugins.core.mixture.kernel_mixture import fit_kernel_mixture
from mkbo_plugins.covariance.mixture import MixtureCovariance
from mkbo_plugins.covariance.pretrained import only_table
from mkbo_plugins.errors import KernelError, SpaceError
from mkbo_plugins.pretraining.mixture import pretrain_mixture
from mkbo_plugins.tables.trials import Trials
from tests.core.helpers import component_of


@pytest.fixture(scope="module")
def mixture(table, space) -> MixtureCovariance:
    return pretrain_mixture(table, "strength", space)


def test_is_the_core_fit_in_raw_units(mixture, table, space):
    Z = np.asarray(space.to_coordinates(space.to_raw(table[list(space.names)]), "centred"))
    fit = fit_kernel_mixture(Z, table["strength"].to_numpy())
    assert (mixture.mixture, mixture.loo_mse) == (fit.mixture, fit.loo_mse)
    np.testing.assert_allclose(mixture.gram(table[list(space.names)]), fit.mixture.gram(Z), rtol=0, atol=1e-12)


def test_reads_back_from_its_file(mixture, tmp_path):
    loaded = PretrainedCovariance.load(mixture.save(tmp_path / "mixture.mkbo.json"))
    assert loaded == mixture
    assert loaded.fingerprint == mixture.fingerprint


@pytest.mark.parametrize("elementwise", [False, True])
def test_gradient_is_that_of_its_values(mixture, elementwise):
    rng = np.random.default_rng(0)
    points, steps = rng.uniform(-1, 1, (2, 2, 4, len(mixture.space.coordinate_names)))

    def component(shift):
        return component_of(mixture.fixed, "base", *(points + shift * steps), elementwise=elementwise)

    upstream = rng.normal(size=component(0).value.shape)
    gradients = component(0).vjp(upstream)
    h = 1e-6
    expected = np.sum(upstream * (component(h).value - component(-h).value)) / (2 * h)
    np.testing.assert_allclose(np.sum(np.stack(gradients) * steps), expected, rtol=1e-7)


def test_what_needs_a_machine_is_refused(mixture, table, space):
    X, y = table[list(space.names)], table["strength"]
    for use in (
        lambda: mixture.form("transfer"),
        lambda: mixture.starting_points(2, "same"),
        lambda: mixture.verdict(X, y),
        lambda: mixture.merit(np.zeros((2, 4)), "same"),
        lambda: only_table(mixture),
        lambda: summary(mixture),
        lambda: suggest(mixture, Trials.none(space)),
    ):
        with pytest.raises(KernelError, match="kernel mixture"):
            use()
    assert len(mixture.starting_points(3)) == 3
    assert not mixture.merit(np.zeros((2, 4)), "unknown").any()


def test_likeness_is_the_correlation(mixture, table, space):
    Z = mixture.to_coordinates(table[list(space.names)])
    gram = component_of(mixture.fixed, "base", Z).value
    scale = np.sqrt(np.diag(gram))
    np.testing.assert_allclose(mixture.fixed.correlation(Z, Z), gram / np.outer(scale, scale), rtol=1e-12)


def test_unknown_frame_is_refused(table, space):
    with pytest.raises(SpaceError, match="frame"):
        pretrain_mixture(table, "strength", space, frame="middle")
