"""The named frame: the same covariance whatever the target's order, bounds, logs, levels and constants."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mkbo_plugins import ParameterSpace
from mkbo_plugins.botorch import NamedFrame, PretrainedKernel, pretrained_gp
from mkbo_plugins.errors import SpaceError

GRAM_FORMS = ("base", "reweighted", "normalised", "two_layer", "moment")
MIDDLE = {"power": 2000.0, "rate": 1e-3, "layers": 3, "gas": "Nitrogen"}
EXTRA = {"pressure": (0.5, 3.0), "pulse": (1e-9, 1e-6, "log"), "lens": ["short", "long"]}


def test_gradients_at_levels_are_those_of_a_step_that_stays_among_them(small_cov):
    frame, steps = NamedFrame(small_cov), torch.tensor([1.0, 1.0, -1.0], dtype=torch.double)
    column = frame.names.index("gas")
    X = frame.sample(3, torch.empty(0, dtype=torch.double))
    X[:, column] = torch.arange(3.0)  # the last of three levels can only be left downwards
    X.requires_grad_()
    moved = X.detach().clone()
    moved[:, column] += 1e-6 * steps
    slopes = (frame(moved) - frame(X)) / (1e-6 * steps[:, None])
    for j in range(slopes.shape[-1]):
        gradient = torch.autograd.grad(frame(X)[:, j].sum(), X)[0][:, column]
        torch.testing.assert_close(gradient, slopes[:, j], rtol=0, atol=1e-8)


@st.composite
def target_spaces(draw):
    """Describe a target: the same parameters in another order, with other bounds, one perhaps fixed, one extra."""
    factor = draw(st.floats(0.2, 3.0))
    entries = {
        "power": draw(
            st.sampled_from([(100.0, 5500.0), (500.0, 900.0), (0.0, 20000.0), (100.0 * factor, 5500.0 + 100 * factor)])
        ),
        "rate": draw(
            st.sampled_from([(1e-5, 1e-1, "log"), (1e-4 * factor, 1e-2, "log"), (1e-6, 1.0, "log"), (1e-5, 1e-1)])
        ),
        "layers": draw(st.sampled_from([(1, 6, "int"), (2, 5, "int"), (0, 40, "int"), (1.0, 6.0), [1, 2, 3, 6]])),
        "gas": draw(st.permutations(["Argon", "Nitrogen", "Air"])),
    }
    fixed = draw(st.sampled_from([None, *MIDDLE]))
    extra = draw(st.sampled_from([None, *EXTRA]))
    if extra is not None:
        entries[extra] = EXTRA[extra]
    names = draw(st.permutations([name for name in entries if name != fixed]))
    columns = draw(st.permutations(names))
    return {name: entries[name] for name in names}, columns, fixed, extra


def target_columns(points, space, columns):
    """Return raw target columns of user-facing points, a level being its index in the target."""
    return torch.tensor([[space[name].to_raw(point[name]) for name in columns] for point in points], dtype=torch.double)


def kernel_gram(kernel, form, x, y, mean_diagonal):
    """Return what `PretrainedCovariance.gram` should give, out of a kernel with unit scales."""
    gram = kernel(x, y).to_dense().detach()
    if form == "reweighted":
        gram = gram * mean_diagonal
    if form == "moment":
        columns = x.shape[-1] - kernel.stock_dims
        gram = gram - kernel.stock(x[..., columns:], y[..., columns:]).to_dense().detach()
    return gram.numpy()


def unit_scales(kernel):
    for name in kernel.form.hyperparameters:
        kernel.set_scale(name, 1.0)
    return kernel.double()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(described=target_spaces(), seed=st.integers(0, 10_000))
def test_gram_is_that_of_numpy_over_random_target_spaces(cov, described, seed):
    entries, columns, fixed, extra = described
    points = cov.space.from_raw(cov.space.sobol(6, seed))
    if entries.get("layers") == [1, 2, 3, 6]:
        points = [{**p, "layers": (1, 2, 3, 6)[i % 4]} for i, p in enumerate(points)]
    if fixed is not None:
        points = [{**p, fixed: MIDDLE[fixed]} for p in points]
    space = ParameterSpace.from_dict(entries)
    if extra is not None:
        points = [
            {**p, extra: value[extra]} for p, value in zip(points, space.from_raw(space.sobol(6, seed)), strict=True)
        ]
    frame_arguments = {"space": space, "fixed": None if fixed is None else {fixed: MIDDLE[fixed]}}
    raw = target_columns(points, space, columns)
    for form in GRAM_FORMS:
        stock = "all" if form == "moment" else "none"
        frame = NamedFrame(cov, columns, stock_columns=stock, **frame_arguments)
        kernel = unit_scales(PretrainedKernel(cov, form, stock_dims=frame.num_stock_columns))
        x = frame(raw)
        computed = kernel_gram(kernel, form, x[:4], x[2:], cov.fixed.mean_diagonal)
        expected = cov.gram(points, form=form)
        scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        # Subtracting the stock covariance leaves its rounding, which is relative to 1, where g is close to its mean.
        scale = scale + (1.0 if form == "moment" else 0.0)
        assert (np.abs(computed - expected[:4, 2:]) / scale[:4, 2:]).max() < 1e-10, form


def test_frame_inside_the_kernel_gives_the_same_gram(cov):
    columns = ("gas", "rate", "power", "layers")
    points = cov.space.from_raw(cov.space.sobol(6, 1))
    raw = target_columns(points, cov.space, columns)
    frame = NamedFrame(cov, columns)
    outside = PretrainedKernel(cov, stock_dims=frame.num_stock_columns).double()
    inside = PretrainedKernel(cov, stock_dims=frame.num_stock_columns, frame=frame).double()
    assert torch.allclose(inside(raw).to_dense(), outside(frame(raw)).to_dense(), rtol=1e-13)


@pytest.mark.parametrize("form", ["two_layer", "normalised"])
def test_model_inputs_are_raw(cov, form):
    columns = ("gas", "rate", "power", "layers")
    points = cov.space.from_raw(cov.space.sobol(6, 1))
    raw = target_columns(points, cov.space, columns)
    model = pretrained_gp(cov, raw, torch.arange(6.0).double()[:, None], form=form, names=columns)
    for name in model.covar_module.form.hyperparameters:
        model.covar_module.set_scale(name, 1.0)
    assert np.allclose(model.covar_module(raw).to_dense().detach(), cov.gram(points, form=form), rtol=0, atol=1e-10)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(low=st.floats(-1e4, 1e3), width=st.floats(1e-2, 1e5), decades=st.floats(0.1, 8))
def test_frame_never_moves_with_the_targets_bounds(cov, low, width, decades):
    entries = {
        "power": (low, low + width),
        "rate": (1e-4, 1e-4 * 10**decades, "log"),
        "layers": (2, 9, "int"),
        "gas": ["Argon", "Nitrogen", "Air"],
    }
    raw = torch.tensor(cov.space.sobol(5, 2))
    moved = NamedFrame(cov, space=ParameterSpace.from_dict(entries))
    own = NamedFrame(cov)
    assert torch.equal(moved(raw)[:, : moved.num_frame_columns], own(raw)[:, : own.num_frame_columns])


def test_stock_columns_follow_the_targets_bounds(cov):
    entries = {
        "lens": ["short", "long"],
        "power": (0.0, 1000.0),
        "rate": (1e-4, 1e-2, "log"),
        "layers": (1, 5, "int"),
        "gas": ["Air", "Argon", "Nitrogen"],
    }
    space = ParameterSpace.from_dict(entries)
    raw = torch.tensor([[1.0, 250.0, 1e-3, 2.0, 0.0]]).double()
    for kind, expected in {
        "all": [0, 1, 0.25, 0.5, 0.25, 1, 0, 0],
        "extra": [0, 1],
        "none": [],
    }.items():
        frame = NamedFrame(cov, space=space, stock_columns=kind)
        assert frame.num_frame_columns == 6
        assert frame.num_stock_columns == len(expected)
        assert torch.allclose(frame(raw)[0, 6:], torch.tensor(expected).double(), atol=1e-12)
    assert NamedFrame(cov, space=space, frame_columns=False)(raw).shape == (1, 8)


def test_batched_rows_and_single_precision(cov):
    raw = torch.tensor(cov.space.sobol(12, 2))
    frame = NamedFrame(cov)
    assert torch.equal(frame(raw.reshape(3, 4, 4)), frame(raw).reshape(3, 4, -1))
    single = frame(raw.float())
    assert single.dtype == torch.float32
    assert torch.allclose(single.double(), frame(raw), atol=1e-5)


def test_gradients_reach_raw_columns(cov):
    raw = torch.tensor(cov.space.sobol(3, 2))
    raw[:, 0] /= 1000
    raw[:, 1] *= 100
    raw[:, 3] = torch.tensor([0.3, 1.4, 1.7])
    entries = {name: p.to_spec() for name, p in zip(cov.space.names, cov.space.parameters, strict=True)}
    frame = NamedFrame(cov, space=ParameterSpace.from_dict(entries))
    assert torch.autograd.gradcheck(frame.transform, (raw.requires_grad_(),))


def test_samples_are_rows_of_the_target_space(cov):
    entries = {"gas": ["Air", "Argon"], "power": (700.0, 800.0), "rate": (1e-4, 1e-3, "log"), "layers": (2, 3, "int")}
    columns = ("power", "gas", "layers", "rate")
    rows = NamedFrame(cov, columns, space=ParameterSpace.from_dict(entries)).sample(32, torch.zeros(1).double())
    assert rows.shape == (32, 4)
    for column, (low, high) in zip(rows.T, [(700, 800), (0, 1), (2, 3), (1e-4, 1e-3)], strict=True):
        assert column.min() >= low
        assert column.max() <= high
        assert column.max() > column.min()


def test_equality_is_by_behaviour(cov, gp_cov):
    assert NamedFrame(cov).equals(NamedFrame(cov))
    assert NamedFrame(cov).equals(NamedFrame(gp_cov))
    others = [
        NamedFrame(cov, ("rate", "power", "layers", "gas")),
        NamedFrame(cov, stock_columns="extra"),
        NamedFrame(cov, frame_columns=False),
        NamedFrame(cov, fixed={"gas": "Air"}),
    ]
    assert not any(NamedFrame(cov).equals(other) for other in others)
    assert not NamedFrame(cov, fixed={"gas": "Argon"}).equals(NamedFrame(cov, fixed={"gas": "Air"}))


def with_entry(cov, **changes):
    entries = {**cov.space.to_dict(), **changes}
    return ParameterSpace.from_dict({name: entry for name, entry in entries.items() if entry is not None})


def test_wrong_names_are_named(cov):
    cases = [
        ({"names": ["power", "rate", "layers"]}, "no column for parameters.*gas"),
        ({"names": ["powr", "rate", "layers", "gas"]}, "no column for parameters .'power'.; did you mean 'powr'"),
        ({"names": ["power", "rate", "layers", "gas", "lens"]}, "lens.*not described"),
        ({"names": ["power", "power", "rate", "layers", "gas"]}, "found twice.*power"),
        ({"space": with_entry(cov, gas=None)}, "lacks pre-trained parameters.*gas.*fixed"),
        ({"fixed": {"lens": "long"}}, "lens.*not pre-trained"),
        ({"fixed": {"gas": "Air"}, "space": cov.space}, "gas.*both fixed and in the target's space"),
        ({"fixed": {"gas": "Air"}, "names": ["power", "rate", "layers", "gas"]}, "gas.*also fixed"),
        ({"fixed": {"gas": "Neon"}}, "gas.*Neon"),
        ({"fixed": {"rate": -1.0}}, "rate.*above 0"),
        ({"stock_columns": "some"}, "stock_columns.*'some'"),
    ]
    for arguments, message in cases:
        with pytest.raises(SpaceError, match=f"(?s){message}"):
            NamedFrame(cov, **arguments)


def test_mismatched_kinds_and_levels_are_named(cov):
    cases = [
        ({"gas": (0.0, 1.0)}, r"gas.*levels \['Argon'.* in the table but is numeric"),
        ({"power": ["low", "high"]}, r"power.*numeric in the table but has the levels \['low'"),
        ({"gas": {"levels": ["Argon", "Nitrogen", "Air"], "ordered": True}}, r"gas.*levels .* has the ordered levels"),
        ({"gas": ["Argon", "Neon"]}, "gas.*Neon.*leave the level out"),
    ]
    for changes, message in cases:
        with pytest.raises(SpaceError, match=f"(?s){message}"):
            NamedFrame(cov, space=with_entry(cov, **changes))


def test_values_that_a_column_cannot_take_are_named(cov):
    frame, good = NamedFrame(cov), torch.tensor(cov.space.sobol(3))
    frame(good)
    for column, value, message in [
        (1, 0.0, "rate.*above 0"),
        (1, -1e-3, "rate.*above 0"),
        (1, float("nan"), "rate.*above 0"),
        (3, 3.0, "gas.*between 0 and 2"),
        (3, -1.0, "gas.*between 0 and 2"),
        (3, float("nan"), "gas.*between 0 and 2"),
    ]:
        bad = good.clone()
        bad[1, column] = value
        with pytest.raises(SpaceError, match=message):
            frame(bad)
    with pytest.raises(SpaceError, match=r"expected 4 columns.*'gas'.*got 3"):
        frame(good[:, :3])


def test_a_log_parameter_of_the_table_stays_above_zero_where_the_target_has_no_log(cov):
    frame = NamedFrame(cov, space=with_entry(cov, rate=(1e-6, 0.1)))
    raw = torch.tensor(cov.space.sobol(2))
    frame(raw)
    raw[0, 1] = 0.0
    with pytest.raises(SpaceError, match=r"rate.*above 0"):
        frame(raw)


def test_a_log_parameter_of_the_target_stays_above_zero_where_no_logarithm_is_put_out(cov):
    frame = NamedFrame(cov, space=with_entry(cov, power=(100.0, 5500.0, "log")), stock_columns="none")
    raw = torch.tensor(cov.space.sobol(2))
    frame(raw)
    raw[0, 0] = 0.0
    with pytest.raises(SpaceError, match=r"power.*above 0"):
        frame(raw)


def test_ordered_levels_are_those_of_the_table():
    def grades(*levels):
        return ParameterSpace.from_dict({"grade": {"levels": levels, "ordered": True}})

    table = SimpleNamespace(space=grades("low", "mid", "high"), frame="centred")
    raw = torch.tensor([[0.0], [1.0], [2.0]]).double()
    assert NamedFrame(table, space=grades("low", "mid", "high"))(raw).tolist() == [[-1, 0], [0, 0.5], [1, 1]]
    with pytest.raises(SpaceError, match=r"grade.*has the ordered levels \['low', 'mid', 'high'\] in the table"):
        NamedFrame(table, space=grades("low", "high"))


def test_missing_numbers_are_refused_by_the_model(cov):
    raw = torch.tensor(cov.space.sobol(3))
    raw[1, 0] = float("nan")
    with pytest.raises(Exception, match="NaN"):
        pretrained_gp(cov, raw, torch.rand(3, 1).double())


def test_a_range_from_zero_of_a_parameter_on_a_log_scale_is_refused(cov):
    space = with_entry(cov, rate=(0.0, 0.1))
    with pytest.raises(SpaceError, match="'rate' begins at 0 here"):
        NamedFrame(cov, space=space)
    NamedFrame(cov, space=space, frame_columns=False)
