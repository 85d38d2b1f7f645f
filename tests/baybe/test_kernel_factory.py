"""What BaYBE's Gaussian process really uses is the covariance at raw points, whatever the search space."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("baybe", reason="BaYBE is missing; the extra baybe of this package installs it")

from baybe import Campaign
from baybe.constraints import ContinuousLinearConstraint
from baybe.objectives import ParetoObjective, SingleTargetObjective
from baybe.parameters import (
    CategoricalParameter,
    CustomDiscreteParameter,
    NumericalContinuousParameter,
    NumericalDiscreteParameter,
    TaskParameter,
)
from baybe.recommenders import BotorchRecommender
from baybe.searchspace import SearchSpace, SubspaceDiscrete
from baybe.surrogates import CompositeSurrogate, GaussianProcessSurrogate
from baybe.targets import NumericalTarget

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.baybe import PretrainedKernelFactory, parameter_space, pretrained_surrogate
from mkbo_plugins.botorch import PretrainedKernel
from mkbo_plugins.errors import ArtefactError, KernelError, MkboError, SpaceError, TableWarning
from tests.conftest import mixed_table

OBJECTIVE = SingleTargetObjective(NumericalTarget("quality"))
GASES = ["Argon", "Nitrogen", "Air"]


@pytest.fixture(scope="module", params=["centred", "unit"])
def framed(request, space):
    return pretrain(mixed_table(), "strength", space, trainer="gp", frame=request.param)


def random_searchspace(seed):
    """Return a search space over `MIXED_SPACE` with bounds, values, levels, encodings and an order of its own."""
    rng = np.random.default_rng(seed)
    low, high = np.sort(rng.uniform(0, 6000, 2))
    rates = 10 ** np.sort(rng.uniform(-5, -1, 3))
    discrete = bool(seed % 2)
    parameters = [
        NumericalDiscreteParameter("power", np.linspace(low, high, 3))
        if discrete
        else NumericalContinuousParameter("power", (low, high)),
        NumericalDiscreteParameter("rate", rates)
        if discrete
        else NumericalContinuousParameter("rate", (rates[0], rates[-1])),
        NumericalDiscreteParameter("layers", rng.choice(6, 2, replace=False) + 1),
        CategoricalParameter("gas", rng.permutation(GASES)[: 2 + seed % 2], encoding=("OHE", "INT")[seed // 2 % 2]),
        NumericalContinuousParameter("extra", (-1, 5)),
    ]
    return SearchSpace.from_product([parameters[j] for j in rng.permutation(5)])


def measured(searchspace, n, seed):
    """Return points of a search space with an outcome."""
    rng, candidates = np.random.default_rng(seed), searchspace.discrete.exp_rep
    discrete = (
        candidates.iloc[rng.integers(len(candidates), size=n)].reset_index(drop=True)
        if len(candidates)
        else pd.DataFrame()
    )
    continuous = {p.name: rng.uniform(*p.bounds.to_tuple(), n) for p in searchspace.continuous.parameters}
    return discrete.assign(**continuous, quality=rng.normal(size=n))


def inputs_of_reference(cov, searchspace, points):
    """Return frame coordinates of raw points, and all columns scaled by hand to the search space's own range."""
    columns = searchspace.transform(points, allow_extra=True).to_numpy(float)
    ends = searchspace.scaling_bounds.to_numpy(float)
    raw = cov.space.to_raw(points[list(cov.space.names)])
    frame = cov.space.to_coordinates(raw, cov.frame)
    return torch.as_tensor(np.hstack([frame, (columns - ends[0]) / (ends[1] - ends[0])]))


@pytest.mark.parametrize("seed", range(4))
def test_the_gram_matrix_in_use_is_that_of_raw_points(framed, seed):
    """Of the fitted model, beside a kernel with the same scales that is given frame coordinates of raw points."""
    searchspace, form = random_searchspace(seed), ("similarity_link", "transfer")[seed % 2]
    surrogate = GaussianProcessSurrogate(PretrainedKernelFactory(framed, form))
    surrogate.fit(searchspace, OBJECTIVE, measured(searchspace, 6, seed))
    model, points = surrogate.to_botorch(), measured(searchspace, 9, seed + 10)
    model.eval()
    X = torch.as_tensor(searchspace.transform(points, allow_extra=True).to_numpy(float))
    reference = PretrainedKernel(framed, form, stock_dims=X.shape[-1]).double()
    reference.load_state_dict({k: v for k, v in model.covar_module.state_dict().items() if not k.startswith("frame.")})
    with torch.no_grad():
        used = model.covar_module(model.transform_inputs(X)).to_dense()
        expected = reference(inputs_of_reference(framed, searchspace, points)).to_dense()
    torch.testing.assert_close(used, expected, rtol=0, atol=1e-8 * float(expected.diagonal().max()))


@pytest.mark.parametrize("seed", range(2))
def test_the_form_without_other_parts_is_the_covariance_of_the_table(framed, seed):
    """K^E of raw points by NumPy, up to the one scale that the form has, and a stock covariance of what is extra."""
    searchspace = random_searchspace(seed)
    surrogate = GaussianProcessSurrogate(PretrainedKernelFactory(framed, "normalised"))
    points = measured(searchspace, 6, seed)
    surrogate.fit(searchspace, OBJECTIVE, points)
    model = surrogate.to_botorch()
    kernel = model.covar_module
    X = torch.as_tensor(searchspace.transform(points, allow_extra=True).to_numpy(float))
    model.eval()
    with torch.no_grad():
        inputs = model.transform_inputs(X)
        used = kernel(inputs).to_dense() / kernel.stock(inputs).to_dense()
    expected = framed.gram(points[list(framed.space.names)], form="normalised")
    scale = float(used[0, 0] / expected[0, 0])
    np.testing.assert_allclose(used, scale * expected, rtol=0, atol=1e-8 * scale)


def test_the_posterior_is_that_of_the_covariance_at_raw_points(framed):
    searchspace = random_searchspace(0)
    data, points = measured(searchspace, 8, 1), measured(searchspace, 5, 2)
    surrogate = GaussianProcessSurrogate(PretrainedKernelFactory(framed))
    surrogate.fit(searchspace, OBJECTIVE, data)
    model = surrogate.to_botorch()
    reference = PretrainedKernel(framed, stock_dims=len(searchspace.comp_rep_columns)).double()
    reference.load_state_dict({k: v for k, v in model.covar_module.state_dict().items() if not k.startswith("frame.")})
    both = pd.concat([data, points], ignore_index=True)
    with torch.no_grad():
        K = reference(inputs_of_reference(framed, searchspace, both)).to_dense().numpy()
        noise, constant = float(model.likelihood.noise), float(model.mean_module.constant)
    y, n = data["quality"].to_numpy(), len(data)
    standardised = (y - y.mean()) / y.std(ddof=1)
    weights = np.linalg.solve(K[:n, :n] + noise * np.eye(n), np.column_stack([standardised - constant, K[:n, n:]]))
    mean = constant + K[n:, :n] @ weights[:, 0]
    variance = np.diag(K[n:, n:] - K[n:, :n] @ weights[:, 1:])
    found = surrogate.posterior_stats(points, ("mean", "var"))
    np.testing.assert_allclose(found["quality_mean"], y.mean() + y.std(ddof=1) * mean, atol=1e-7)
    np.testing.assert_allclose(found["quality_var"], y.var(ddof=1) * variance, atol=1e-7)


def test_the_kernel_by_itself_would_be_in_another_frame():
    """This is why there is a factory: BaYBE scales by the search space, nothing tells, and no campaign is stored."""
    searchspace = SearchSpace.from_product(
        [NumericalContinuousParameter(name, ends) for name, ends in [("a", (0.0, 0.5)), ("b", (0.0, 1.0))]]
    )
    space = ParameterSpace.from_dict({"a": (0, 1), "b": (0, 1)})
    X = space.sobol(20)
    cov = pretrain((X, np.sin(4 * X[:, 0]) + X[:, 1]), space=space, trainer="gp", frame="unit")
    data = measured(searchspace, 6, 0)
    grams = []
    for kernel in (PretrainedKernel(cov, "normalised"), PretrainedKernelFactory(cov, "normalised")):
        surrogate = GaussianProcessSurrogate(kernel)
        surrogate.fit(searchspace, OBJECTIVE, data)
        model = surrogate.to_botorch().eval()
        inputs = model.transform_inputs(torch.as_tensor(searchspace.transform(data, allow_extra=True).to_numpy(float)))
        with torch.no_grad():
            gram = model.covar_module(inputs).to_dense()
            gram = gram if isinstance(kernel, PretrainedKernel) else gram / model.covar_module.stock(inputs).to_dense()
        grams.append((gram / gram[0, 0]).numpy())
    expected = cov.gram(data[["a", "b"]], form="normalised")
    assert np.abs(grams[0] - expected).max() > 0.01
    with pytest.raises(NotImplementedError):
        GaussianProcessSurrogate(PretrainedKernel(cov)).to_json()
    np.testing.assert_allclose(grams[1], expected, atol=1e-8)


def campaign(searchspace, factory, objective=OBJECTIVE):
    surrogate = GaussianProcessSurrogate(factory)
    recommender = BotorchRecommender(surrogate_model=surrogate, n_restarts=1, n_raw_samples=8)
    return Campaign(searchspace, objective, recommender)


def test_a_campaign_is_stored_read_in_another_process_and_gone_on_with(gp_cov, tmp_path):
    searchspace = random_searchspace(1).discrete.to_searchspace()
    begun = campaign(searchspace, PretrainedKernelFactory(gp_cov, "transfer"))
    begun.add_measurements(measured(searchspace, 5, 0))
    points = measured(searchspace, 3, 5)
    before = begun.get_surrogate().posterior_stats(points)
    (tmp_path / "campaign.json").write_text(begun.to_json())
    points.to_csv(tmp_path / "points.csv", index=False)
    script = f"""
import gc
gc.disable()  # BaYBE looks classes up by name, among those that are still in memory
import pandas as pd
import mkbo_plugins.baybe
from baybe import Campaign
campaign = Campaign.from_json(open({str(tmp_path / "campaign.json")!r}).read())
points = pd.read_csv({str(tmp_path / "points.csv")!r})
campaign.get_surrogate().posterior_stats(points).to_csv({str(tmp_path / "after.csv")!r}, index=False)
next_one = campaign.recommend(1).assign(quality=1.0)
campaign.add_measurements(next_one)
print(len(campaign.measurements))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["6"]
    np.testing.assert_allclose(pd.read_csv(tmp_path / "after.csv"), before, atol=1e-8)
    again = Campaign.from_json(begun.to_json())
    assert again == begun


def test_a_damaged_covariance_in_a_stored_campaign_is_refused(gp_cov):
    begun = campaign(random_searchspace(1), PretrainedKernelFactory(gp_cov))
    text = begun.to_json()
    assert text.count("strength") == 1
    with pytest.raises(ExceptionGroup) as caught:
        Campaign.from_json(text.replace("strength", "strongth"))
    assert caught.group_contains(ArtefactError, match="altered since it was saved")
    factory = PretrainedKernelFactory(gp_cov, fixed={"gas": "Air"}).to_json()
    for key, value, words in (
        ("cov", None, "text of its file, got NoneType"),
        ("cov", 3, "text of its file, got int"),
        ("cov", "\ud83d", "not a saved covariance"),
        ("fixed", "gas", "must be a mapping"),
        ("fixed", ["gas"], "must be a mapping"),
    ):
        with pytest.raises(ExceptionGroup) as refused:
            PretrainedKernelFactory.from_json(json.dumps(json.loads(factory) | {key: value}))
        assert refused.group_contains(MkboError, match=words), value


@pytest.mark.parametrize("minimise", [False, True])
@pytest.mark.parametrize("kind", ["discrete", "continuous", "hybrid"])
def test_recommendations_are_of_the_search_space(gp_cov, kind, minimise):
    """They are also near what the outcomes say is good, which is one end of a parameter."""
    discrete, layers = random_searchspace(1).discrete, NumericalContinuousParameter("layers", (1, 5))
    power, rate = NumericalContinuousParameter("power", (500, 4000)), NumericalContinuousParameter("rate", (1e-4, 1e-2))
    searchspace, fixed = {
        "discrete": (discrete.to_searchspace(), {}),
        "continuous": (SearchSpace.from_product([power, rate, layers]), {"gas": "Air"}),
        "hybrid": (SearchSpace.from_product([power, rate, layers, CategoricalParameter("gas", ["Air", "Argon"])]), {}),
    }[kind]
    objective = SingleTargetObjective(NumericalTarget("quality", minimize=minimise))
    begun = campaign(searchspace, PretrainedKernelFactory(gp_cov, fixed=fixed), objective)
    points = measured(searchspace, 8, 3)
    begun.add_measurements(points.assign(quality=points["power"] / 1000))
    found = begun.recommend(1)
    for parameter in searchspace.parameters:
        assert all(parameter.is_in_range(value) for value in found[parameter.name])
    assert (found["power"].item() < points["power"].median()) == minimise


PARTS = ("sand", "lime", "water")
MIXTURE = ParameterSpace.from_dict(
    {"sand": (0, 1), "lime": (0, 1), "water": (0, 1)}, constraints=[{"sum": list(PARTS), "equals": 1}]
)


@pytest.fixture(scope="module")
def mixture():
    table = pd.DataFrame(MIXTURE.from_raw(MIXTURE.sobol(20)))
    return pretrain(
        table.assign(strength=table["lime"] - (table["water"] - 0.3) ** 2), "strength", MIXTURE, trainer="gp"
    )


def simplex(total=1.0, boundary=True):
    parameters = [NumericalDiscreteParameter(name, np.linspace(0, total, 6), tolerance=1e-3) for name in PARTS]
    return SearchSpace(SubspaceDiscrete.from_simplex(total, parameters, boundary_only=boundary))


def continuous(constraints):
    parameters = [NumericalContinuousParameter(name, (0, 1)) for name in PARTS]
    return SearchSpace.from_product(parameters, constraints)


@pytest.mark.filterwarnings("error::mkbo_plugins.errors.MkboWarning")
@pytest.mark.parametrize(
    "searchspace",
    [simplex(), continuous([ContinuousLinearConstraint(PARTS, "=", rhs=1.0)])],
    ids=["discrete", "continuous"],
)
def test_mixtures_keep_their_sum(mixture, searchspace):
    points = pd.DataFrame(MIXTURE.from_raw(MIXTURE.sobol(4))) if searchspace.discrete.is_empty else None
    points = searchspace.discrete.exp_rep.iloc[::6] if points is None else points
    begun = campaign(searchspace, PretrainedKernelFactory(mixture))
    begun.add_measurements(points.assign(quality=np.arange(len(points)) % 3))
    found = begun.recommend(2)
    np.testing.assert_allclose(found[list(PARTS)].sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    "searchspace",
    [simplex(boundary=False), continuous([]), continuous([ContinuousLinearConstraint(PARTS, "<=", rhs=1.0)])],
    ids=["discrete", "continuous", "bounded"],
)
def test_a_sum_that_the_search_space_does_not_keep_is_warned_of(mixture, searchspace):
    with pytest.warns(TableWarning, match=r"sand \+ lime \+ water = 1.*the search space does not"):
        PretrainedKernelFactory(mixture)(searchspace, OBJECTIVE, None)


def test_levels_with_descriptors_are_levels(framed):
    """BaYBE shows numbers of each gas; the covariance knows gases by name, the stock covariance sees the numbers."""
    descriptors = pd.DataFrame(
        {"mass": [40.0, 29.0, 28.0], "heat": [0.52, 1.0, 1.04]}, index=["Argon", "Air", "Nitrogen"]
    )
    others = [p for p in random_searchspace(0).parameters if p.name not in {"gas", "extra"}]
    searchspace = SearchSpace.from_product([*others, CustomDiscreteParameter("gas", descriptors)])
    kernel = PretrainedKernelFactory(framed)(searchspace, OBJECTIVE, None)
    points = measured(searchspace, 8, 0)
    X = torch.as_tensor(searchspace.transform(points, allow_extra=True).to_numpy(float))
    ends = torch.as_tensor(searchspace.scaling_bounds.to_numpy(float))
    inputs = kernel.frame.transform((X - ends[0]) / (ends[1] - ends[0]))
    torch.testing.assert_close(inputs, inputs_of_reference(framed, searchspace, points), rtol=0, atol=1e-12)


def test_spread_inputs_are_points_of_the_search_space(framed):
    searchspace = random_searchspace(3)
    kernel = PretrainedKernelFactory(framed)(searchspace, OBJECTIVE, None)
    points = kernel.spread_inputs(50)
    assert points.min() >= 0
    assert points.max() <= 1
    assert kernel(points).to_dense().isfinite().all()
    assert kernel.frame.equals(PretrainedKernelFactory(framed)(searchspace, OBJECTIVE, None).frame)
    assert not kernel.frame.equals(PretrainedKernelFactory(framed)(random_searchspace(1), OBJECTIVE, None).frame)


def without(name, *more):
    return SearchSpace.from_product([p for p in random_searchspace(0).parameters if p.name != name] + list(more))


@pytest.mark.parametrize(
    ("searchspace", "fixed", "words"),
    [
        (without("gas"), {}, r"lacks pre-trained parameters \['gas'\].*fixed="),
        (without("gas"), {"gass": "Air"}, "gass"),
        (random_searchspace(0), {"gas": "Air"}, "both fixed"),
        (without("layers", CategoricalParameter("layers", ["one", "two"])), {}, "'layers' is numeric in the table"),
        (without("gas", NumericalDiscreteParameter("gas", [1, 2])), {}, "'gas' has the levels"),
        (without("rate", NumericalContinuousParameter("rate", (0, 0.1))), {}, "log scale"),
        (without("gas", TaskParameter("gas", ["Air", "Argon"])), {}, "TaskParameter"),
        (SearchSpace.from_product([NumericalContinuousParameter("x", (0, 1))]), {}, "none of the table's parameters"),
    ],
)
def test_search_spaces_that_do_not_fit_are_named(cov, searchspace, fixed, words):
    with pytest.raises(SpaceError, match=words):
        PretrainedKernelFactory(cov, fixed=fixed)(searchspace, OBJECTIVE, None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"form": "transfur"}, "transfur"),
        ({"direction": "up"}, "'up'"),
        ({"fixed": ["gas"]}, "fixed must be a mapping"),
        ({"cov": "older.mkbo.json"}, "PretrainedCovariance.load"),
    ],
)
def test_arguments_that_are_none_are_named(cov, arguments, words):
    with pytest.raises(MkboError, match=words):
        pretrained_surrogate(**{"cov": cov, **arguments})


def test_fixed_values_count_as_given(cov):
    searchspace = without("gas")
    kernel = PretrainedKernelFactory(cov, fixed={"gas": "Air"})(searchspace, OBJECTIVE, None)
    raw = kernel.frame.transform(kernel.double().spread_inputs(5))[:, : len(cov.space.coordinate_names)]
    torch.testing.assert_close(raw[:, -3:], torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.double).expand(5, 3))


def test_new_levels_and_other_units_are_warned_of(cov):
    searchspace = without("gas", CategoricalParameter("gas", ["Air", "Helium"]))
    with pytest.warns(TableWarning, match=r"nothing on \['Helium'\]"):
        PretrainedKernelFactory(cov)(searchspace, OBJECTIVE, None)
    searchspace = without("power", NumericalContinuousParameter("power", (0.1, 5.5)))
    with pytest.warns(TableWarning, match="'power' runs from 0.1 to 5.5"):
        PretrainedKernelFactory(cov)(searchspace, OBJECTIVE, None)


def test_a_known_direction_is_in_the_mean(framed):
    """It is that of the measured value, whether this is to be large or small, and is stored with the campaign."""
    searchspace = random_searchspace(1).discrete.to_searchspace()
    points = measured(searchspace, 6, 0)
    candidates = searchspace.discrete.exp_rep
    moment, predicted = framed.gram(candidates, form="moment"), framed.predict(candidates)
    g = moment[:, 0] * np.sign(np.corrcoef(moment[:, 0], predicted)[0, 1])
    for direction, minimise, sign in (("same", False, 1), ("same", True, 1), (["opposite"], False, -1)):
        surrogate = pretrained_surrogate(framed, direction=direction)
        objective = SingleTargetObjective(NumericalTarget("quality", minimize=minimise))
        surrogate.fit(searchspace, objective, points)
        model = surrogate.to_botorch().eval()
        X = torch.as_tensor(searchspace.discrete.comp_rep.to_numpy(float))
        with torch.no_grad():
            mean = model.mean_module(model.transform_inputs(X)).numpy()
        slope = np.polyfit(g, mean, 1)[0]
        np.testing.assert_allclose(mean - mean.mean(), slope * (g - g.mean()), atol=1e-8)
        assert np.sign(slope) == sign
        assert GaussianProcessSurrogate.from_json(surrogate.to_json()) == surrogate
    assert pretrained_surrogate(framed) == GaussianProcessSurrogate(PretrainedKernelFactory(framed))
    with pytest.raises(KernelError, match="without the table"):
        pretrained_surrogate(framed, "stock", direction="same")


def test_targets_may_have_models_of_their_own(gp_cov):
    searchspace = random_searchspace(1).discrete.to_searchspace()
    objective = ParetoObjective([NumericalTarget("quality"), NumericalTarget("cost", minimize=True)])
    surrogate = CompositeSurrogate(
        {"quality": pretrained_surrogate(gp_cov, "transfer"), "cost": GaussianProcessSurrogate()}
    )
    begun = Campaign(searchspace, objective, BotorchRecommender(surrogate_model=surrogate))
    points = measured(searchspace, 5, 0)
    begun.add_measurements(points.assign(cost=points["layers"]))
    kernels = [type(model.covar_module) for model in begun.get_surrogate().to_botorch().models]
    assert [issubclass(kernel, PretrainedKernel) for kernel in kernels] == [True, False]
    assert Campaign.from_json(begun.to_json()) == begun


def test_an_earlier_campaign_is_a_table():
    searchspace = random_searchspace(1)
    earlier = Campaign(searchspace, OBJECTIVE)
    earlier.add_measurements(measured(searchspace, 20, 0))
    space = parameter_space(earlier.searchspace)
    assert set(space.names) == set(searchspace.parameter_names)
    trained = pretrain(earlier.measurements, "quality", space, trainer="gp")
    kernel = PretrainedKernelFactory(trained)(searchspace, OBJECTIVE, None)
    assert kernel.frame.names == space.names
    with pytest.raises(SpaceError, match=r"campaign\.searchspace"):
        parameter_space(earlier)
