"""Stored experiments: killed and resumed, small, and loud about what is missing."""

import copy
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
from mkbo_plugins.errors import ArtefactError, MkboError
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


def began(path):
    campaign = CAMPAIGNS["Client"]("sqlite", path)
    campaign.create()
    use_pretrained(campaign.client, hartmann_covariance(), initial_trials=2)
    return campaign


def test_two_processes_take_turns_on_one_database(tmp_path):
    pytest.importorskip("sqlalchemy")
    alone = began(tmp_path / "alone")
    expected = [alone.trial() for _ in range(4)]
    shared = began(tmp_path / "shared")
    command = [sys.executable, "-m", "tests.ax.other_process", str(shared.path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert "Node that is not registered" in other.stdout.readline()
        found = []
        for _ in range(2):
            shared.load()
            found.append(shared.trial())
            print(file=other.stdin, flush=True)
            found.append(json.loads(other.stdout.readline()))
        other.stdin.close()
    assert found == expected


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
    client.save_to_json_file(str(path))
    monkeypatch.setattr(storage, "_known", {})
    again = Client.load_from_json_file(str(path))
    assert storage.recall(small_cov.fingerprint, again._experiment) == small_cov


@pytest.fixture(scope="module")
def snapshots(small_cov, tmp_path_factory):
    """Return saved experiments whose next suggestion is by a model, by the table and by neither."""
    path = tmp_path_factory.mktemp("stored") / "experiment.json"
    first = saved_with(small_cov, path)
    begun = {}
    for node, settings in {"TableDesign": {"direction": "same"}, "Sobol": {}}.items():
        client = mixed_client()
        use_pretrained(client, small_cov, initial_trials=2, **settings)
        client.get_next_trials(1)
        client.save_to_json_file(str(path))
        begun[node] = json.loads(path.read_text())
    return {"Pretrained": first, **begun}


def refused(snapshot, path, monkeypatch):
    """Return why an experiment that is loaded in a process without covariances makes no suggestion."""
    path.write_text(json.dumps(snapshot))
    monkeypatch.setattr(storage, "_known", {})
    client = Client.load_from_json_file(str(path))
    count = len(client._experiment.trials)
    with pytest.raises(MkboError) as caught:
        client.get_next_trials(1)
    assert len(client._experiment.trials) == count
    return str(caught.value)


ALTERED = {
    "covariances": [{}, {"*": 5}, {"*": "0" * 64}, "text"],
    "form": ["transfre", ["transfer"], 1],
    "rename": [[], {"power": ["extra"]}],
    "fixed": ["", {"power": 1.0}],
    "select": ["yes", 1],
    "seed": [-1, 1.5, "0", True],
    "directions": [0, [1], {"z": "same"}, {"*": "sideways"}],
    "trials": ["3", 2.5, -1],
    "next_node": [3, {}, "Sobol"],
}


@pytest.mark.parametrize("node", ["Pretrained", "TableDesign", "Sobol"])
def test_altered_options_are_refused_in_words_and_trials_kept(snapshots, node, tmp_path, monkeypatch):
    index = -1 if node == "Pretrained" else 0
    options = snapshots[node]["generation_strategy"]["nodes"][index].keys() - {"__type"}
    assert options <= set(ALTERED)
    for name in options:
        for value in [None, *ALTERED[name]]:
            snapshot = copy.deepcopy(snapshots[node])
            stored = snapshot["generation_strategy"]["nodes"][index]
            if value is not None:
                stored[name] = value
            elif (node, name) == ("Pretrained", "directions"):
                continue  # as in files of earlier versions
            else:
                del stored[name]
            words = refused(snapshot, tmp_path / "experiment.json", monkeypatch)
            assert 20 < len(words) < 500, (name, value)


@pytest.mark.parametrize("value", [None, 5, "text", [], {}, "artefact"])
def test_an_altered_covariance_of_any_type_is_refused_in_words(snapshots, small_cov, value, tmp_path, monkeypatch):
    snapshot = copy.deepcopy(snapshots["Pretrained"])
    change_covariance(snapshot, lambda properties: properties.update({storage.PROPERTY: value}))
    assert "use_pretrained" in refused(snapshot, tmp_path / "experiment.json", monkeypatch)
    for held in (value, "\ud800", "[" * 100_000):
        change_covariance(
            snapshot, lambda properties, held=held: properties.update({storage.PROPERTY: {small_cov.fingerprint: held}})
        )
        assert "use_pretrained" in refused(snapshot, tmp_path / "experiment.json", monkeypatch)


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
