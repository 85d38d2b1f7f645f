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
# # A recipe: parts that sum to 100
#
# A plaster has four parts, in per cent: sand, lime, water and fibre. An old series of recipes was tested for strength
# after seven days. The new question is strength after ninety days, and no recipe may be proposed that cannot be mixed.
# Nothing here is real: both strengths are functions in the next cell.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mkbo_plugins import ParameterSpace, PretrainedCovariance
from mkbo_plugins.botorch.suggest import suggest
from mkbo_plugins.trials import Trials

PARTS = ["sand", "lime", "water", "fibre"]


def after_seven_days(recipes: pd.DataFrame) -> pd.Series:
    """Return the strength of young plaster, MPa."""
    wet = (recipes["water"] - 14 - 0.1 * recipes["lime"]) / 5
    return 2 + 0.09 * recipes["lime"] * np.exp(-(wet**2)) + 0.05 * recipes["fibre"]


def after_ninety_days(recipes: pd.DataFrame) -> pd.Series:
    """Return the strength of old plaster, MPa, to two decimals: what the laboratory reports."""
    wet = (recipes["water"] - 13 - 0.12 * recipes["lime"]) / 4
    clumps = np.maximum(recipes["fibre"] - 7, 0)
    return (3 + 0.22 * recipes["lime"] * np.exp(-(wet**2)) + 0.1 * recipes["fibre"] - 0.15 * clumps).round(2)


rng = np.random.default_rng(4)
old = pd.DataFrame(rng.dirichlet([9, 3, 3, 1], 30).round(3) * 100, columns=PARTS).round(1)
old["sand"] = (100 - old["lime"] - old["water"] - old["fibre"]).round(1)
old["strength_7d"] = (after_seven_days(old) + rng.normal(0, 0.05, len(old))).round(2)
old.to_csv("recipes.csv", index=False)
old.head()

# %%
# %env TERM=dumb

# %% [markdown]
# ## The table knows that it is a mixture
#
# `mkbo check` sees what the columns have in common.

# %%
# !mkbo check recipes.csv --target strength_7d

# %% [markdown]
# We say it ourselves, with the bounds that our mixer allows, and one rule more: with less water than a third of the
# lime, plaster does not set. A constraint is a section with two brackets.

# %%
with open("space.toml", "w") as file:
    file.write("""
[sand]
bounds = [40, 85]
[lime]
bounds = [2, 35]
[water]
bounds = [5, 30]
[fibre]
bounds = [0, 12]

[[constraint]]
sum = ["sand", "lime", "water", "fibre"]
equals = 100

[[constraint]]
coefficients = {water = 3, lime = -1}
at_least = 0
""")

# %% [markdown]
# A few old recipes are not of this space; the notes name them. They teach all the same.

# %%
# !mkbo pretrain recipes.csv --target strength_7d --space space.toml --trainer gp --out plaster.mkbo.json

# %% [markdown]
# ## Recipes that can be mixed
#
# Strong young plaster is likely to be strong old plaster, so the table proposes the first three.

# %%
# !mkbo suggest --covariance plaster.mkbo.json --target strength_90d --direction same -n 3 --out next.csv

# %%
first = pd.read_csv("next.csv")
first["strength_90d"] = after_ninety_days(first)
first.to_csv("done.csv", index=False)
first[PARTS].sum(axis=1).tolist()

# %% [markdown]
# Each sums to 100 but for the last bit of a computer's numbers, in steps that a balance can weigh. With outcomes, it
# goes on in the same way.

# %%
# !mkbo suggest --covariance plaster.mkbo.json --done done.csv --target strength_90d --direction same -n 2

# %% [markdown]
# ## The same in Python
#
# The covariance has kept the constraints. Three recipes more, one at a time, from the first three on:

# %%
cov = PretrainedCovariance.load("plaster.mkbo.json")
print(*cov.space.constraints, sep="\n")
recipes = first[PARTS]
for _ in range(3):
    trials = Trials(cov.space.to_raw(recipes), after_ninety_days(recipes).to_numpy(), np.empty((0, len(PARTS))))
    (found,) = suggest(cov, trials, direction="same").suggestions
    recipes = pd.concat([recipes, pd.DataFrame([found.point])], ignore_index=True)
recipes.assign(strength_90d=after_ninety_days(recipes), total=recipes.sum(axis=1).round(9))

# %% [markdown]
# Strong plasters have nearly as much lime as the mixer takes, and the others have to make room for it. Had we 5 % of
# fibre and no more, these would share 95:

# %%
rest = cov.space.without({"fibre": 5})
print(*rest.constraints, sep="\n")
pd.DataFrame([s.point for s in suggest(cov, Trials.none(rest), 2, fixed={"fibre": 5}, direction="same").suggestions])

# %% [markdown]
# ## What is left of the cube
#
# Points that fill the space lie on a slice of the box of bounds. Of points drawn in the box, hardly any could be mixed.

# %%
points = pd.DataFrame(cov.space.from_raw(cov.space.sobol(400, seed=1)))
box = pd.DataFrame(ParameterSpace(cov.space.parameters).sobol(400, seed=1), columns=PARTS)
print(f"parts of points in the box sum to {box.sum(axis=1).min():.0f} up to {box.sum(axis=1).max():.0f}")
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
left.plot(box["lime"], box["water"], ".", color="0.8", label="in the box")
left.plot(points["lime"], points["water"], ".", label="can be mixed")
left.set(xlabel="lime, %", ylabel="water, %")
left.legend(loc="lower right")
shown = right.scatter(points["lime"], points["water"], c=cov.predict(points), s=12)
right.set(xlabel="lime, %", title="the table's prediction")
_ = figure.colorbar(shown, ax=right, label="strength after 7 days, MPa")

# %% [markdown]
# In BoTorch's own optimisers, `**linear_constraints(space)` passes the same on; Ax and scikit-optimize, and what they
# cannot keep, are in the page on mixtures and constraints.
