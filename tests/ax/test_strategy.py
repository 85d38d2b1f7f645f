"""Generation strategies: switching, first trials, selection, several metrics, constraints, pending points, stopping."""

import numpy as np
import pandas as pd
import pytest
from ax.adapter.registry import Generators, MBM_X_trans, Y_trans
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.service.ax_client import AxClient, ObjectiveProperties

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.ax import (
    PretrainedDiagnostics,
    diagnose,
    pretrained_generation_strategy,
    pretrained_surrogate_spec,
    use_pretrained,
)
from mkbo_plugins.botorch import PretrainedKernel
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.errors import KernelError, MkboError, TableWarning
from tests.ax.experiments import add_trials, mixed_client, mixed_points, predict, strength


def kernels(client):
    """Return the covariance modules of the model in use, by metric."""
    surrogate = client._generation_strategy.fit(client._experiment).generator.surrogate
    models = getattr(surrogate.model, "models", [surrogate.model])
    return {name: model.covar_module for name, model in zip(surrogate.outcomes, models, strict=True)}


def test_running_experiment_with_pending_trials_is_switched(small_cov):
    client = mixed_client()
    add_trials(client, mixed_points(5), lambda point: strength(small_cov, point))
    pending = client.attach_trial(mixed_points(7)[6])
    before = dict(client._experiment.trials)
    use_pretrained(client, small_cov)
    suggested = client.get_next_trials(2)
    assert dict(list(client._experiment.trials.items())[: len(before)]) == before
    assert client._experiment.trials[pending].status.name == "RUNNING"
    assert isinstance(kernels(client)["y"], PretrainedKernel)
    points = [trial.arm.parameters for trial in client._experiment.trials.values()]
    assert len({str(sorted(point.items())) for point in points}) == len(points) == 8
    assert {client._experiment.trials[i].generator_runs[0]._generation_node_name for i in suggested} == {"Pretrained"}


@pytest.mark.parametrize("objective", ["y", "-y"])
@pytest.mark.parametrize("direction", ["same", "opposite"])
def test_first_trials_come_from_the_table_without_any_data(small_cov, objective, direction):
    client = mixed_client(objective)
    use_pretrained(client, small_cov, initial_trials=0, direction=direction)
    batches = [client.get_next_trials(n) for n in (1, 2)]
    points = [point for batch in batches for point in batch.values()]
    wanted = 1 if (objective == "y") == (direction == "same") else -1
    everywhere = predict(small_cov, mixed_points(128))
    assert (wanted * predict(small_cov, points) > np.quantile(wanted * everywhere, 0.7)).all()
    assert len({str(point) for point in points}) == 3
    client.complete_trial(0, {"y": 1.0})
    assert isinstance(kernels(client)["y"], PretrainedKernel)


def bumps():
    """Return a space, and a covariance of campaigns that each are best somewhere else in it."""
    space = ParameterSpace.from_dict({"a": (0.0, 1.0), "b": (0.0, 1.0)})
    X = space.sobol(14)
    parts = [
        pd.DataFrame(X, columns=["a", "b"]).assign(y=np.exp(-10 * ((X - place) ** 2).sum(axis=1)), run=str(place))
        for place in ((0.2, 0.2), (0.5, 0.8), (0.85, 0.3))
    ]
    return space, pretrain(pd.concat(parts), "y", space, by="run", trainer="gp", progress=False)


@pytest.mark.parametrize("sign", [1, -1])
def test_first_trials_of_campaigns_gain_most_on_those_before_them(sign):
    space, cov = bumps()
    client = Client()
    client.configure_experiment([RangeParameterConfig(name, (0.0, 1.0), "float") for name in "ab"])
    client.configure_optimization("y" if sign > 0 else "-y")
    use_pretrained(client, cov, initial_trials=3, direction="same" if sign > 0 else "opposite")
    points = pd.DataFrame([trial.values() for trial in client.get_next_trials(3).values()]).to_numpy()
    reached, everywhere = (cov.fixed.campaigns(cov.to_coordinates(raw)) for raw in (points, space.sobol(256)))
    assert cov.predict(points[:1])[0] > np.quantile(cov.predict(space.sobol(256)), 0.98)
    for k in (1, 2):
        best = reached[:k].max(axis=0)
        gain, others = (np.maximum(values - best, 0).mean(axis=-1) for values in (reached[k], everywhere))
        assert gain > np.quantile(others, 0.98)


def test_a_failed_first_trial_reaches_nothing_of_what_campaigns_promise():
    space, cov = bumps()
    means = {}
    for end in ("mark_trial_failed", "mark_trial_abandoned", None):
        client = Client()
        client.configure_experiment([RangeParameterConfig(name, (0.0, 1.0), "float") for name in "ab"])
        client.configure_optimization("y")
        use_pretrained(client, cov, initial_trials=3, direction="same")
        (index,) = client.get_next_trials(1)
        if end:
            getattr(client, end)(index)
        (point,) = client.get_next_trials(1).values()
        means[end] = cov.predict(space.to_raw(pd.DataFrame([point])))[0]
    assert min(means["mark_trial_failed"], means["mark_trial_abandoned"]) > means[None]


def test_first_trials_keep_to_the_search_space(small_cov):
    client = Client()
    names = {"power": (100.0, 6000.0), "rate": (1e-4, 1e-2)}
    client.configure_experiment(
        [RangeParameterConfig(name, bounds, parameter_type="float") for name, bounds in names.items()],
        parameter_constraints=["power + 100000 * rate <= 1500"],
        name="constrained",
    )
    client.configure_optimization("y")
    use_pretrained(client, small_cov, direction="same", initial_trials=2, fixed={"layers": 2, "gas": "Air"})
    for index, point in client.get_next_trials(2).items():
        client.complete_trial(index, {"y": point["power"]})
    suggestion = next(iter(client.get_next_trials(1).values()))
    points = [trial.arm.parameters for trial in client._experiment.trials.values()]
    assert suggestion in points
    assert all(point["power"] + 100000 * point["rate"] <= 1500 * (1 + 1e-6) for point in points)


def test_no_data_and_no_direction_is_an_error_that_says_what_to_do(small_cov):
    client = mixed_client()
    use_pretrained(client, small_cov, initial_trials=0)
    with pytest.raises(MkboError, match=r"no target data yet.*initial_trials=5.*direction"):
        client.get_next_trials(1)


def test_seed_decides_every_suggestion(small_cov):
    made = []
    for seed in (0, 0, 1):
        client = mixed_client()
        use_pretrained(client, small_cov, initial_trials=2, seed=seed)
        for _ in range(3):
            for index, point in client.get_next_trials(1).items():
                client.complete_trial(index, {"y": strength(small_cov, point)})
        made.append([trial.arm.parameters for trial in client._experiment.trials.values()])
    assert made[0] == made[1]
    assert made[0][2] != made[2][2]


def test_stock_stays_in_the_running(small_cov):
    """Random outcomes leave Ax no reason for the pre-trained model; its own scores are kept beside it."""
    rng = np.random.default_rng(0)
    outcomes = {
        "related": lambda point: strength(small_cov, point),
        "unrelated": lambda point: float(np.sin(40 * point["extra"]) + 0.01 * rng.normal()),
    }
    chosen = {}
    for name, outcome in outcomes.items():
        client = mixed_client()
        use_pretrained(client, small_cov, select=True)
        add_trials(client, mixed_points(12), outcome)
        surrogate = client._generation_strategy.fit(client._experiment).generator.surrogate
        scores = surrogate._model_name_to_eval["y"]
        chosen[name] = surrogate.model_name_by_metric["y"]
        assert list(scores) == ["pretrained", "stock"]
        assert chosen[name] == max(scores, key=scores.get)
        assert np.isfinite(list(scores.values())).all()
    assert chosen["related"] == "pretrained"


def test_score_that_is_no_number_leaves_the_stock_model(small_cov, monkeypatch):
    """Ax takes the last of models with NaN scores; with its own listed last, that is never ours."""
    from ax.generators.torch.botorch_modular.surrogate import Surrogate

    monkeypatch.setattr(Surrogate, "cross_validate", lambda self, **kwargs: float("nan"))
    client = mixed_client()
    use_pretrained(client, small_cov, select=True)
    add_trials(client, mixed_points(6), lambda point: strength(small_cov, point))
    assert not isinstance(kernels(client)["y"], PretrainedKernel)
    assert list(diagnose(client)["form"]) == ["stock"]


def two_metrics(cov):
    return lambda point: {"y": strength(cov, point), "cost": round(point["power"] / 1000 + point["extra"], 3)}


def test_each_of_several_objectives_has_its_own_covariance(small_cov):
    client = mixed_client("y, -cost")
    with pytest.raises(MkboError, match=r"objectives \['y', 'cost'\].*name the metric"):
        use_pretrained(client, small_cov)
    with pytest.raises(MkboError, match=r"metrics \['speed'\] are not in the experiment"):
        use_pretrained(client, {"speed": small_cov})
    use_pretrained(client, {"y": small_cov})
    add_trials(client, mixed_points(5), two_metrics(small_cov))
    assert len(client.get_next_trials(1)) == 1
    found = kernels(client)
    assert isinstance(found["y"], PretrainedKernel)
    assert not isinstance(found["cost"], PretrainedKernel)


def attached(client, strategy, cov):
    """Give a client a strategy with a covariance in one of the two ways."""
    if strategy == "use_pretrained":
        use_pretrained(client, cov, initial_trials=2)
    else:
        client.set_generation_strategy(pretrained_generation_strategy(cov, initial_trials=2))


@pytest.mark.parametrize("strategy", ["use_pretrained", "pretrained_generation_strategy"])
def test_covariance_without_a_name_stays_with_its_metric_when_the_objective_changes(small_cov, strategy):
    client = mixed_client()
    attached(client, strategy, small_cov)
    add_trials(client, mixed_points(5), two_metrics(small_cov))
    assert isinstance(kernels(client)["y"], PretrainedKernel)
    for objective in ("y, -cost", "y + 2*cost"):
        client.configure_optimization(objective)
        found = kernels(client)
        assert isinstance(found["y"], PretrainedKernel)
        assert not isinstance(found["cost"], PretrainedKernel)
    client.configure_optimization("-cost")
    with pytest.warns(TableWarning, match=r"optimises \['cost'\].*are for \['y'\].*call use_pretrained again"):
        assert not isinstance(kernels(client)["cost"], PretrainedKernel)


def test_covariance_without_a_name_and_several_objectives_from_the_start_ask_for_the_name(small_cov):
    client = mixed_client("y, -cost")
    attached(client, "pretrained_generation_strategy", small_cov)
    add_trials(client, mixed_points(3), two_metrics(small_cov))
    with pytest.raises(MkboError, match=r"objectives \['y', 'cost'\].*name the metric"):
        kernels(client)


def test_outcome_constraints_are_modelled_by_ax_alone(small_cov):
    client = mixed_client("y", outcome_constraints=["cost <= 3"])
    use_pretrained(client, small_cov)
    add_trials(client, mixed_points(6), two_metrics(small_cov))
    (point,) = client.get_next_trials(1).values()
    found = kernels(client)
    assert isinstance(found["y"], PretrainedKernel)
    assert not isinstance(found["cost"], PretrainedKernel)
    assert point["power"] < 4000


@pytest.mark.filterwarnings("ignore:When all training points are infeasible")
def test_outcome_constraints_that_no_trial_meets_yet_are_no_obstacle(small_cov):
    """The host then looks at numbers between trials, also where a parameter has levels or a logarithm."""
    client = mixed_client("y", outcome_constraints=["cost <= 1e-3"])
    use_pretrained(client, small_cov)
    points = mixed_points(6)
    add_trials(client, points, two_metrics(small_cov))
    (point,) = client.get_next_trials(1).values()
    assert isinstance(kernels(client)["y"], PretrainedKernel)
    assert point["power"] < np.median([one["power"] for one in points])


def test_known_noise_reaches_the_model(small_cov):
    client = mixed_client()
    use_pretrained(client, small_cov)
    add_trials(client, mixed_points(6), lambda point: {"y": (strength(small_cov, point), 0.3)})
    adapter = client._generation_strategy.fit(client._experiment)
    (dataset,) = adapter.generator.surrogate.training_data
    assert dataset.Yvar is not None
    assert np.allclose(adapter.generator.surrogate.model.likelihood.noise.detach(), dataset.Yvar.squeeze(-1))


def test_progress_of_trials_is_one_more_input(small_cov):
    """Early-stopping data bring a column that the table lacks; the stock part sees it."""
    client = mixed_client()
    use_pretrained(client, small_cov, initial_trials=3)
    for number, point in enumerate(mixed_points(4)):
        index = client.attach_trial(point)
        for step in (1, 2, 3) if number else (1,):
            client.attach_data(index, {"y": strength(small_cov, point) * step / 3}, progression=step)
        if number:
            client.complete_trial(index)
        else:
            client.mark_trial_early_stopped(index)
    assert len(client.get_next_trials(1)) == 1
    adapter = client._generation_strategy.fit(client._experiment)
    assert "step" in adapter.generator.surrogate.training_data[0].feature_names
    kernel = kernels(client)["y"]
    assert kernel.stock_dims == len(adapter.generator.surrogate.training_data[0].feature_names)


@pytest.mark.parametrize("form", ["two_layer", "moment"])
def test_batches_and_other_forms(small_cov, form):
    """A batch trial has several arms; forms without a stock part still see parameters that the table lacks."""
    client = AxClient(
        generation_strategy=pretrained_generation_strategy(small_cov, form=form, initial_trials=3),
        verbose_logging=False,
    )
    parameters = [
        {"name": "power", "type": "range", "bounds": [100.0, 5000.0]},
        {"name": "rate", "type": "range", "bounds": [1e-4, 1e-2], "log_scale": True},
        {"name": "layers", "type": "fixed", "value": 3},
        {"name": "gas", "type": "choice", "values": ["Argon", "Air"], "is_ordered": False},
        {"name": "extra", "type": "range", "bounds": [0.0, 1.0]},
    ]
    client.create_experiment(name="b", parameters=parameters, objectives={"y": ObjectiveProperties(minimize=False)})
    for _ in range(3):
        point, index = client.get_next_trial()
        client.complete_trial(index, {"y": (strength(small_cov, point), None)})
    experiment = client.experiment
    run = client.generation_strategy.gen_single_trial(experiment, n=2)
    batch = experiment.new_batch_trial(generator_runs=[run])
    assert len({arm.signature for arm in batch.arms}) == 2
    assert kernels(client)["y"].stock_dims == (1 if form == "two_layer" else 4)


def test_diagnostics_say_what_is_in_use(small_cov):
    client = mixed_client()
    with pytest.raises(MkboError, match="use_pretrained first"):
        diagnose(client)
    use_pretrained(client, small_cov)
    with pytest.raises(MkboError, match="'Sobol' has no model"):
        diagnose(client)
    add_trials(client, mixed_points(8), lambda point: strength(small_cov, point))
    (row,) = diagnose(client).to_dict("records")
    assert row["kernel"] == "PretrainedKernel"
    assert row["form"] == DEFAULT_FORM
    assert small_cov.fingerprint[:12] in row["table"]
    assert 0 < row["moment_share"] < 1
    assert 0 < row["link_share"] < 1
    assert 0 <= row["feature_effect"] <= 1
    assert row["loo_correlation"] > 0.5
    (card,) = client.compute_analyses([PretrainedDiagnostics()], display=False)
    assert f"In use for y ({DEFAULT_FORM}" in card.subtitle
    use_pretrained(client, small_cov, form="stock")
    (card,) = client.compute_analyses([PretrainedDiagnostics()], display=False)
    assert "Not in use" in card.subtitle


def test_feature_effect_and_share_vanish_where_the_fit_refused_the_table(small_cov):
    client = mixed_client()
    use_pretrained(client, small_cov)
    add_trials(client, mixed_points(6), lambda point: strength(small_cov, point))
    kernel = client._generation_strategy.fit(client._experiment).generator.surrogate.model.covar_module
    kernel.set_scale("feature_scale", 1e20)
    kernel.set_scale("moment_scale", 1e-20)
    kernel.set_scale("link_scale", 1e-20)
    (row,) = diagnose(client).to_dict("records")
    assert row["moment_share"] == pytest.approx(0, abs=1e-9)
    assert row["link_share"] == pytest.approx(0, abs=1e-9)
    assert row["feature_effect"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"form": "magic"}, "form must be one of"),
        ({"initial_trials": -1}, "initial_trials must be a whole number"),
        ({"direction": "up"}, "direction must be"),
        ({"cov": "table.json"}, "PretrainedCovariance.load"),
        ({"cov": {}}, "PretrainedCovariance.load"),
    ],
)
def test_bad_arguments_are_named(small_cov, settings, message):
    with pytest.raises((MkboError, KernelError), match=message):
        use_pretrained(mixed_client(), **{"cov": small_cov, **settings})


def test_clients_without_experiment_are_refused(small_cov):
    with pytest.raises(MkboError, match="create_experiment"):
        use_pretrained(AxClient(verbose_logging=False), small_cov)
    with pytest.raises(MkboError, match="must be an Ax Client"):
        use_pretrained("client", small_cov)
    client = Client()
    client.configure_experiment([RangeParameterConfig("power", (1.0, 2.0), parameter_type="float")])
    with pytest.raises(MkboError, match="no objective yet"):
        use_pretrained(client, small_cov, fixed={"rate": 0.1, "layers": 1, "gas": "Air"})


def test_specification_alone_serves_a_plain_adapter(small_cov):
    client = mixed_client()
    add_trials(client, mixed_points(4), lambda point: strength(small_cov, point))
    experiment = client._experiment
    adapter = Generators.BOTORCH_MODULAR(
        experiment=experiment,
        data=experiment.lookup_data(),
        surrogate_spec=pretrained_surrogate_spec(small_cov, experiment.search_space),
        transforms=[*MBM_X_trans, *Y_trans],
    )
    assert isinstance(adapter.generator.surrogate.model.covar_module, PretrainedKernel)
    assert len(adapter.gen(n=1).arms) == 1
