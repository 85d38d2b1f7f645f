"""Code blocks of documents, and the table they speak of."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from mkbo_plugins import ParameterSpace

ROOT = Path(__file__).resolve().parents[1]


def blocks(document: Path, language: str) -> list[str]:
    """Return the code blocks of a document in one language."""
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(encoding="utf-8"), flags=re.DOTALL)


def commands(document: Path) -> list[list[str]]:
    """Return the arguments of every `mkbo` command of a document."""
    lines = [line for block in blocks(document, "sh") for line in block.replace("\\\n", " ").splitlines()]
    return [line.split()[1:] for line in lines if line.startswith("mkbo ")]


def measured() -> dict[str, Callable]:
    """Return the reader's own experiments, by the names that pages give them."""
    import torch

    return {
        "experiment": lambda points: torch.sin(points[:, :1] / 1500),
        "measure": lambda parameters: float(np.sin(parameters["power"] / 1500)),
        "crystallinity": lambda power, time, passes, gas: float(np.sin(power / 1500)),
        "loss": lambda point: -float(np.sin(point[0] / 1500)),
    }


def write_older_device(folder: Path) -> None:
    """Write the table that stands for the reader's own."""
    space = ParameterSpace.from_dict(
        {"power_mW": (100, 5500), "time_ms": (500, 20000, "log"), "passes": (1, 6, "int"), "gas": ["Argon", "Air"]}
    )
    table = pd.DataFrame(space.from_raw(space.sobol(20)))
    table["G_D_ratio"] = np.sin(table["power_mW"] / 1500) + np.log10(table["time_ms"]) + (table["gas"] == "Air")
    table.to_csv(folder / "older_device.csv", index=False)


def write_done(folder: Path) -> None:
    """Write what the new experiment has given so far."""
    table = pd.read_csv(folder / "older_device.csv").head(5).rename(columns={"G_D_ratio": "crystallinity"})
    table.to_csv(folder / "done.csv", index=False)


def write_runs(folder: Path) -> None:
    """Write the reader's earlier campaigns, each with its own place of the best accuracy, and a new one."""
    space = ParameterSpace.from_dict(
        {"power_mW": (100, 5500), "time_ms": (500, 20000, "log"), "passes": (1, 6, "int"), "gas": ["Argon", "Air"]}
    )
    parts = []
    for number in range(4):
        table = pd.DataFrame(space.from_raw(space.sobol(20, seed=number)))
        table["accuracy"] = number + np.sin(table["power_mW"] / 1500 + 0.3 * number) + (table["gas"] == "Air")
        parts.append(table.assign(study=f"study {number}"))
    pd.concat(parts[:3]).to_csv(folder / "runs.csv", index=False)
    parts[3].drop(columns="study").to_csv(folder / "new_runs.csv", index=False)


def write_handbook(folder: Path) -> None:
    """Write another table of the reader's, which shares one parameter with the first."""
    space = ParameterSpace.from_dict({"pulse_ns": (10, 200), "power_mW": (100, 5500)})
    table = pd.DataFrame(space.from_raw(space.sobol(12)))
    table["roughness_um"] = table["power_mW"] / 1000 - np.log(table["pulse_ns"])
    table.to_csv(folder / "handbook.csv", index=False)


def own_warnings(text: str) -> list[str]:
    """Return the lines of an output that are warnings, other than those of installed packages."""
    return [line for line in text.splitlines() if "Warning" in line and "site-packages" not in line]
