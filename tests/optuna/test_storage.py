"""Several workers on one storage, and workers that are killed: no trial is lost, and none is made twice."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from mkbo_plugins.optuna import PretrainedSampler
from mkbo_plugins.optuna.searchspace import SearchSpace
from mkbo_plugins.optuna.trials import StudyTrials
from tests.documents import own_warnings
from tests.optuna.conftest import DISTRIBUTIONS, objective
from tests.optuna.worker import NAME, storage_at

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", "journal"])
def address(request, tmp_path):
    return f"sqlite:///{tmp_path / 'study.db'}" if request.param == "sqlite" else str(tmp_path / "study.log")


@pytest.fixture
def saved(small_cov, tmp_path):
    return small_cov.save(tmp_path / "table.mkbo.json")


def start(address, saved, trials):
    command = [sys.executable, "-m", "tests.optuna.worker", address, str(saved), str(trials)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def shared_study(address, sampler=None):
    return optuna.create_study(
        study_name=NAME, storage=storage_at(address), direction="maximize", sampler=sampler, load_if_exists=True
    )


def test_two_workers_share_a_study(address, saved):
    shared_study(address)
    workers = [start(address, saved, 3) for _ in range(2)]
    numbers = []
    for worker in workers:
        out, problem = worker.communicate(timeout=300)
        assert worker.returncode == 0, problem
        assert not own_warnings(problem.replace("ExperimentalWarning", "")), problem
        numbers += map(int, out.split())
    study = shared_study(address)
    assert sorted(numbers) == [trial.number for trial in study.trials] == list(range(6))
    assert all(trial.state == TrialState.COMPLETE for trial in study.trials)
    assert len({tuple(trial.params.values()) for trial in study.trials}) == 6


def test_a_killed_worker_loses_no_trial(address, saved, small_cov):
    shared_study(address)
    worker = start(address, saved, "hang")
    if not any(line == "3\n" for line in worker.stdout):
        pytest.fail(worker.communicate()[1])
    os.kill(worker.pid, signal.SIGKILL)
    worker.communicate()
    sampler = PretrainedSampler(small_cov, direction="same", seed=0)
    study = shared_study(address, sampler)
    left = study.trials
    assert [trial.state for trial in left] == [TrialState.COMPLETE] * 3 + [TrialState.RUNNING]
    study.optimize(objective(small_cov), n_trials=2)
    assert [trial.params for trial in study.trials[:4]] == [trial.params for trial in left]
    assert [trial.state for trial in study.trials[4:]] == [TrialState.COMPLETE] * 2
    known = StudyTrials.of(study.trials, SearchSpace.of(small_cov.space, DISTRIBUTIONS, {})).trials
    assert (len(known.y), len(known.pending)) == (5, 1)
    study.tell(3, state=TrialState.FAIL)
    known = StudyTrials.of(study.trials, SearchSpace.of(small_cov.space, DISTRIBUTIONS, {})).trials
    assert (len(known.y), len(known.pending), len(known.failed)) == (5, 0, 1)
