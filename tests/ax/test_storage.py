"""Stored experiments: killed and resumed, small, and loud about what is missing."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ax.api.client import Client

from mkbo_plugins.ax import storage, use_pretrained
from mkbo_plugins.ax.nodes import _rounded
from mkbo_plugins.errors import ArtefactError
from tests.ax.experiments import (
    CAMPAIGNS,
    add_trials,
    hartmann_covariance,
    mixed_client,
    mixed_points,
    predict,
    strength,
)
from tests.ax.killed_process import FINISHED_AT

ROOT = Path(__file__).parents[2]


def start(mode, client, store, direction, folder):
    command = [sys.executable, "-m", "tests.ax.killed_process", mode, client, store, direction, str(folder)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("client", "store", "direction"),
    [
        ("Client", "json", "unknown"),
        ("Client", "json", "same"),
        ("Client", "sqlite", "unknown"),
        ("Client", "sqlite", "same"),
        ("AxClient", "json", "unknown"),
        ("AxClient", "sqlite", "unknown"),
    ],
)
def test_killed_process_is_resumed_as_if_it_had_gone_on(client, store, direction, tmp_path):
    if store == "sqlite":
        pytest.importorskip("sqlalchemy")
    hartmann_covariance().save(tmp_path / "table.mkbo.json")
    running = start("begin", client, store, direction, tmp_path)
    line = next((line for line in running.stdout if line == "saved\n"), None)
    if line is None:
        pytest.fail(running.communicate()[1])
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    (tmp_path / "table.mkbo.json").unlink()
    resumed = start("resume", client, store, direction, tmp_path)
    out, err = resumed.communicate()
    assert resumed.returncode == 0, err
    result = json.loads(out.splitlines()[-1])
    index, parameters = json.loads((tmp_path / "next.json").read_text())
    assert result["first"] == [index, parameters]
    trials = result["trials"]
    assert sorted(map(int, trials)) == list(range(FINISHED_AT))
    assert {status for status, _, _ in trials.values()} == {"COMPLETED"}
    assert result["signs"] == (None if direction == "unknown" else [1.0])
    first = "Sobol" if direction == "unknown" else "TableDesign"
    assert [node for _, node, _ in trials.values()] == [first] * 7 + ["Pretrained"] * (FINISHED_AT - 7)
    assert len({json.dumps(point) for _, _, point in trials.values()}) == FINISHED_AT


def stored_sizes(campaign, trials):
    """Return the size of the store after each of the last trials."""
    sizes = []
    for _ in range(trials):
        index, parameters = campaign.suggest()
        campaign.complete(index, round(sum(parameters.values()), 3))
        campaign.save()
        sizes.append(campaign.path.stat().st_size)
    return sizes


@pytest.mark.parametrize("client", ["Client", "AxClient"])
def test_store_grows_little_because_of_the_covariance(client, tmp_path):
    growth = {}
    for form in ("transfer", "stock"):
        campaign = CAMPAIGNS[client]("json", tmp_path / form)
        campaign.create()
        use_pretrained(campaign.client, hartmann_covariance(), form=form, initial_trials=2)
        sizes = stored_sizes(campaign, 6)
        growth[form] = (sizes[-1] - sizes[-4]) / 3
    assert growth["transfer"] - growth["stock"] < 5000


def many_digits(cov):
    return lambda point: float(predict(cov, [point])[0]) / 3 + point["extra"]


def test_loaded_experiment_makes_the_same_next_suggestion_whatever_digits_its_data_have(small_cov, tmp_path):
    client = mixed_client()
    use_pretrained(client, small_cov, initial_trials=2)
    add_trials(client, mixed_points(6), many_digits(small_cov))
    client.save_to_json_file(str(tmp_path / "experiment.json"))
    loaded = Client.load_from_json_file(str(tmp_path / "experiment.json"))
    kept, digits = (one._experiment.lookup_data().df["mean"].to_numpy() for one in (loaded, client))
    assert (kept != digits).any()
    assert loaded.get_next_trials(1) == client.get_next_trials(1)


def test_digits_of_data_that_models_see(small_cov, tmp_path):
    client = mixed_client()
    use_pretrained(client, small_cov, initial_trials=2)
    outcome = many_digits(small_cov)
    add_trials(client, mixed_points(40), lambda point: {"y": outcome(point), "small": 1e-7 * outcome(point)})
    client.save_to_json_file(str(tmp_path / "experiment.json"))
    loaded = Client.load_from_json_file(str(tmp_path / "experiment.json"))
    stored, seen = (_seen(one) for one in (loaded, client))
    assert (stored["y"] == seen["y"]).all()
    exact = client._experiment.lookup_data().full_df.query("metric_name == 'small'")["mean"].to_numpy()
    np.testing.assert_allclose(seen["small"], exact, rtol=1e-13)


def _seen(client):
    frame = _rounded(client._experiment.lookup_data()).full_df
    return {metric: part["mean"].to_numpy() for metric, part in frame.groupby("metric_name")}


def saved_with(cov, path):
    client = mixed_client()
    use_pretrained(client, cov, initial_trials=2)
    add_trials(client, mixed_points(3), lambda point: strength(cov, point))
    client.save_to_json_file(str(path))
    return json.loads(path.read_text())


def change_covariance(snapshot, change):
    """Change what is stored of the covariance, wherever Ax writes the experiment."""
    for experiment in (snapshot["experiment"], snapshot["generation_strategy"]["experiment"]):
        change(experiment["properties"])


@pytest.mark.parametrize("damage", ["missing", "altered", "another"])
def test_wrong_covariance_is_refused_before_any_suggestion(small_cov, damage, tmp_path, monkeypatch):
    path = tmp_path / "experiment.json"
    snapshot = saved_with(small_cov, path)

    def change(properties):
        held = properties[storage.PROPERTY]
        if damage == "missing":
            del properties[storage.PROPERTY]
        elif damage == "altered":
            held[small_cov.fingerprint] = held[small_cov.fingerprint].replace('"bias":', '"bias":1')
        else:
            held[small_cov.fingerprint] = hartmann_covariance().to_bytes().decode()

    change_covariance(snapshot, change)
    path.write_text(json.dumps(snapshot))
    monkeypatch.setattr(storage, "_known", {})
    client = Client.load_from_json_file(str(path))
    with pytest.raises(ArtefactError, match=r"(?s)covariance.*call use_pretrained"):
        client.get_next_trials(1)
    assert len(client._experiment.trials) == 3
    use_pretrained(client, small_cov)
    assert len(client.get_next_trials(1)) == 1


def test_covariance_is_stored_once_per_experiment(small_cov, tmp_path):
    path = tmp_path / "experiment.json"
    saved_with(small_cov, path)
    client = Client.load_from_json_file(str(path))
    client.get_next_trials(1)
    client.save_to_json_file(str(path))
    snapshot = json.loads(path.read_text())
    # Ax writes the experiment twice into a snapshot, by itself and with the strategy.
    assert json.dumps(snapshot).count("mkbo-pretrained-covariance") == 2
    assert len(client._experiment._properties[storage.PROPERTY]) == 1
