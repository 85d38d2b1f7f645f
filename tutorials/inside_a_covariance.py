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
# # Looking inside a pre-trained covariance
#
# A covariance says which points have outcomes that are alike. One that was pre-trained on a table says it with what
# the table knew. Before trusting it with experiments, look at what that is.
#
# The table is bundled with scikit-learn: ten measurements of 442 patients and how far their diabetes went within a
# year (B. Efron et al., Annals of Statistics 32 (2004) 407-499). We take four of the measurements as if they were
# settings.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.core import feature_weights
from mkbo_plugins.plots import (
    covariance_slices,
    evidence_over_trials,
    held_out_predictions,
    interaction_orders,
    parameter_weights,
    prior_draws,
)

patients = load_diabetes(as_frame=True, scaled=False).frame
patients = patients[["age", "bmi", "bp", "s5", "target"]].rename(
    columns={"bp": "pressure_mmHg", "s5": "log_triglycerides", "target": "progression"}
)
space = ParameterSpace.from_table(patients, "progression")
patients.head()

# %%
table = patients.iloc[:200]
cov = pretrain(table, "progression", space, trainer="gp", progress=False)
print(cov)

# %% [markdown]
# ## Does the table know anything?
#
# Each row is predicted from all others. Points on the dashed line would be predicted exactly; a flat cloud would
# mean that there is nothing to transfer. These patients are somewhere in between: four measurements say something
# about the course of the illness, not everything.

# %%
figure, ax = plt.subplots(figsize=(4.4, 4.2), layout="constrained")
_ = held_out_predictions(cov, table, ax=ax)

# %% [markdown]
# ## What does it vary with?
#
# Diamonds mark what the table's prediction varies with. Bars show how the prior variance of a target divides among
# parameters and their interactions: body mass and triglycerides carry most, mostly each by itself, and age next to
# nothing. The two can differ, since the covariance leaves open in which direction each feature goes: powers of a
# parameter that cancel in the prediction count in the bars.

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 2.8), width_ratios=[2, 1], layout="constrained")
parameter_weights(cov, ax=left)
_ = interaction_orders(cov, ax=right)

# %% [markdown]
# Underneath are the weights of the kernel's features, monomials of the parameters mapped to [-1, 1]. The free kernel
# has weights tau; the table turns them into w. The heaviest:

# %%
listing = feature_weights(cov.fixed.kernel, tolerance=1e-4)
print("x1..x4 are", ", ".join(space.names))
print("\n".join(str(listing).splitlines()[:8]))

# %% [markdown]
# ## Which points are alike?
#
# The correlation of the outcome at one patient (dotted line) with that of patients who differ in one measurement.
# BoTorch's own covariance says that near is alike, equally for every measurement. The pre-trained one says that age
# makes little difference, and that patients of low and high body mass differ from one another.

# %%
centre = {"age": 50, "bmi": 26, "pressure_mmHg": 95, "log_triglycerides": 4.6}
figure, axes = plt.subplots(1, 4, figsize=(12, 2.9), layout="constrained")
_ = covariance_slices(cov, centre, ax=axes)

# %% [markdown]
# ## What does it expect?
#
# Functions drawn from both priors, before any outcome of the new problem is known. Pre-trained ones vary with body
# mass as the table does, upwards or downwards: the covariance does not claim to know the sign.

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
_ = prior_draws(cov, "bmi", centre, ax=axes)

# %% [markdown]
# ## Does it fit the new problem?
#
# The other patients are the new problem, one after the other. Their outcomes come to speak for the table. Outcomes
# shuffled among the same patients are something that no table can know.

# %%
others = patients.iloc[200:]
shuffled = others.assign(progression=np.random.default_rng(0).permutation(others["progression"]))
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
evidence_over_trials(cov, others[:30], others["progression"][:30], ax=left)
left.set_title("other patients")
evidence_over_trials(cov, shuffled[:30], shuffled["progression"][:30], ax=right)
_ = right.set_title("outcomes shuffled")

# %% [markdown]
# The odds wander, and for a while the shuffled outcomes seem to speak for the table as well. One line is one draw;
# how often do 30 outcomes decide, and how often rightly?

# %%
answers = {}
for name, rows in (("other patients", others), ("outcomes shuffled", shuffled)):
    draws = [rows.sample(30, random_state=seed) for seed in range(40)]
    answers[name] = [str(cov.verdict(draw, draw["progression"]).answer) for draw in draws]
print(pd.DataFrame(answers).apply(pd.Series.value_counts).fillna(0).astype(int))

# %% [markdown]
# So a verdict is a hint. A line that goes on rising or falling is worth more than one that has crossed the band, and
# nothing is worth as much as a look at the held-out predictions and some knowledge of the problem.
