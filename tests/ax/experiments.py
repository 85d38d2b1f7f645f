"""Experiments of both clients in both stores, and the tables they learn from."""

import logging
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig, StorageConfig
from ax.service.ax_client import AxClient, ObjectiveProperties
from ax.utils.common.logger import set_ax_logger_levels
from botorch.test_functions import Hartmann

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from tests.conftest import MIXED_SPACE, mixed_table

NAMES = tuple(f"x{j}" for j in range(6))


def make_quiet() -> None:
    set_ax_logger_levels(logging.ERROR)


def pretrain_few(table: pd.DataFrame, target: str, space: ParameterSpace) -> PretrainedCovariance:
    """Return a covariance with few support vectors."""
    return pretrain(table, target=target, space=space, C=5.0, epsilon=0.3, sigma=2.0, progress=False)


@cache
def small_covariance() -> PretrainedCovariance:
    return pretrain_few(mixed_table(), "strength", ParameterSpace.from_dict(MIXED_SPACE))


def hartmann6(parameters: dict) -> float:
    """Return Hartmann's function with the digits that Ax's JSON keeps of data."""
    import torch

    return round(float(Hartmann(6)(torch.tensor([parameters[name] for name in NAMES], dtype=torch.double))), 6)


@cache
def hartmann_covariance() -> PretrainedCovariance:
    """Return a covariance of the function shifted by a tenth."""
    space = ParameterSpace.from_dict(dict.fromkeys(NAMES, (0.0, 1.0)))
    table = pd.DataFrame(space.from_raw(space.sobol(30)))
    shifted = np.clip(table.to_numpy() + 0.1, 0, 1)
    table["y"] = [hartmann6(dict(zip(NAMES, row, strict=True))) for row in shifted]
    return pretrain_few(table, "y", space)


def mixed_client(objective: str = "y", **kwargs) -> Client:
    """Return a client over the parameters of the mixed table, in another order and with one more.

    Layers are real here: Ax optimises candidates once for every value of a whole parameter, which takes long.
    """
    client = Client(random_seed=0)
    client.configure_experiment(
        [
            RangeParameterConfig("layers", (1.0, 6.0), parameter_type="float"),
            ChoiceParameterConfig("gas", ["Air", "Argon", "Nitrogen"], parameter_type="str", is_ordered=False),
            RangeParameterConfig("extra", (0.0, 1.0), parameter_type="float"),
            RangeParameterConfig("rate", (1e-4, 1e-2), parameter_type="float", scaling="log"),
            RangeParameterConfig("power", (100.0, 6000.0), parameter_type="float"),
        ],
        name="mixed",
    )
    client.configure_optimization(objective, **kwargs)
    return client


def mixed_points(n: int, seed: int = 0) -> list[dict]:
    """Return points of the search space of `mixed_client`."""
    space = ParameterSpace.from_dict(
        {
            "layers": (1, 6),
            "gas": ["Air", "Argon", "Nitrogen"],
            "extra": (0, 1),
            "rate": (1e-4, 1e-2, "log"),
            "power": (100, 6000),
        }
    )
    return space.from_raw(space.sobol(n, seed))


def predict(cov: PretrainedCovariance, points: list[dict]) -> np.ndarray:
    """Return what the table says of points of an experiment, at the nearest whole numbers of layers."""
    return cov.predict([{**point, "layers": round(point["layers"])} for point in points])


def strength(cov: PretrainedCovariance, point: dict) -> float:
    """Return a metric related to the table."""
    return round(2 * float(predict(cov, [point])[0]) + point.get("extra", 0.0), 6)


def add_trials(client: Client, points: list[dict], outcome) -> None:
    """Attach and complete trials at points; `outcome` gives a number, or numbers by metric."""
    for point in points:
        values = outcome(point)
        client.complete_trial(client.attach_trial(point), values if isinstance(values, dict) else {"y": values})


def _database(path: Path) -> str:
    from ax.storage.sqa_store.db import create_all_tables, get_engine, init_engine_and_session_factory

    init_engine_and_session_factory(url=f"sqlite:///{path}", force_init=True)
    create_all_tables(get_engine())
    return f"sqlite:///{path}"


class Campaign:
    """Hartmann's function through one of the clients."""

    def trial(self) -> list:
        """Make a trial, complete it, and return its index and point."""
        index, parameters = self.suggest()
        self.complete(index, hartmann6(parameters))
        return [index, parameters]


class ClientCampaign(Campaign):
    """Hartmann's function through `Client`."""

    def __init__(self, store: str, path: Path) -> None:
        self.path, self.config = path, StorageConfig(url=_database(path)) if store == "sqlite" else None

    def create(self) -> None:
        self.client = Client(storage_config=self.config)
        parameters = [RangeParameterConfig(name, (0.0, 1.0), parameter_type="float") for name in NAMES]
        self.client.configure_experiment(parameters, name="hartmann")
        self.client.configure_optimization("-y")

    def suggest(self) -> tuple[int, dict]:
        ((index, parameters),) = self.client.get_next_trials(1).items()
        return index, parameters

    def complete(self, index: int, value: float) -> None:
        self.client.complete_trial(index, {"y": value})

    def save(self) -> None:
        if self.config is None:
            self.client.save_to_json_file(str(self.path))

    def load(self) -> None:
        if self.config is None:
            self.client = Client.load_from_json_file(str(self.path))
        else:
            self.client = Client.load_from_database("hartmann", storage_config=self.config)

    @property
    def experiment(self):
        return self.client._experiment


class AxClientCampaign(Campaign):
    """Hartmann's function through `AxClient`."""

    def __init__(self, store: str, path: Path) -> None:
        from ax.storage.sqa_store.structs import DBSettings

        self.path, self.settings = path, DBSettings(url=_database(path)) if store == "sqlite" else None

    def create(self) -> None:
        self.client = AxClient(db_settings=self.settings, verbose_logging=False)
        parameters = [{"name": name, "type": "range", "bounds": [0.0, 1.0]} for name in NAMES]
        self.client.create_experiment(
            name="hartmann", parameters=parameters, objectives={"y": ObjectiveProperties(minimize=True)}
        )

    def suggest(self) -> tuple[int, dict]:
        parameters, index = self.client.get_next_trial()
        return index, parameters

    def complete(self, index: int, value: float) -> None:
        self.client.complete_trial(index, {"y": (value, None)})

    def save(self) -> None:
        if self.settings is None:
            self.client.save_to_json_file(str(self.path))

    def load(self) -> None:
        if self.settings is None:
            self.client = AxClient.load_from_json_file(str(self.path), verbose_logging=False)
        else:
            self.client = AxClient(db_settings=self.settings, verbose_logging=False)
            self.client.load_experiment_from_database("hartmann")

    @property
    def experiment(self):
        return self.client.experiment


CAMPAIGNS = {"Client": ClientCampaign, "AxClient": AxClientCampaign}
