# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Ax: switch a running experiment to a pre-trained covariance
#
# A coating line is being tuned with Ax. Six trials in, somebody finds the records of the old line. The experiment
# need not begin again: `use_pretrained` switches it where it stands, and it can be saved and resumed as before.

# %%
import logging

logging.disable(logging.INFO)  # Ax reports every trial

import numpy as np
import pandas as pd
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

import mkbo_plugins.ax
from mkbo_plugins import ParameterSpace, pretrain


def adhesion(speed: float, power: float, gas: str) -> float:
    """Return what the new line reaches, N/cm; each call stands for an experiment."""
    grip = 12 + 40 * np.exp(-(((speed - 8.5) / 2.5) ** 2) - ((np.log10(power) - 2.8) / 0.4) ** 2)
    return float(round(grip * {"air": 0.8, "nitrogen": 1.0, "oxygen": 0.9}[gas], 2))


# %% [markdown]
# ## The experiment as it runs

# %%
client = Client(random_seed=0)
client.configure_experiment(
    name="coating",
    parameters=[
        RangeParameterConfig(name="speed_m_min", bounds=(1, 12), parameter_type="float"),
        RangeParameterConfig(name="power_W", bounds=(20, 2000), parameter_type="float", scaling="log"),
        ChoiceParameterConfig(name="gas", values=["air", "nitrogen", "oxygen"], parameter_type="str", is_ordered=False),
    ],
)
client.configure_optimization(objective="adhesion")


def run_trials(client: Client, count: int) -> None:
    """Ask for trials one by one and report what came out."""
    for _ in range(count):
        for index, settings in client.get_next_trials(max_trials=1).items():
            outcome = adhesion(settings["speed_m_min"], settings["power_W"], settings["gas"])
            client.complete_trial(index, {"adhesion": outcome})


run_trials(client, 6)
print(client.summarize()[["trial_index", "speed_m_min", "power_W", "gas", "adhesion"]].to_string(index=False))

# %% [markdown]
# ## The records of the old line
#
# They hold the water contact angle, small where adhesion is good; another quantity, pointing the other way. Trained
# on them, the covariance knows which settings belong together. The names differ in one place.

# %%
space = ParameterSpace.from_dict(
    {"speed": (0.5, 15), "power_W": (10, 3000, "log"), "gas": ["air", "nitrogen", "oxygen"]}
)
old = pd.DataFrame(space.from_raw(space.sobol(60, seed=4)))
wetting = np.exp(-(((old["speed"] - 8) / 3) ** 2) - ((np.log10(old["power_W"]) - 2.7) / 0.45) ** 2)
angle = 95 - 60 * wetting - 8 * (old["gas"] == "nitrogen")
old["angle_deg"] = (angle + np.random.default_rng(4).normal(0, 1.5, len(old))).round(1)
cov = pretrain(old, "angle_deg", space, trainer="gp", progress=False)
print(f"held-out predictions explain {cov.record.explained:.0%} of the variance")

# %% [markdown]
# ## Switch
#
# Trials, data and limits stay as they are. Nothing says in which direction the angle points; the model finds out.

# %%
mkbo_plugins.ax.use_pretrained(client, cov, rename={"speed_m_min": "speed"})
run_trials(client, 4)
print(client.summarize()[["trial_index", "generation_node", "adhesion"]].to_string(index=False))

# %% [markdown]
# The first trial after the switch is far better than the six before it: the angle's sign is found out at once. After it
# the model stays near there, at almost 50 of the 52 N/cm that the best settings of the new line would reach.
#
# ## Save, and resume in another process
#
# The covariance is stored with the experiment. Whoever loads it must have imported `mkbo_plugins.ax`, so that Ax
# knows what it reads.

# %%
client.save_to_json_file("coating.json")
resumed = Client.load_from_json_file("coating.json")
run_trials(resumed, 3)
best, outcome, index, arm = resumed.get_best_parameterization(use_model_predictions=False)
print(f"best of {len(resumed.summarize())} trials, number {index}: {outcome['adhesion'][0]}, {best}")

# %% [markdown]
# ## Look at what is in use

# %%
print(mkbo_plugins.ax.diagnose(resumed).T.to_string(header=False))
