"""Many earlier campaigns as one covariance: trained, saved, and the same kernel in every host."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.kernels import Kernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from scipy.stats import norm
from skopt.space import Real
from typer.testing import CliRunner

from mkbo_plugins import CombinedCovariance, ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.botorch import pretrained_gp
from mkbo_plugins.botorch.suggest import suggest
from mkbo_plugins.cli import app
from mkbo_plugins.core import SquaredExponential
from mkbo_plugins.core.forms import get_form
from mkbo_plugins.core.gp.form_model import FormModel, Points
from mkbo_plugins.core.training.normal_scores import normal_scores
from mkbo_plugins.core.training.shared_ard import SharedArd
from mkbo_plugins.errors import FitError, KernelError, SampleWarning, SpaceError, TableError, TableWarning
from mkbo_plugins.pretraining import campaigns as training
from mkbo_plugins.trials import Trials

SPACE = ParameterSpace.from_dict({"a": (0.0, 2.0), "b": {"bounds": (1.0, 100.0), "log": True}})
QUICK = {"progress": False, "n_jobs": 1}


def outcome(X, shift):
    """Return outcomes of a campaign: a bump whose place is its own, in units of its own."""
    unit = np.asarray(SPACE.to_coordinates(X, "unit"))
    bump = np.exp(-8 * ((unit[:, 0] - 0.3 - 0.1 * shift) ** 2 + (unit[:, 1] - 0.6) ** 2))
    return 10.0 ** (shift + 1) * (bump + shift)


def runs(campaigns=4, rows=14):
    """Return a table of campaigns."""
    parts = []
    for i in range(campaigns):
        X = SPACE.sobol(rows, seed=i)
        parts.append(pd.DataFrame(X, columns=SPACE.names).assign(study=f"study {i}", y=outcome(X, i)))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module", params=["gp", "svm"])
def cov(request):
    """Return a covariance of four campaigns."""
    grids = {"C": 3.0, "epsilon": 0.05, "sigma": 0.5} if request.param == "svm" else {}
    return pretrain(runs(), "y", SPACE, by="study", trainer=request.param, **grids, **QUICK)


def test_each_campaign_is_named_and_predicts_in_its_own_unit(cov):
    table = runs()
    assert [campaign.name for campaign in cov.campaigns] == [f"study {i}" for i in range(4)]
    for i, campaign in enumerate(cov.campaigns):
        own = table[table["study"] == campaign.name]
        assert campaign.rows == 14
        assert campaign.target_mean == pytest.approx(own["y"].mean())
        assert campaign.target_spread == pytest.approx(own["y"].std(ddof=0))
        predicted = cov.fixed.campaigns(cov.to_coordinates(own[list(SPACE.names)]))[:, i]
        scores = norm.ppf((own["y"].rank() - 0.5) / len(own))
        assert np.corrcoef(predicted, scores)[0, 1] > 0.95
        assert campaign.explained > 0.5


def test_the_machine_predicts_the_mean_of_the_campaigns(cov):
    X = SPACE.sobol(200, seed=9)
    mean = cov.fixed.campaigns(cov.to_coordinates(X)).mean(axis=1)
    np.testing.assert_allclose(cov.predict(X), mean, atol=1e-12)
    assert np.corrcoef(cov.fixed.decision(cov.to_coordinates(X)), mean)[0, 1] > 0.95


@pytest.mark.parametrize("given", ["weights", "noise", "nothing"])
def test_each_campaign_is_the_posterior_mean_of_its_own_measurements(monkeypatch, given):
    kernel, amplitude, noise = SquaredExponential(weights=(1.0, 2.0)), 2.5, 0.04
    monkeypatch.setattr(training, "shared_ard", lambda *_, **__: SharedArd(kernel, amplitude, noise, True))
    rng, once = np.random.default_rng(0), runs(3)
    table = pd.concat([once, once.groupby("study").head(5), once.groupby("study").head(2)], ignore_index=True)
    table["y"] += rng.normal(0, 0.05, len(table)) * table.groupby("study")["y"].transform("std")
    table["w"] = rng.uniform(0.5, 2, len(table))
    table["s"] = 0.1 * table["w"] * table.groupby("study")["y"].transform("std")
    arguments = {"weights": {"sample_weight": "w"}, "noise": {"noise": "s"}, "nothing": {}}[given]
    cov = pretrain(table, "y", SPACE, by="study", trainer="gp", **arguments, **QUICK)
    X = cov.to_coordinates(SPACE.sobol(20, seed=5))
    for i, campaign in enumerate(cov.campaigns):
        rows = table[table["study"] == campaign.name]
        Z = cov.to_coordinates(rows[list(SPACE.names)])
        weight = rows["w"].to_numpy() if given == "weights" else np.ones(len(rows))
        y, deviation = normal_scores(
            rows["y"].to_numpy(),
            weight if given == "weights" else None,
            rows["s"].to_numpy() if given == "noise" else None,
        )
        # Known noise is of single measurements, the common one of a setting, whose measurements are joined.
        setting = rows.groupby(list(SPACE.names), sort=False).ngroup().to_numpy()
        member = np.eye(setting.max() + 1)[setting]
        variance = noise / weight * np.mean(member.T @ weight / member.sum(axis=0))
        precision = deviation**-2 if given == "noise" else 1 / variance
        y, variance = (member.T @ (precision * y)) / (member.T @ precision), 1 / (member.T @ precision)
        share = member.T @ weight / member.sum(axis=0) if given == "weights" else None
        y, spread = (
            y - np.average(y, weights=share),
            np.sqrt(np.average((y - np.average(y, weights=share)) ** 2, weights=share)),
        )
        y = y / spread
        variance = noise + variance / spread**2 if given == "noise" else variance
        _, first = np.unique(setting, return_index=True)
        gram = amplitude * kernel.gram(Z[first]) + np.diag(variance)
        mean = np.average(y, weights=1 / variance)
        wanted = mean + amplitude * kernel.gram(X, Z[first]) @ np.linalg.solve(gram, y - mean)
        np.testing.assert_allclose(cov.fixed.campaigns(X)[:, i], wanted, atol=1e-6)


def test_values_are_right_to_1e_10_where_settings_are_close_and_noise_seems_to_be_none(monkeypatch):
    rng = np.random.default_rng(0)
    kernel, Z = SquaredExponential(sigma=1.0), np.sort(rng.uniform(-1, 1, (500, 1)), axis=0)
    monkeypatch.setattr(training, "shared_ard", lambda *_, **__: SharedArd(kernel, 1.0, 1e-12, True))
    table = pd.DataFrame(Z, columns=["a"]).assign(study=np.arange(500) % 5)
    table["y"] = np.sin(3 * table["a"] + table["study"]) + rng.normal(0, 0.01, 500)
    space = ParameterSpace.from_dict({"a": (-1.0, 1.0)})
    campaigns = pretrain(table, "y", space, by="study", trainer="gp", **QUICK).fixed.campaigns
    X = rng.uniform(-1, 1, (40, 1))
    longer = [np.asarray(values, dtype=np.longdouble) for values in (X, campaigns.points, campaigns.alpha)]
    exact = np.exp(-((longer[0] - longer[1].T) ** 2) / 2) @ longer[2].T + campaigns.bias
    exact = (exact - exact.mean(axis=1, keepdims=True)) / np.sqrt(5)
    found = campaigns.deviations(X)
    scale = np.sqrt(np.sum(exact**2, axis=1))
    error = np.abs(found @ found.T - exact @ exact.T) / np.outer(scale, scale)
    assert error.max() < 1e-10


def test_what_is_not_used_of_long_and_repeated_campaigns_is_said(monkeypatch):
    monkeypatch.setattr(training, "LANDMARKS", 20)
    monkeypatch.setattr(training, "MOST_ROWS", 10)
    monkeypatch.setattr(training, "MACHINE_ROWS", 15)
    table = pd.concat([runs(3), runs(1)], ignore_index=True)
    with pytest.warns(SampleWarning, match="20 of 42 settings.*max_rows") as found:
        cov = pretrain(table, "y", SPACE, by="study", trainer="gp", **QUICK)
    (warning,) = (w.message for w in found if isinstance(w.message, SampleWarning))
    assert len(cov.fixed.campaigns.points) == 20
    rows = table.iloc[list(warning.rows)][list(SPACE.names)]
    np.testing.assert_allclose(cov.to_coordinates(rows), cov.fixed.campaigns.points)
    notes = " ".join(cov.record.notes)
    assert "20 of 42 settings" in notes
    assert "15 of 20 settings" in notes
    assert "3 of 3 campaigns" in notes
    assert "more than once in 'study 0';" in notes
    monkeypatch.setattr(training, "MOST_COEFFICIENTS", 30)
    with pytest.warns(SampleWarning, match="10 of 42"):
        pretrain(runs(3), "y", SPACE, by="study", trainer="gp", **QUICK)


def test_weights_are_those_of_the_best_of_several_searches():
    table = runs()
    linear = ParameterSpace.from_table(table.drop(columns="study"), "y")
    cov = pretrain(table, "y", linear, by="study", trainer="gp", **QUICK)
    # From longer scales alone the search ends where the second parameter does nothing, and nothing is predicted.
    assert cov.record.explained > 0.25
    assert cov.fixed.campaigns.kernel.weights[1] > 1


@pytest.mark.filterwarnings("ignore:values are missing")
def test_a_campaign_that_lacks_all_values_is_named():
    table = runs(3)
    table.loc[table["study"] == "study 1", "y"] = np.nan
    with pytest.warns(TableWarning, match="no row of study 'study 1'"):
        cov = pretrain(table, "y", SPACE, by="study", trainer="gp", missing="drop", **QUICK)
    assert [campaign.name for campaign in cov.campaigns] == ["study 0", "study 2"]


def test_campaigns_are_judged_one_by_one_and_not_by_the_mean_of_all():
    X = SPACE.sobol(12)
    grid = pd.DataFrame(X, columns=SPACE.names)
    up, down = grid.assign(y=X[:, 0], study="up"), grid.assign(y=-X[:, 0], study="down")
    with pytest.raises(FitError, match=r"cancel in the mean.*by itself"):
        pretrain(pd.concat([up, down]), "y", SPACE, by="study", trainer="gp", **QUICK)
    table = pd.concat([up, down, grid.assign(y=X[:, 1], study="other")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(pretrain(table, "y", SPACE, by="study", trainer="gp", **QUICK).campaigns) == 3


def test_the_second_moment_is_one_on_the_mean(cov):
    landmarks = cov.fixed.campaigns.points
    diagonal = cov.fixed.components(("moment",), landmarks, elementwise=True)["moment"].value
    assert diagonal.mean() == pytest.approx(1.0, rel=1e-12)


def test_a_saved_covariance_is_the_same(cov, tmp_path):
    cov.save(tmp_path / "runs.mkbo.json")
    read = PretrainedCovariance.load(tmp_path / "runs.mkbo.json")
    assert read == cov
    assert read.fingerprint == cov.fingerprint
    X = SPACE.sobol(8)
    np.testing.assert_array_equal(read.gram(X, form="moment"), cov.gram(X, form="moment"))


def test_a_single_campaign_gives_what_its_table_gives():
    one = runs(1)
    alone = pretrain(one.drop(columns="study"), "y", SPACE, trainer="gp", **QUICK)
    assert pretrain(one, "y", SPACE, by="study", trainer="gp", **QUICK) == alone
    assert "campaigns" not in alone.to_content()


def test_tables_are_pooled_as_a_column_says():
    table = runs(3)
    parts = [part.drop(columns="study") for _, part in table.groupby("study")]
    pooled = pretrain(parts, "y", SPACE, combine="pool", trainer="gp", **QUICK)
    by_column = pretrain(table, "y", SPACE, by="study", trainer="gp", **QUICK)
    assert [campaign.name for campaign in pooled.campaigns] == ["table 1", "table 2", "table 3"]
    assert pooled.fixed == by_column.fixed


@pytest.mark.parametrize("form", ["moment", "similarity_link"])
def test_every_host_has_the_same_covariance(cov, form):
    from mkbo_plugins.botorch import PretrainedKernel as TorchKernel
    from mkbo_plugins.skopt import PretrainedKernel as SkoptKernel
    from mkbo_plugins.skopt import pretrained_regressor

    X = SPACE.sobol(7, seed=3)
    frame, unit = (np.asarray(SPACE.to_coordinates(X, name)) for name in (cov.frame, "unit"))
    model = FormModel(cov.fixed, form, 2)
    theta = np.log([*(0.5 + 0.1 * np.arange(len(get_form(form).hyperparameters))), 0.4, 0.7])
    wanted = model.value(model.pairs(Points(frame, unit)), theta)

    kernel: Kernel = TorchKernel(cov, form=form).double()
    for name, value in zip(get_form(form).hyperparameters, np.exp(theta), strict=False):
        kernel.set_scale(name, value)
    kernel.stock.lengthscale = torch.tensor([0.4, 0.7], dtype=torch.double)
    with torch.no_grad():
        np.testing.assert_allclose(kernel(torch.tensor(frame)).to_dense().numpy(), wanted, atol=1e-10)

    dimensions = [Real(0.0, 2.0, name="a"), Real(1.0, 100.0, prior="log-uniform", name="b")]
    columns = pretrained_regressor(cov, dimensions, form=form).kernel.columns
    skopt = SkoptKernel(cov, columns, form=form).clone_with_theta(theta)
    np.testing.assert_allclose(skopt(unit), wanted, atol=1e-10)


def test_first_points_improve_on_every_campaign_in_turn():
    cov = pretrain(runs(), "y", SPACE, by="study", trainer="gp", **QUICK)
    points = cov.starting_points(3, direction="same")
    raw = pd.DataFrame(points)[list(SPACE.names)].to_numpy()
    alone = cov.fixed.campaigns(cov.to_coordinates(SPACE.sobol(1024)))
    reached = cov.fixed.campaigns(cov.to_coordinates(raw)).max(axis=0)
    assert (reached > np.quantile(alone, 0.9, axis=0)).all()
    opposite = pd.DataFrame(cov.starting_points(1, direction="opposite"))[list(SPACE.names)].to_numpy()
    assert cov.predict(opposite)[0] < cov.predict(raw[:1])[0]


def test_where_first_points_fail_nothing_is_reached_there():
    cov = pretrain(runs(), "y", SPACE, by="study", trainer="gp", **QUICK)
    first = SPACE.to_raw(pd.DataFrame(cov.starting_points(1, direction="same")))
    everywhere = cov.predict(SPACE.sobol(1024))

    def second(**tried):
        trials = Trials(**({"X": first[:0], "y": np.zeros(0), "pending": first[:0]} | tried))
        (suggestion,) = suggest(cov, trials, direction="same").suggestions
        return (cov.predict(SPACE.to_raw(pd.DataFrame([suggestion.point])))[0] > everywhere).mean()

    assert second(failed=first) > second(pending=first)
    assert second(pending=first) == second(X=first, y=np.ones(1))


def test_a_campaign_like_the_target_is_found(cov):
    X = SPACE.sobol(30, seed=11)
    found = cov.most_like(X, outcome(X, 3))
    assert found[0][0] == "study 3"
    assert found[0][1] > 0.9
    assert [value for _, value in found] == sorted((value for _, value in found), reverse=True)
    with pytest.raises(TableError, match="30 finite numbers"):
        cov.most_like(X, ["high", 1.0] * 15)
    with pytest.raises(KernelError, match="by="):
        pretrain(runs(1), "y", SPACE, by="study", trainer="gp", **QUICK).most_like(X, outcome(X, 0))


def test_of_two_libraries_each_campaign_is_told_with_its_own():
    library = pretrain(runs(3), "y", SPACE, by="study", trainer="gp", **QUICK)
    table = pretrain(runs(1).drop(columns="study"), "y", SPACE, trainer="gp", **QUICK)
    X = SPACE.sobol(12, seed=7)
    trials = Trials(X, outcome(X, 2), X[:0])
    alone = suggest(CombinedCovariance((table, library)), trials, space=SPACE, seed=0)
    assert {name for name, _ in alone.most_like} == {f"study {i}" for i in range(3)}
    both = suggest(CombinedCovariance((table, library, library)), trials, space=SPACE, seed=0)
    assert {name for name, _ in both.most_like} == {f"table {t}: study {i}" for t in (2, 3) for i in range(3)}
    assert "study 2" in both.most_like[0][0]


def test_new_levels_and_widened_spaces_keep_campaigns():
    space = ParameterSpace.from_dict({"a": (0.0, 1.0), "kind": ["x", "y"]})
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.random(24), "kind": ["x", "y"] * 12, "study": [1] * 12 + [2] * 12})
    table["q"] = np.sin(5 * table["a"]) + (table["kind"] == "x") * table["study"]
    cov = pretrain(table, "q", space, by="study", trainer="gp", **QUICK)
    wide = cov.with_levels({"kind": ["z"]})
    points = table[["a", "kind"]].head(6)
    np.testing.assert_allclose(wide.gram(points, form="moment"), cov.gram(points, form="moment"), atol=1e-12)
    assert np.isfinite(wide.gram([{"a": 0.3, "kind": "z"}], form="moment")).all()


@pytest.mark.parametrize(
    ("change", "arguments", "error", "words"),
    [
        (lambda t: t, {"by": "studie"}, TableError, "is not a column.*did you mean 'study'"),
        (lambda t: t, {"by": "a"}, TableError, "tell campaigns apart"),
        (lambda t: t, {"by": 3}, TableError, "must name a column"),
        (lambda t: t.assign(study=t["study"].where(t.index != 5)), {"by": "study"}, TableError, "empty in row 5"),
        (lambda t: t.head(16), {"by": "study"}, TableError, "study 'study 1'.*2"),
        (
            lambda t: t.assign(y=t["y"].where(t["study"] != "study 2", 7.0)),
            {"by": "study"},
            TableError,
            "study 2.*const",
        ),
        (
            lambda t: t[t.groupby("study").cumcount() < t["study"].map({"study 0": 9, "study 1": 2}).fillna(1)],
            {"by": "study"},
            TableError,
            "study 'study 1': .*3 rows, got 2.*'study 2', 'study 3' cannot be used either; drop",
        ),
        (lambda t: t.assign(study=[1, "1"] * 28), {"by": "study"}, TableError, "1 and '1', which are written alike"),
        (lambda t: t.assign(study=[" ", "x"] * 28), {"by": "study"}, TableError, "called by 1 to"),
        (lambda t: t.assign(study=["x" * 20_000, "x"] * 28), {"by": "study"}, TableError, "called by 1 to"),
        (lambda t: pd.concat([t, t["study"]], axis=1), {"by": "study"}, SpaceError, "occur more than once"),
        (lambda t: t, {"by": "study", "groups": "study"}, TableError, "leave groups out"),
        (
            lambda t: pd.concat([t] * 54, ignore_index=True).assign(study=lambda r: r.index // 3),
            {"by": "study"},
            TableError,
            "1008 campaigns apart.*at most 1000",
        ),
        (lambda t: t, {"by": "study", "resume": "x"}, FitError, "no resume"),
        (lambda t: [t, t], {"by": "study"}, TableError, "combine='pool'"),
        (lambda t: t, {"combine": "pool"}, TableError, "list of tables"),
    ],
)
def test_what_cannot_be_campaigns_is_said(change, arguments, error, words):
    with pytest.raises(error, match=words):
        pretrain(change(runs()), "y", SPACE, **QUICK, **arguments)


def test_botorch_fits_it_and_gradients_of_acquisition_functions_are_right(cov):
    X, shift = SPACE.sobol(8, seed=5), 1
    y = torch.tensor(outcome(X, shift))[:, None]
    model = pretrained_gp(cov, torch.tensor(X), (y - y.mean()) / y.std(), direction="same")
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    acquisition = LogExpectedImprovement(model, best_f=1.0)
    points = torch.tensor(SPACE.sobol(3, seed=6))[:, None, :].requires_grad_()
    (got,) = torch.autograd.grad(acquisition(points).sum(), points)
    steps = torch.tensor([1e-6, 1e-4])
    for j, step in enumerate(steps):
        shift_by = torch.zeros(2, dtype=torch.double).index_fill(0, torch.tensor([j]), float(step))
        with torch.no_grad():
            wanted = (acquisition(points + shift_by) - acquisition(points - shift_by)) / (2 * step)
        torch.testing.assert_close(got[:, 0, j], wanted, rtol=1e-4, atol=1e-6)
    fantasised = model.fantasize(points.detach()[0], SobolQMCNormalSampler(torch.Size([2]), seed=0))
    assert torch.isfinite(fantasised.posterior(points.detach()[1]).mean).all()


def test_scikit_optimize_searches_with_it(cov):
    from skopt import gp_minimize

    from mkbo_plugins.skopt import pretrained_regressor

    dimensions = [Real(0.0, 2.0, name="a"), Real(1.0, 100.0, prior="log-uniform", name="b")]
    result = gp_minimize(
        lambda x: -float(outcome(np.array([x]), 1)[0]),
        dimensions,
        base_estimator=pretrained_regressor(cov, dimensions, direction="opposite", random_state=0),
        n_calls=8,
        n_initial_points=0,
        x0=[list(point.values()) for point in cov.starting_points(3, direction="same")],
        random_state=0,
    )
    assert -result.fun > np.quantile(outcome(SPACE.sobol(256), 1), 0.97)


def test_the_command_line_takes_a_column_of_campaigns(tmp_path):
    run = CliRunner().invoke
    runs().to_csv(tmp_path / "runs.csv", index=False)
    made = run(app, ["pretrain", str(tmp_path / "runs.csv"), "--target", "y", "--by", "study", "--trainer", "gp"])
    assert made.exit_code == 0, made.output
    assert "study 3" in made.output
    file = str(tmp_path / "runs.mkbo.json")
    shown = json.loads(run(app, ["show", file, "--json"]).stdout)
    assert [campaign["name"] for campaign in shown["campaigns"]] == [f"study {i}" for i in range(4)]
    X = PretrainedCovariance.load(file).space.sobol(12, seed=2)
    pd.DataFrame(X, columns=SPACE.names).assign(q=outcome(X, 2)).to_csv(tmp_path / "done.csv", index=False)
    asked = run(app, ["suggest", "--covariance", file, "--done", str(tmp_path / "done.csv"), "--target", "q"])
    assert asked.exit_code == 0, asked.output
    assert "most like the earlier campaigns" in asked.output
    assert "the campaigns predict" in asked.output
