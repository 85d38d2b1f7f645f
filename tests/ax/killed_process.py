"""One process of a campaign: begin it and wait to be killed, or resume it and finish.

``python -m tests.ax.killed_process begin|resume Client|AxClient json|sqlite FOLDER``
"""

import json
import shutil
import sys
import time
from pathlib import Path

import mkbo_plugins.ax as plugin
from mkbo_plugins import PretrainedCovariance
from tests.ax.experiments import CAMPAIGNS, hartmann6, make_quiet

SAVED_AT, FINISHED_AT = 8, 10


def begin(campaign, folder: Path) -> None:
    """Make eight trials, save, note the next suggestion after that, and wait."""
    campaign.create()
    cov = PretrainedCovariance.load(folder / "table.mkbo.json")
    plugin.use_pretrained(campaign.client, cov, initial_trials=7)
    for _ in range(SAVED_AT):
        index, parameters = campaign.suggest()
        campaign.complete(index, hartmann6(parameters))
    campaign.save()
    shutil.copy(campaign.path, folder / "saved")
    (folder / "next.json").write_text(json.dumps(campaign.suggest()))
    print("saved", flush=True)
    time.sleep(600)


def resume(campaign, folder: Path) -> None:
    """Go on from what was saved, and write the trials that the experiment has in the end."""
    campaign.load()
    first = campaign.suggest()
    campaign.complete(first[0], hartmann6(first[1]))
    while len(campaign.experiment.trials) < FINISHED_AT:
        index, parameters = campaign.suggest()
        campaign.complete(index, hartmann6(parameters))
    trials = {
        index: [trial.status.name, trial.generator_runs[0]._generation_node_name, trial.arm.parameters]
        for index, trial in campaign.experiment.trials.items()
    }
    print(json.dumps({"first": first, "trials": trials}))


if __name__ == "__main__":
    mode, client, store, where = sys.argv[1:]
    make_quiet()
    path = Path(where) / ("running" if mode == "begin" else "saved")
    {"begin": begin, "resume": resume}[mode](CAMPAIGNS[client](store, path), Path(where))
