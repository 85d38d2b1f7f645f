"""A worker of a study that others work on, too: ``python -m tests.optuna.worker STORAGE COVARIANCE TRIALS``.

It says of each trial when it begins; with "hang" for the number of trials, it stays in the fourth.
"""

import sys
import time

import optuna

from mkbo_plugins import PretrainedCovariance
from mkbo_plugins.optuna import PretrainedSampler
from tests.optuna.conftest import objective

NAME = "shared"


def storage_at(address):
    """Return a storage in a database or, of a path, in a journal."""
    if "://" in address:
        return address
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(address))


if __name__ == "__main__":
    address, path, trials = sys.argv[1:]
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    cov = PretrainedCovariance.load(path)
    sampler = PretrainedSampler(cov, direction="same", initial_trials=3, seed=0)
    study = optuna.load_study(study_name=NAME, storage=storage_at(address), sampler=sampler)

    def announced(trial):
        value = objective(cov)(trial)
        print(trial.number, flush=True)
        if trials == "hang" and trial.number >= 3:
            time.sleep(600)
        return value

    study.optimize(announced, n_trials=4 if trials == "hang" else int(trials))
