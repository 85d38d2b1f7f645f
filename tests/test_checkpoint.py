"""An interrupted pre-training goes on where it stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.core.training import selection
from mkbo_plugins.core.training.svr import LeaveOneOut
from mkbo_plugins.covariance.container import digest
from mkbo_plugins.errors import ArtefactError, FitError
from mkbo_plugins.pretraining import trainers
from mkbo_plugins.pretraining.checkpoint import Checkpoint
from tests.conftest import MIXED_SPACE, mixed_table

TABLE, SPACE = mixed_table(), ParameterSpace.from_dict(MIXED_SPACE)
pytestmark = pytest.mark.filterwarnings("ignore::mkbo_plugins.errors.GridEdgeWarning")
GRIDS = {"C": [0.1, 3.0, 30.0], "sigma": [0.1, 2.0, 50.0], "epsilon": [0.0, 0.05, 0.2]}


def train(**settings):
    return pretrain(TABLE, "strength", SPACE, **(GRIDS | {"progress": False} | settings))


@pytest.mark.parametrize("ard", [True, False])
def test_goes_on_where_it_was_interrupted(ard, tmp_path, monkeypatch):
    expected, file = train(ard=ard), tmp_path / "grid.json"
    searched, search = [], selection.leave_one_out

    def interrupted(*args, **options):
        searched.append(1)
        if len(searched) > 12:
            raise KeyboardInterrupt
        return search(*args, **options)

    monkeypatch.setattr(selection, "leave_one_out", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(ard=ard, resume=file)
    searched.clear()
    monkeypatch.setattr(selection, "leave_one_out", lambda *a, **k: searched.append(1) or search(*a, **k))
    if ard:
        monkeypatch.setattr(trainers, "ard_map", None)
    assert train(ard=ard, resume=file) == expected
    assert len(searched) == 27 - 9
    searched.clear()
    assert train(ard=ard, resume=str(file)) == expected
    assert not searched


def test_a_killed_process_loses_no_finished_cell(tmp_path):
    file = tmp_path / "grid.json"
    script = f"""
import time
from mkbo_plugins.core.training import selection
from tests.test_checkpoint import train
search = selection.leave_one_out
selection.leave_one_out = lambda *a, **k: time.sleep(0.1) or search(*a, **k)
train(resume={str(file)!r})
"""
    process = subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parents[1])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (file.exists() and len(json.loads(file.read_text())["cells"]) >= 9):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    cells = json.loads(file.read_text())["cells"]
    assert 9 <= len(cells) < 27
    assert train(resume=file) == train()


@pytest.mark.parametrize("other", [{"C": [0.1, 3.0]}, {"ard": False}, {"kernel": "linear"}, {"frame": "unit"}])
def test_a_checkpoint_of_other_settings_is_refused(other, tmp_path):
    file = tmp_path / "grid.json"
    train(resume=file)
    before = file.read_bytes()
    with pytest.raises(ArtefactError, match=r"grid\.json.*other settings.*delete it"):
        train(resume=file, **other)
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", ["", "{}", "[1, 2]", '{"format": "mkbo-checkpoint"}', '{"format": "x", "key": ""}'])
def test_another_file_is_refused_and_left_alone(content, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text(content)
    with pytest.raises(ArtefactError, match=r"notes\.txt.*name another file"):
        train(resume=file)
    assert file.read_text() == content


@pytest.mark.parametrize(
    "change", [lambda text: text.replace("0.1234", "0.1235"), lambda text: text[: text.index(', "checksum"')] + "}"]
)
def test_a_file_of_which_a_digit_was_altered_or_that_has_no_checksum_is_refused(change, tmp_path):
    file = tmp_path / "grid.json"
    Checkpoint(file, "key", (2, 2)).keep_outcomes({(0.1, 0.0, 2.0): LeaveOneOut(0.1234, np.zeros(2), True)})
    changed = change(file.read_text())
    assert changed != file.read_text()
    file.write_text(changed)
    with pytest.raises(ArtefactError, match=r"damaged one \(format or checksum differ\); name another file"):
        Checkpoint(file, "key", (2, 2))


def test_a_file_that_cannot_be_written_is_refused_before_time_is_spent(tmp_path, monkeypatch):
    monkeypatch.setattr(trainers, "ard_map", None)
    with pytest.raises(ArtefactError, match="existing folder"):
        train(resume=tmp_path / "missing" / "grid.json")


def test_reads_back_what_it_kept(tmp_path):
    file = tmp_path / "grid.json"
    weights, cells = np.array([1.0, 1 / 3]), {(0.1, 0.0, 2 / 3): LeaveOneOut(0.1, np.array([0.1, -1 / 3]), True)}
    cells[1.0, 0.0, 0.5] = LeaveOneOut(np.inf, np.zeros(2), False)
    kept = Checkpoint(file, "key", (2, 2))
    kept.keep_evidence(weights, False)
    kept.keep_outcomes(cells)
    found = Checkpoint(file, "key", (2, 2))
    assert found.evidence[1] is False
    np.testing.assert_array_equal(found.evidence[0], weights)
    assert list(found.outcomes) == list(cells)
    for ours, theirs in zip(cells.values(), found.outcomes.values(), strict=True):
        assert (ours.error, ours.converged) == (theirs.error, theirs.converged)
    np.testing.assert_array_equal(found.outcomes[0.1, 0.0, 2 / 3].residuals, [0.1, -1 / 3])


def test_a_gaussian_process_has_no_grid_to_resume(tmp_path):
    with pytest.raises(FitError, match="resume"):
        pretrain(TABLE, "strength", SPACE, trainer="gp", resume=tmp_path / "grid.json")


@pytest.mark.parametrize(
    "change",
    [
        {"evidence": [[1.0], True]},
        {"evidence": [[1.0, -1.0], True]},
        {"evidence": [["1", 1.0], True]},
        {"cells": [[0.1, 0.0, 2.0, -0.1, [0.0, 0.0], True]]},
        {"cells": [[0.1, 0.0, 2.0, 0.1, [0.0], True]]},
        {"cells": [[0.1, 0.0, 2.0, "0.1", [0.0, 0.0], True]]},
        {"cells": [[[], 0.0, 2.0, 0.1, [0.0, 0.0], True]]},
        {"cells": 5},
    ],
    ids=str,
)
def test_a_resealed_file_without_meaning_is_refused(change, tmp_path):
    file = tmp_path / "grid.json"
    Checkpoint(file, "key", (2, 2)).keep_evidence(np.ones(2), True)
    content = json.loads(file.read_text()) | change
    del content["checksum"]
    file.write_text(json.dumps(content | {"checksum": digest(content)}))
    with pytest.raises(ArtefactError, match=r"damaged one .*; name another file"):
        Checkpoint(file, "key", (2, 2))
    with pytest.raises(ArtefactError, match="belongs to another table"):
        Checkpoint(file, "other", (2, 2))
