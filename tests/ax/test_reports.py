"""Public reports about Ax on kernels, prior knowledge, storage and bounds: a user of this package meets none."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ax.api.client import Client
from ax.core.arm import Arm
from ax.core.parameter import ParameterType, RangeParameter
from ax.service.ax_client import AxClient, ObjectiveProperties

from mkbo_plugins import pretrain
from mkbo_plugins.ax import diagnose, storage, use_pretrained
from mkbo_plugins.botorch import PretrainedKernel
from mkbo_plugins.core.forms import DEFAULT_FORM
from tests.ax.experiments import add_trials, mixed_client, mixed_points, predict, strength

ROOT = Path(__file__).parents[2]


def legacy_client(**replaced):
    parameters = {
        "power": {"type": "range", "bounds": [100.0, 5000.0]},
        "rate": {"type": "range", "bounds": [1e-4, 1e-2], "log_scale": True},
        "layers": {"type": "fixed", "value": 3},
        "gas": {"type": "fixed", "value": "Argon"},
        **replaced,
    }
    client = AxClient(verbose_logging=False, random_seed=0)
    client.create_experiment(
        name="legacy",
        parameters=[{"name": name, **entry} for name, entry in parameters.items()],
        objectives={"y": ObjectiveProperties(minimize=False)},
    )
    return client


def complete(client, points, outcome):
    for point in points:
        _, index = client.attach_trial(point)
        client.complete_trial(index, {"y": (outcome(point), None)})


def legacy_points(n):
    rng = np.random.default_rng(0)
    fixed = {"layers": 3, "gas": "Argon"}
    return [{"power": float(a), "rate": float(b), **fixed} for a, b in rng.uniform((100, 1e-4), (5000, 1e-2), (n, 2))]


def model(client):
    strategy = client._generation_strategy
    return strategy.fit(client._experiment).generator.surrogate.model


@pytest.mark.parametrize("report", ["ax_1721", "ax_278"])
def test_kernel_is_set_through_a_service_client_in_one_line(small_cov, report):
    """The reporters had to leave the service API to choose a kernel."""
    client = legacy_client() if report == "ax_278" else mixed_client()
    use_pretrained(client, small_cov, initial_trials=3)
    if report == "ax_278":
        complete(client, legacy_points(4), lambda point: strength(small_cov, point))
    else:
        add_trials(client, mixed_points(4), lambda point: strength(small_cov, point))
    assert isinstance(model(client).covar_module, PretrainedKernel)


def test_ax_723_earlier_experiments_as_pretraining(small_cov):
    """Trials of another quantity cannot be attached; a table of them still says where to begin."""
    client = mixed_client()
    use_pretrained(client, small_cov, initial_trials=2, direction="same")
    points = list(client.get_next_trials(2).values())
    assert predict(small_cov, points).min() > np.median(predict(small_cov, mixed_points(64)))


@pytest.mark.parametrize("report", ["ax_828", "ax_2471", "ax_4494"])
def test_prior_knowledge_enters_the_model_itself(small_cov, report):
    """Prior knowledge, a prior of earlier experiments, or a prior covariance: predictions from few trials use it."""
    sign = {"ax_828": 1, "ax_2471": -1, "ax_4494": 3}[report]
    outcome = lambda point: round(sign * float(predict(small_cov, [point])[0]), 6)  # noqa: E731
    unseen = mixed_points(40, seed=9)
    truth = np.array([outcome(point) for point in unseen])
    error = {}
    for form in ("transfer", "stock"):
        client = mixed_client()
        use_pretrained(client, small_cov, form=form)
        add_trials(client, mixed_points(6), outcome)
        client._generation_strategy.fit(client._experiment)
        predicted = [entry["y"][0] for entry in client.predict(unseen)]
        error[form] = np.sqrt(np.mean((predicted - truth) ** 2)) / truth.std()
    assert error["transfer"] < 0.7 * error["stock"]


@pytest.mark.parametrize("report", ["ax_1245", "ax_302"])
def test_custom_classes_do_not_break_saving(small_cov, tmp_path, report):
    """Saving failed with 'not in registry', or loading gave something else."""
    client = legacy_client() if report == "ax_302" else mixed_client()
    use_pretrained(client, small_cov)
    path = str(tmp_path / "experiment.json")
    client.save_to_json_file(path)
    again = type(client).load_from_json_file(path)
    before, after = client._generation_strategy, again._generation_strategy
    assert [type(node) for node in after._nodes] == [type(node) for node in before._nodes]
    assert vars(after._nodes[-1])["covariances"] == {"y": small_cov.fingerprint}
    assert after._nodes[-1].form == DEFAULT_FORM


def test_ax_2503_model_after_reload(small_cov, tmp_path):
    """The model was None after reloading, until the next trial was generated."""
    client = mixed_client()
    use_pretrained(client, small_cov)
    add_trials(client, mixed_points(6), lambda point: strength(small_cov, point))
    path = tmp_path / "experiment.json"
    client.save_to_json_file(str(path))
    script = f"""
import logging
import mkbo_plugins.ax
from ax.api.client import Client
from mkbo_plugins.ax import diagnose
client = Client.load_from_json_file({str(path)!r})
row = diagnose(client).iloc[0]
print(row["kernel"], row["form"], repr(row["moment_scale"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    here = diagnose(client).iloc[0]
    kernel, form, scale = done.stdout.splitlines()[-1].split()
    assert (kernel, form) == ("PretrainedKernel", DEFAULT_FORM)
    assert float(scale.split("(")[-1].strip(")")) == pytest.approx(here["moment_scale"], rel=1e-6)


@pytest.mark.parametrize("report", ["ax_2584", "ax_768"])
def test_data_outside_the_bounds_are_used_and_move_nothing(small_cov, report):
    """Trials beyond the bounds were dropped, or moved the scaling of the inputs."""
    client = legacy_client(power={"type": "range", "bounds": [1000.0, 2000.0]})
    use_pretrained(client, small_cov, initial_trials=3)
    inside = [{**point, "power": 1000 + point["power"] / 10} for point in legacy_points(4)]
    complete(client, inside, lambda point: strength(small_cov, point))
    before = model(client)
    outside = {**inside[0], "power": 5000.0 if report == "ax_768" else 10.0}
    trial = client.experiment.new_trial()
    trial.add_arm(Arm(parameters=outside))
    trial.mark_running(no_runner_required=True)
    client.complete_trial(trial.index, {"y": (strength(small_cov, outside), None)})
    after = model(client)
    count = before.covar_module.frame_dims
    raw = client.generation_strategy.adapter.generator.surrogate.training_data[0].X
    assert len(raw) == 5
    frames = [m.input_transform.transform(raw[:4])[:, :count] for m in (before, after)]
    assert (frames[0] == frames[1]).all()


def test_ax_4295_parameter_added_in_the_middle(small_cov):
    """A new parameter invalidated the model; here it is one more input of the stock part."""
    client = mixed_client()
    use_pretrained(client, small_cov)
    add_trials(client, mixed_points(6), lambda point: strength(small_cov, point))
    before = model(client).covar_module
    client._experiment.add_parameters_to_search_space(
        [
            RangeParameter("added", ParameterType.FLOAT, 0.0, 1.0, backfill_value=0.5),
        ],
        status_quo_values={"added": 0.5},
    )
    client.complete_trial(client.attach_trial({**mixed_points(7)[6], "added": 0.9}), {"y": 5.0})
    after = model(client).covar_module
    assert after.stock_dims == before.stock_dims + 1
    assert after.frame_dims == before.frame_dims
    assert after.cov is small_cov or after.cov == small_cov


def test_ax_5227_transfer_from_table_to_suggestion(table, space):
    """There was no tutorial of transfer learning; this is all of it."""
    cov = pretrain(table, target="strength", space=space, trainer="gp")
    client = mixed_client()
    use_pretrained(client, cov, initial_trials=0, direction="same")
    ((index, point),) = client.get_next_trials(1).items()
    client.complete_trial(index, {"y": strength(cov, point)})
    assert isinstance(model(client).covar_module, PretrainedKernel)


def test_ax_5230_kernel_in_use_is_the_one_asked_for(small_cov):
    """With several outcomes the default kernel was used silently."""
    client = mixed_client("y, -cost")
    use_pretrained(client, {"y": small_cov, "cost": small_cov})
    outcome = lambda point: {"y": strength(small_cov, point), "cost": point["power"] / 1000}  # noqa: E731
    add_trials(client, mixed_points(6), outcome)
    shown = diagnose(client)
    assert list(shown["kernel"]) == ["PretrainedKernel"] * 2
    assert set(shown["form"]) == {DEFAULT_FORM}
    assert "PretrainedKernel" in repr(model(client))


def test_ax_5230_failing_kernel_is_no_silent_default(small_cov, monkeypatch):
    """An error in building the model reaches the user instead of a suggestion of another model."""
    client = mixed_client()
    use_pretrained(client, small_cov)
    add_trials(client, mixed_points(5), lambda point: strength(small_cov, point))
    monkeypatch.setattr(storage, "_known", {})
    client._experiment._properties[storage.PROPERTY] = json.loads("{}")
    with pytest.raises(storage.ArtefactError):
        client.get_next_trials(1)
    assert isinstance(client, Client)
