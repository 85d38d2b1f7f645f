"""Run long campaigns: memory, time and size of files at every tenth step, and whether reloading changes anything.

Example: python -m tools.long_runs 300 ax transfer makes 300 suggestions in one process; with ``stock`` in place of
``transfer``, what the host's own model takes. A further argument saves and loads everything at each step:
``python -m tools.long_runs 100 ax transfer json`` or ``sqlite``, for the other hosts any word. Hosts are ax, botorch,
skopt.
"""

import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain

NAMES = ("a", "b")
STARTS = 5


def objective(a: float, b: float) -> float:
    """Return what is to be small: a bowl with ripples, its digits those that Ax's JSON keeps."""
    return round(float((a - 0.3) ** 2 + 2 * (b - 0.6) ** 2 + 0.1 * np.sin(12 * a) * np.cos(9 * b)), 6)


def covariance() -> PretrainedCovariance:
    """Return a covariance of a table of the objective shifted by a tenth."""
    space = ParameterSpace.from_dict(dict.fromkeys(NAMES, (0.0, 1.0)))
    table = pd.DataFrame(space.sobol(20), columns=list(NAMES))
    table["y"] = [objective(a - 0.1, b - 0.1) for a, b in table.to_numpy()]
    return pretrain(table, "y", space, C=5.0, epsilon=0.1, sigma=2.0, progress=False)


class AxCampaign:
    """A campaign through Ax's client, in memory or in one of its stores."""

    def __init__(self, cov: PretrainedCovariance, form: str, store: str, folder: Path) -> None:
        from ax.api.client import Client
        from ax.api.configs import RangeParameterConfig, StorageConfig
        from ax.storage.sqa_store.db import create_all_tables, get_engine, init_engine_and_session_factory

        from mkbo_plugins.ax import use_pretrained

        self.path, self.config = folder / "experiment", None
        if store == "sqlite":
            self.config = StorageConfig(url=f"sqlite:///{self.path}")
            init_engine_and_session_factory(url=self.config.url, force_init=True)
            create_all_tables(get_engine())
        self.client = Client(storage_config=self.config, random_seed=0)
        self.client.configure_experiment(
            [RangeParameterConfig(name, (0.0, 1.0), parameter_type="float") for name in NAMES], name="long"
        )
        self.client.configure_optimization("-y")
        use_pretrained(self.client, cov, form=form, initial_trials=STARTS)

    def step(self) -> list[float]:
        """Try one more point, and return it."""
        options = {"optimizer_kwargs": {"num_restarts": 1, "raw_samples": 16}}
        self.client._generation_strategy._nodes[-1].generator_spec.generator_gen_kwargs = {"model_gen_options": options}
        ((index, point),) = self.client.get_next_trials(1).items()
        self.client.complete_trial(index, {"y": objective(**point)})
        return [point[name] for name in NAMES]

    def reload(self) -> None:
        """Save and load the experiment, in a process that has forgotten the covariance."""
        from ax.api.client import Client

        from mkbo_plugins.ax import storage

        storage._known.clear()
        if self.config is None:
            self.client.save_to_json_file(str(self.path))
            self.client = Client.load_from_json_file(str(self.path))
        else:
            self.client = Client.load_from_database("long", storage_config=self.config)


class BotorchCampaign:
    """A loop of BoTorch's that starts each fit from the last one's state."""

    def __init__(self, cov: PretrainedCovariance, form: str, store: str, folder: Path) -> None:
        import torch

        self.cov, self.form, self.path = cov, form, folder / "state.pt"
        self.X = torch.tensor(cov.space.sobol(STARTS, 1))
        self.Y = self._outcomes(self.X)
        self.state: dict[str, Any] | None = None

    def step(self) -> list[float]:
        """Try one more point, and return it."""
        import torch
        from botorch.acquisition import LogExpectedImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.optim import optimize_acqf
        from gpytorch.mlls import ExactMarginalLogLikelihood

        from mkbo_plugins.botorch import pretrained_gp

        torch.manual_seed(len(self.X))
        model = pretrained_gp(self.cov, self.X, self.Y, form=self.form)
        if self.state is not None:
            model.load_state_dict(self.state)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        self.state = model.state_dict()
        acquisition = LogExpectedImprovement(model, best_f=self.Y.max())
        bounds = torch.tensor([[0.0] * 2, [1.0] * 2], dtype=torch.double)
        x, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=1, raw_samples=16)
        self.X = torch.cat([self.X, x.detach()])
        self.Y = torch.cat([self.Y, self._outcomes(x)])
        return x[0].tolist()

    def reload(self) -> None:
        """Save and load data and state."""
        import torch

        torch.save({"X": self.X, "Y": self.Y, "state": self.state}, self.path)
        held = torch.load(self.path, weights_only=True)
        self.X, self.Y, self.state = held["X"], held["Y"], held["state"]

    @staticmethod
    def _outcomes(X: Any) -> Any:
        import torch

        return torch.tensor([[-objective(*row)] for row in X.tolist()], dtype=torch.double)


class SkoptCampaign:
    """scikit-optimize's optimiser, asked and told; ``stock`` is its own regressor."""

    def __init__(self, cov: PretrainedCovariance, form: str, store: str, folder: Path) -> None:
        from skopt import Optimizer
        from skopt.space import Real

        from mkbo_plugins.skopt import pretrained_regressor

        dimensions = [Real(0.0, 1.0, name=name) for name in NAMES]
        regressor = "GP" if form == "stock" else pretrained_regressor(cov, dimensions, form=form)
        settings = {"n_points": 200, "n_restarts_optimizer": 1}
        self.path = folder / "optimiser.pkl"
        self.optimizer = Optimizer(
            dimensions, regressor, n_initial_points=STARTS, random_state=0, acq_optimizer_kwargs=settings
        )

    def step(self) -> list[float]:
        """Try one more point, and return it."""
        x = self.optimizer.ask()
        self.optimizer.tell(x, objective(*x))
        return list(map(float, x))

    def reload(self) -> None:
        """Dump and load the optimiser."""
        import skopt

        skopt.dump(self.optimizer, self.path)
        self.optimizer = skopt.load(self.path)


HOSTS = {"ax": AxCampaign, "botorch": BotorchCampaign, "skopt": SkoptCampaign}


def main(steps: int, host: str, form: str, store: str = "") -> None:
    """Run a campaign and print how it went."""
    cov = covariance()
    with tempfile.TemporaryDirectory() as folder:
        campaign = HOSTS[host](cov, form, store, Path(folder))
        points, took = [], []
        for i in range(steps):
            start = time.process_time()
            points.append(campaign.step())
            took.append(time.process_time() - start)
            if store:
                campaign.reload()
            if (i + 1) % 10 == 0:
                size = campaign.path.stat().st_size // 1024 if store else 0
                last = statistics.median(took[-10:])
                print(f"{i + 1} steps: {_megabytes():.0f} MB, {last:.2f} s a step, file {size} kB", flush=True)
        best = np.minimum.accumulate([objective(*point) for point in points])
        print(f"best after 20, 50 and all steps: {[float(best[min(at, steps) - 1]) for at in (20, 50, steps)]}")
        print("points", points)


def _megabytes() -> float:
    """Return the memory held now, and not the most that was."""
    import resource

    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]), *sys.argv[2:])
