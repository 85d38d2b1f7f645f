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
# # A BoTorch loop with knowledge of an older device
#
# A plating bath was tuned years ago on an older device. The new device behaves alike, but its best settings lie
# elsewhere and it reports another quantity. We pre-train a covariance on the old records and use it in an ordinary
# BoTorch loop.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.botorch import pretrained_gp
from mkbo_plugins.plots import convergence

# %% [markdown]
# ## The old records
#
# Thickness in micrometres, measured on the older device. The parameters are described once, in raw units.

# %%
space = ParameterSpace.from_dict({"current_A": (0.5, 5.0), "time_s": (10.0, 1000.0, "log")})


def old_device(current: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Return the thickness that the older device plated, in micrometres."""
    return 12 * np.exp(-(((current - 2.2) / 0.9) ** 2) - ((np.log10(time) - 2.1) / 0.5) ** 2) + 0.3 * current


records = pd.DataFrame(space.from_raw(space.sobol(40, seed=3)))
noise = np.random.default_rng(3).normal(0, 0.1, len(records))
records["thickness_um"] = old_device(records["current_A"], records["time_s"]) + noise
records.head()

# %%
cov = pretrain(records, target="thickness_um", space=space, trainer="gp", progress=False)
print(f"held-out predictions explain {cov.record.explained:.0%} of the variance")

# %% [markdown]
# ## The new device
#
# It reports hardness, and its optimum has moved. Each call stands for one experiment.


# %%
def new_device(X: torch.Tensor) -> torch.Tensor:
    """Return the hardness that the new device reaches, for rows of current and time."""
    current, time = X[:, 0], X[:, 1]
    hardness = 300 + 80 * torch.exp(-(((current - 2.6) / 0.8) ** 2) - ((torch.log10(time) - 2.3) / 0.4) ** 2)
    return hardness[:, None]


bounds = torch.tensor([[0.5, 10.0], [5.0, 1000.0]], dtype=torch.double)


def campaign(form: str, seed: int, trials: int = 6) -> list[float]:
    """Return the best hardness after each trial, from three space-filling starting points."""
    torch.manual_seed(seed)
    X = torch.as_tensor(space.sobol(3, seed=seed))
    Y = new_device(X)
    for _ in range(trials):
        model = pretrained_gp(cov, X, Y, form=form)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        suggestion, _ = optimize_acqf(
            qLogNoisyExpectedImprovement(model, X_baseline=X), bounds=bounds, q=1, num_restarts=4, raw_samples=64
        )
        X, Y = torch.cat([X, suggestion]), torch.cat([Y, new_device(suggestion)])
    return torch.cummax(Y[:, 0], 0).values.tolist()


# %% [markdown]
# `form="stock"` turns the covariance off, so the loops differ in nothing else. One campaign says little: which model
# is ahead depends on where it starts. So we run six pairs, each from its own starting points, and look at the mean; the
# band is its 95 % interval.

# %%
runs = {form: np.array([campaign(form, seed) for seed in range(6)]) for form in ("stock", "similarity_link")}
figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
convergence(runs, "best hardness so far", ax=ax)
print(pd.DataFrame({form: values.mean(axis=0) for form, values in runs.items()}).round(1).rename_axis("trial"))

# %% [markdown]
# The table can do most before there is any data: it proposes the first experiments itself. `"same"` says that a thick
# layer speaks for a hard one. Where the outcomes of the first experiments do not differ, as on a plateau, the model
# cannot tell whether the table points the right way, and it may take several trials to find out; first experiments
# proposed by the table avoid that.

# %%
first = torch.as_tensor(space.to_raw(cov.starting_points(3, direction="same")))
print(f"best hardness of three experiments proposed by the table: {new_device(first).max():.1f}")
