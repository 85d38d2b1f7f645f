"""One process of a campaign: begin it and wait to be killed, or resume it and finish.

``python -m tests.ax.killed_process begin|resume Client|AxClient json|sqlite same|unknown FOLDER``
"""

import json
import shutil
import sys
import time
from pathlib import Path

import mkbo_plugins.ax as plugin
from mkbo_plugins import PretrainedCovariance
from mkbo_plugins.ax.fitted import fitted_adapter, models_by_metric
from tests.ax.experiments import CAMPAIGNS, hartmann6, make_quiet

SAVED_AT, FINISHED_AT = 8, 10


def begin(campaign, direction: str, folder: Path) -> None:
    """Make eight trials, save, note the next suggestion after that, and wait."""
    campaign.create()
    cov = PretrainedCovariance.load(folder / "table.mkbo.json")
    plugin.use_pretrained(campaign.client, cov, initial_trials=7, direction=direction)
    for _ in range(SAVED_AT):
        index, parameters = campaign.suggest()
        campaign.complete(index, hartmann6(parameters))
    campaign.save()
    shutil.copy(campaign.path, folder / "saved")
    (folder / "next.json").write_text(json.dumps(campaign.suggest()))
    print("saved", flush=True)
    time.sleep(600)


def resume(campaign, direction: str, folder: Path) -> None:
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
    (model,) = models_by_metric(fitted_adapter(campaign.experiment, campaign.client._generation_strategy)).values()
    signs = getattr(model[1].mean_module, "directed", None)
    print(json.dumps({"first": first, "trials": trials, "signs": None if signs is None else signs.signs}))


if __name__ == "__main__":
    mode, client, store, direction, where = sys.argv[1:]
    make_quiet()
    path = Path(where) / ("running" if mode == "begin" else "saved")
    {"begin": begin, "resume": resume}[mode](CAMPAIGNS[client](store, path), direction, Path(where))
