"""The verdict on a table by the data of a BoTorch model."""

import numpy as np
import pytest
import torch

from mkbo_plugins import ParameterSpace
from mkbo_plugins.botorch import pretrained_average, pretrained_gp, table_verdict
from mkbo_plugins.core.gp.bayes_factor import Answer
from mkbo_plugins.errors import MkboError, TableError, TableWarning
from tests.conftest import MIXED_SPACE


@pytest.fixture(scope="module")
def data(cov):
    X = torch.as_tensor(cov.space.sobol(14, seed=3), dtype=torch.double)
    return X, torch.as_tensor(cov.predict(X.numpy()))[:, None]


@pytest.mark.parametrize("form", ["transfer", "moment", "two_layer", "normalised"])
def test_it_is_that_of_the_covariance_whatever_the_form_and_mode(cov, data, form):
    expected = cov.verdict(data[0].numpy(), data[1][:, 0].numpy(), form)
    model = pretrained_gp(cov, *data, form=form)
    for mode in (model.train(), model.eval()):
        found = table_verdict(mode)
        assert found.answer is expected.answer is Answer.YES
        assert found.values == 14
        assert (found.form, found.instead) == (form, expected.instead)
        assert found.form_log_ratio == pytest.approx(expected.form_log_ratio, rel=1e-3)
        assert found.log_ratio == pytest.approx(expected.log_ratio, rel=1e-3)


def test_sign_and_unit_of_the_outcome_do_not_matter(cov, data):
    X, Y = data
    ratios = [table_verdict(pretrained_gp(cov, X, y)).log_ratio for y in (Y, -Y, 1e3 * Y + 7)]
    assert ratios == pytest.approx([ratios[0]] * 3, rel=1e-3)


def test_columns_are_found_by_name_and_extra_parameters_count(cov, data):
    X, Y = data
    names = [*cov.space.names[::-1], "extra"]
    space = ParameterSpace.from_dict({**MIXED_SPACE, "extra": (0.0, 1.0)})
    extra = torch.linspace(0, 1, len(X), dtype=torch.double)[:, None]
    shuffled = torch.cat([X.flip(-1), extra], dim=-1)
    model = pretrained_gp(cov, shuffled, Y, names=names, space=space)
    assert table_verdict(model).answer is Answer.YES
    noise = torch.as_tensor(np.random.default_rng(0).normal(size=(len(X), 1)))
    assert table_verdict(pretrained_gp(cov, shuffled, noise, names=names, space=space)).answer is not Answer.YES


def test_an_average_has_the_verdict_of_its_members(cov, data):
    average = pretrained_average(cov, *data, forms=("stock", "moment"))
    of_member = table_verdict(pretrained_gp(cov, *data, form="moment"))
    assert table_verdict(average).log_ratio == pytest.approx(of_member.log_ratio, rel=1e-3)
    for foremost, form in enumerate(("stock", "moment")):
        average.weights = torch.eye(2)[foremost]
        assert table_verdict(average).form == form


def test_only_parameters_that_the_table_lacks_are_stock_inputs_of_a_form_without_a_stock_covariance(cov, data):
    X, Y = data
    space = ParameterSpace.from_dict({**MIXED_SPACE, "extra": (0.0, 1.0)})
    wider = torch.cat([X, torch.rand(len(X), 1, generator=torch.manual_seed(0)).double()], dim=-1)
    with_extra, without = (
        table_verdict(pretrained_gp(cov, x, Y, form="two_layer", space=known))
        for x, known in ((wider, space), (X, None))
    )
    assert with_extra.form_log_ratio < without.form_log_ratio  # a length scale more is to be learned
    assert with_extra.form_log_ratio == pytest.approx(without.form_log_ratio, abs=5)


def test_what_cannot_be_judged_is_refused(cov, data):
    X, Y = data
    with pytest.raises(MkboError, match="no pre-trained covariance"):
        table_verdict(pretrained_gp(cov, X, Y, form="stock"))
    with pytest.raises(MkboError, match="about one outcome"):
        table_verdict(pretrained_gp(cov, X, torch.cat([Y, -Y], dim=-1)))
    with pytest.raises(TableError, match="at least 3 values"):
        table_verdict(pretrained_gp(cov, X[:2], Y[:2]))


def test_bounds_in_other_units_are_warned_of(cov, data):
    space = ParameterSpace.from_dict({**MIXED_SPACE, "power": (0.1, 5.5)})
    in_watts = data[0] * torch.tensor([1e-3, 1, 1, 1], dtype=torch.double)
    with pytest.warns(TableWarning, match=r"'power' runs from 0\.1 to 5\.5 here but from 100 to 5500 in the table"):
        pretrained_gp(cov, in_watts, data[1], space=space)


def test_known_noise_counts(cov, data):
    X, Y = data
    quiet, loud = (table_verdict(pretrained_gp(cov, X, Y, train_Yvar=torch.full_like(Y, v))) for v in (1e-3, 10.0))
    assert quiet.log_ratio > 5
    assert abs(loud.log_ratio) < 1
