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
# # An alloy campaign, from an old table to the next melt
#
# A foundry has a table of hardness for an aluminium alloy with magnesium and silicon, from years of trials. Now it
# wants the tensile strength of a new variant, and a melt costs a week. This is what the weeks look like: files in a
# folder, one command at a time. No programming is needed; the few lines of Python stand for the laboratory.
#
# The measurements are made up here, by a formula in which strength comes from Mg2Si that grows during ageing: fast
# when hot, coarse when too hot or too long. The old alloy and the new one share that, so knowledge of one must help
# with the other; how much it helps in *your* case, only your case can tell.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import Image

from mkbo_plugins import ParameterSpace, PretrainedCovariance
from mkbo_plugins.botorch.suggest import suggest
from mkbo_plugins.plots import convergence, evidence_over_trials
from mkbo_plugins.trials import Trials

space_toml = """\
[Mg_pct]
bounds = [0.2, 1.4]

[Si_pct]
bounds = [0.2, 1.4]

[ageing_C]
bounds = [140, 220]

[ageing_h]
bounds = [0.5, 100]
log = true

[quench]
levels = ["water", "air"]
"""
with open("space.toml", "w") as file:
    file.write(space_toml)
space = ParameterSpace.from_dict(
    {
        "Mg_pct": (0.2, 1.4),
        "Si_pct": (0.2, 1.4),
        "ageing_C": (140, 220),
        "ageing_h": (0.5, 100, "log"),
        "quench": ["water", "air"],
    }
)


def growth(melts: pd.DataFrame, peak_h: float, best_C: float) -> pd.Series:
    """Return how well ageing has made Mg2Si grow, from 0 to 1."""
    hours = np.log10(melts["ageing_h"]) - np.log10(peak_h) + (melts["ageing_C"] - 175) * 0.8 / 30
    return np.exp(-((hours / 0.7) ** 2) - ((melts["ageing_C"] - best_C) / 35) ** 2)


def hardness(melts: pd.DataFrame) -> pd.Series:
    """Return the hardness of the old alloy, HV."""
    silicide = 2 * np.minimum(melts["Mg_pct"] / 1.73, melts["Si_pct"])
    quench = np.where(melts["quench"] == "water", 1.0, 0.6)
    return 45 + 20 * melts["Mg_pct"] + 90 * silicide * growth(melts, 8, 175) * quench


def strength(melts: pd.DataFrame) -> pd.Series:
    """Return the tensile strength of the new alloy, MPa, to whole numbers: what the laboratory reports."""
    silicide = 2 * np.minimum(melts["Mg_pct"] / 1.73, melts["Si_pct"])
    quench = np.where(melts["quench"] == "water", 1.0, 0.75)
    brittle = 60 * np.maximum(melts["Si_pct"] - 1, 0)
    return (150 + 260 * silicide * growth(melts, 14, 170) * quench - brittle).round()


# %%
# %env TERM=dumb

# %% [markdown]
# ## Monday: the old table
#
# It comes out of a drawer, as a spreadsheet that many hands have filled in.

# %%
old = pd.DataFrame(space.from_raw(space.sobol(80, seed=1))).round(3)
old["hardness_HV"] = (hardness(old) + np.random.default_rng(1).normal(0, 1.5, len(old))).round(1)
messy = old.astype(object)
messy.loc[3, "ageing_C"] = "175 C"
messy.loc[11, "quench"] = "Water"
messy.loc[40, "hardness_HV"] = None
messy.to_excel("hardness.xlsx", index=False)
messy.head()

# %% [markdown]
# `mkbo check` lists everything that has to be mended, at once.

# %%
# !mkbo check hardness.xlsx --target hardness_HV --space space.toml

# %% [markdown]
# The notes in the logbook settle all three.

# %%
old.to_excel("hardness.xlsx", index=False)

# %%
# !mkbo check hardness.xlsx --target hardness_HV --space space.toml

# %% [markdown]
# ## Tuesday: what does the table know?

# %%
# !mkbo pretrain hardness.xlsx --target hardness_HV --space space.toml --trainer gp --out alloy.mkbo.json

# %% [markdown]
# Held-out predictions explain most of the variance, so there is something to transfer. A picture of it:

# %%
# !mkbo show alloy.mkbo.json --plot alloy.png > alloy.txt
Image("alloy.png")

# %% [markdown]
# Diamonds show what the table's prediction varies with: magnesium, and ageing temperature and time together, as
# everyone in the foundry would have said. Bars show where the covariance expects another property of these alloys to
# vary. It leaves open in which direction each term goes, so the two need not agree: here it expects more of silicon and
# quenching than hardness showed. Along each parameter, the pre-trained covariance says which settings give outcomes
# that are alike: ageing above 200 °C is another world. The stock covariance knows only that near settings are alike.
#
# ## Wednesday: the first three melts
#
# Hard alloys of this family are strong ones, so the table may propose: `--direction same`.

# %%
# !mkbo suggest --covariance alloy.mkbo.json --target strength_MPa --direction same -n 3 --out next.csv

# %% [markdown]
# A week later the laboratory has filled in the empty column, and the rows go into `done.csv`. The columns behind it
# may stay: what is not a parameter is not read.

# %%
first = pd.read_csv("next.csv")
first["strength_MPa"] = strength(first)
first.to_csv("done.csv", index=False)
first[[*space.names, "strength_MPa"]]

# %%
# !mkbo suggest --covariance alloy.mkbo.json --done done.csv --target strength_MPa -n 2 --out next.csv

# %% [markdown]
# One of the two is measured at once; the other waits for the furnace. It goes into the table without an outcome, and
# the next suggestion takes into account that it is under way.

# %%
two = pd.read_csv("next.csv")
two.loc[0, "strength_MPa"] = strength(two)[0]
pd.concat([pd.read_csv("done.csv"), two]).to_csv("done.csv", index=False)

# %%
# !mkbo suggest --covariance alloy.mkbo.json --done done.csv --target strength_MPa

# %% [markdown]
# ## Was it worth it?
#
# Here, unlike in life, the campaign can be run again without the table. The same function that `mkbo suggest` calls,
# in Python, three times each from different first melts:


# %%
def campaign(cov: PretrainedCovariance, form: str, direction: str, seed: int, rounds: int = 9) -> Trials:
    """Return three first melts and one melt a round after them."""
    none = Trials.none(space)
    melts = [dict(s.point) for s in suggest(cov, none, 3, direction=direction, seed=seed).suggestions]
    for _ in range(rounds):
        trials = Trials(space.to_raw(melts), strength(pd.DataFrame(melts)).to_numpy(), none.pending)
        melts.append(dict(suggest(cov, trials, form=form, seed=seed).suggestions[0].point))
    return Trials(space.to_raw(melts), strength(pd.DataFrame(melts)).to_numpy(), none.pending)


cov = PretrainedCovariance.load("alloy.mkbo.json")
best = {
    "without the table": [campaign(cov, "stock", "unknown", seed).y for seed in range(3)],
    "with the table": [campaign(cov, "similarity_link", "same", seed).y for seed in range(3)],
}
curves = {name: np.maximum.accumulate(runs, axis=1) for name, runs in best.items()}
figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
convergence(curves, "strongest melt so far, MPa", ax=ax)
_ = ax.set_xlabel("melt")

# %% [markdown]
# ## A table that turns out not to help
#
# Somebody suggests a table of pitting corrosion instead, of the same alloys. It predicts itself well. Whether it
# says anything about strength, the outcomes will tell.


# %%
def pits(melts: pd.DataFrame) -> pd.Series:
    """Return the depth of pits, micrometres."""
    return 20 + 30 * np.cos(6 * melts["Si_pct"]) + 0.4 * (melts["ageing_C"] - 180) * np.sin(4 * melts["Mg_pct"])


corrosion = pd.DataFrame(space.from_raw(space.sobol(60, seed=2))).round(3)
corrosion["pits_um"] = (pits(corrosion) + np.random.default_rng(2).normal(0, 1, len(corrosion))).round(1)
corrosion.to_csv("corrosion.csv", index=False)

# %%
# !mkbo pretrain corrosion.csv --target pits_um --space space.toml --trainer gp --out corrosion.mkbo.json > log.txt

# %%
unhelpful = PretrainedCovariance.load("corrosion.mkbo.json")
print(f"held-out predictions explain {unhelpful.record.explained:.0%} of the variance of pits")
trials = campaign(unhelpful, "similarity_link", "unknown", seed=0, rounds=14)
done = pd.DataFrame(space.from_raw(trials.X)).assign(strength_MPa=trials.y)
done.to_csv("done_corrosion.csv", index=False)

# %%
# !mkbo suggest --covariance corrosion.mkbo.json --done done_corrosion.csv

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
evidence_over_trials(unhelpful, trials.X, trials.y, ax=left)
left.set_title("corrosion")
with_hardness = campaign(cov, "similarity_link", "same", seed=0, rounds=14)
evidence_over_trials(cov, with_hardness.X, with_hardness.y, ax=right)
_ = right.set_title("hardness")

# %% [markdown]
# The odds of the corrosion table wander about even, reach ten to one for it, and end at fourteen to one against it: it
# cannot be told yet whether it helps. For a no it takes thirty to one, since models with a table can turn it down by
# themselves. The dash-dotted line is the form in use, which explains these melts well by what the table says of which
# are alike, whatever its values say. The melts made are not lost. The same command with `--form stock` goes on from
# them without the table:

# %%
# !mkbo suggest --covariance corrosion.mkbo.json --done done_corrosion.csv --form stock

# %% [markdown]
# Odds compare how likely the outcomes are, not how many melts a table saves, and they wander: those of the hardness
# table were against it at first, although it saved many melts. A line that keeps falling is a warning; a single point
# is not.
