"""Tables of ten kinds, written as their owners have them, from `mkbo check` to a suggestion in three commands."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

START = pd.Timestamp("2025-03-01 10:00")


class Real(NamedTuple):
    """A file, its target, what is really set in it, and what an owner has to say."""

    write: Callable[[Path], None]
    target: str
    settings: list[str]
    answers: list[str]
    asked: list[str]


def _rng():
    return np.random.default_rng(5)


def _csv(build):
    return lambda path: build(_rng()).to_csv(path, index=False)


def recipe(rng, n=24):
    parts = np.round(rng.dirichlet([4, 2, 1.5, 6], n) * 100, 1)
    parts[:, 3] = np.round(100 - parts[:, :3].sum(axis=1), 1)
    table = pd.DataFrame(parts, columns=["Cement (%)", "Water (%)", "Ash (%)", "Sand (%)"])
    table.insert(0, "Mix ID", [f"M-{i:03d}" for i in range(n)])
    table["Age (d)"] = rng.choice([3, 7, 28], n)
    table["Strength (MPa)"] = np.round(20 + 0.8 * parts[:, 0] + 3 * np.log(table["Age (d)"]), 1)
    return table.assign(**{"Slump (mm)": np.round(30 + 4 * parts[:, 1] + rng.normal(0, 5, n)).astype(int)})


def plate(rng):
    wells = pd.DataFrame({"Row": np.repeat(list("ABCDEFGH"), 12), "Column": [*range(1, 13)] * 8})
    i, j = np.repeat(np.arange(8), 12), np.tile(np.arange(12), 8)
    wells.insert(0, "Well", wells["Row"] + wells["Column"].astype(str).str.zfill(2))
    wells["Ligand"] = np.array(["XPhos", "SPhos", "dppf", "PPh3"])[i // 2]
    wells["Base"] = np.array(["K2CO3", "Cs2CO3"])[i % 2]
    wells["Loading (mol%)"] = np.array([0.5, 1, 2, 5])[j % 4]
    wells["T (C)"] = np.array([60, 80, 100])[j // 4]
    area = np.round(20 + 5 * (i // 2) + 8 * (i % 2) + 0.3 * wells["T (C)"] + rng.normal(0, 2, 96), 2)
    return wells.assign(Plate="P001", **{"Area% product": area, "Area% SM": 98 - area})


def _tuning(rng, n):
    runs = pd.DataFrame(
        {"batch_size": rng.choice([16, 32, 64, 128], n), "dropout": np.round(rng.uniform(0, 0.5, n), 3)}
    )
    runs["lr"], runs["layers"] = 10 ** rng.uniform(-3, -1, n), rng.integers(1, 5, n)
    runs["optimizer"] = rng.choice(["adam", "sgd"], n)
    return runs, 0.9 - 0.02 * (np.log10(runs["lr"]) + 2) ** 2 + 0.01 * runs["layers"] - 0.05 * runs["dropout"]


def optuna(rng, n=24):
    runs, value = _tuning(rng, n)
    begin = START + pd.to_timedelta(7 * np.arange(n), "min")
    took = pd.to_timedelta(rng.uniform(60, 400, n), "s")
    table = pd.DataFrame({"number": range(n), "value": value, "datetime_start": begin})
    table = table.assign(datetime_complete=begin + took, duration=took).join(runs.add_prefix("params_"))
    table["user_attrs_seed"] = rng.integers(0, 10**6, n)
    table["system_attrs_rung"] = np.where(rng.random(n) < 0.4, value - 0.1, np.nan)
    table["state"] = "COMPLETE"
    table.loc[[4, 9], "state"] = ["PRUNED", "FAIL"]
    table.loc[9, "value"] = np.nan
    return table


def ax(rng, n=24):
    runs, value = _tuning(rng, n)
    table = pd.DataFrame({"trial_index": range(n), "arm_name": [f"{i}_0" for i in range(n)]})
    table["trial_status"] = ["COMPLETED"] * (n - 2) + ["FAILED", "RUNNING"]
    table["generation_node"] = ["CenterOfSearchSpace", *["Sobol"] * 5, *["MBM"] * (n - 6)]
    table = table.assign(acc=value, latency=5 + rng.random(n)).join(runs)
    table.loc[[n - 2, n - 1], ["acc", "latency"]] = np.nan
    return table


def wandb(rng, n=24):
    runs, value = _tuning(rng, n)
    table = pd.DataFrame(
        {"Name": [f"misty-sweep-{i}" for i in range(n)], "State": ["finished"] * (n - 1) + ["crashed"]}
    )
    table = table.assign(Notes="-", User="anna", Tags="", Runtime=rng.integers(300, 4000, n), Sweep="qx7f2a")
    table["Created"] = [f"{START + pd.Timedelta(hours=i):%Y-%m-%dT%H:%M:%S.000Z}" for i in range(n)]
    table = table.join(runs).assign(seed=rng.integers(0, 1000, n), _step=rng.integers(900, 1000, n))
    table = table.assign(_timestamp=1.7e9 + 3600.0 * np.arange(n), val_loss=1 - value, val_acc=value)
    table.loc[n - 1, ["val_loss", "val_acc"]] = np.nan
    return table


def european(path, n=20):
    rng = _rng()
    T, p = np.round(rng.uniform(20, 90, n), 1), np.round(rng.uniform(1, 5, n), 2)
    table = pd.DataFrame({"Versuch": [f"V{i}" for i in range(n)], "Datum": [f"{i + 1:02d}.03.2025" for i in range(n)]})
    table = table.assign(**{"Temperatur, °C": T, "Druck, bar": p, "Katalysator": rng.choice(["Pd/C", "Ni"], n)})
    table["Ausbeute, %"] = np.round(20 + 0.6 * T + 4 * p, 1)
    table["Bemerkung"] = ["trüb", *[""] * (n - 1)]
    table.to_csv(path, index=False, sep=";", decimal=",", encoding="utf-8-sig")


def process(rng, n=20):
    begin = [START + pd.Timedelta(hours=9 * i) for i in range(n)]
    table = pd.DataFrame({"Date": [f"{t:%m/%d/%Y}" for t in begin], "Start": [f"{t:%H:%M}" for t in begin]})
    table["Batch No."] = [f"B24-{117 + i}" for i in range(n)]
    table["Operator"] = rng.choice(["JS", "KL", "MT"], n)
    table["Feed (L/h)"], table["Jacket (C)"] = np.round(rng.uniform(5, 15, n), 1), rng.choice([40, 60, 80], n)
    table["Purity (%)"] = np.round(90 + 0.05 * table["Jacket (C)"] - 0.2 * table["Feed (L/h)"], 2)
    return table.assign(Comment=["", "pump stopped", "", "ok", *[""] * (n - 4)])


def replicates(rng):
    flow, conc = (np.repeat(values, 3) for values in ([10, 20, 30, 40] * 3, [0.1] * 4 + [0.2] * 4 + [0.5] * 4))
    table = pd.DataFrame({"Vial": [f"S{i // 3}" for i in range(36)], "Replicate": [1, 2, 3] * 12})
    table = table.assign(**{"Flow (uL/min)": flow, "Conc (M)": conc})
    table["Signal"] = np.round(5 + 0.4 * flow + 20 * conc + rng.normal(0, 1, 36), 2)
    return table.assign(Signal_sd=np.round(rng.uniform(0.8, 1.2, 36), 2))


def units(rng, n=20):
    T, time = rng.choice([25, 40, 60, 80], n), rng.choice([1, 2, 4, 16], n)
    table = pd.DataFrame({"entry": range(1, n + 1), "solvent": rng.choice(["DMF", "MeCN", "THF"], n)})
    table = table.assign(temp=[f"{value} °C" for value in T], time=[f"{value} h" for value in time])
    return table.assign(**{"yield": [f"{value}%" for value in np.round(30 + 0.5 * T + 0.8 * time).astype(int)]})


def two_headers(rng, n=20):
    T, p = rng.choice([100, 120, 140], n), np.round(rng.uniform(1, 20, n), 1)
    table = pd.DataFrame({"Temperature": T, "Pressure": p, "Bed": rng.choice(["A", "B"], n)})
    table = table.astype(object).assign(Conversion=np.round(0.3 * T + p, 1))
    return pd.concat([pd.DataFrame([["°C", "[bar]", "-", "(%)"]], columns=table.columns), table])


TUNED = ["batch_size", "dropout", "lr", "layers", "optimizer"]
NAMED = ["--parameters", ",".join(TUNED), "--drop-missing"]
TABLES = [
    Real(
        _csv(recipe),
        "Strength (MPa)",
        ["Cement (%)", "Water (%)", "Ash (%)", "Sand (%)", "Age (d)"],
        ["as told"],
        ["'Mix ID' seems to name rows", "columns ['Slump (mm)'] have many different values", "sum to 100 in every row"],
    ),
    Real(
        _csv(plate),
        "Area% product",
        ["Ligand", "Base", "Loading (mol%)", "T (C)"],
        ["as told"],
        ["'Well' seems to name rows", "['Row', 'Column'] seem, by their names", "columns ['Area% SM'] have many"],
    ),
    Real(
        _csv(optuna),
        "value",
        [f"params_{name}" for name in TUNED],
        [],
        [
            "2 trials are left out, not being COMPLETE: 1 PRUNED, 1 FAIL",
            "'system_attrs_rung', 'state'] are no parameters",
        ],
    ),
    Real(
        _csv(ax),
        "acc",
        TUNED,
        NAMED,
        ["2 trials are left out, not being COMPLETED: 1 FAILED, 1 RUNNING", "'generation_node'] are no parameters"],
    ),
    Real(
        _csv(wandb),
        "val_acc",
        TUNED,
        NAMED,
        [
            "'State' says how runs ended",
            "['seed', '_step', '_timestamp'] seem, by their names",
            "'Created' holds dates",
        ],
    ),
    Real(
        european,
        "Ausbeute, %",
        ["Temperatur, °C", "Druck, bar", "Katalysator"],
        ["as told"],
        ["'Versuch' seems to name rows", "'Datum' holds dates", "semicolons between columns and decimal commas"],
    ),
    Real(
        _csv(process),
        "Purity (%)",
        ["Feed (L/h)", "Jacket (C)"],
        ["--parameters", "Feed (L/h),Jacket (C)"],
        ["'Date' holds dates", "['Operator', 'Comment'] seem, by their names", "leave ['Comment'], mostly empty, out"],
    ),
    Real(
        _csv(replicates),
        "Signal",
        ["Flow (uL/min)", "Conc (M)"],
        ["--noise", "Signal_sd", "--ignore", "Vial", "--ignore", "Replicate"],
        [
            "'Signal_sd' seems to hold standard deviations",
            "'Vial' names settings",
            "['Replicate'] seem, by their names",
        ],
    ),
    Real(
        _csv(units),
        "yield",
        ["solvent", "temp", "time"],
        ["--ignore", "entry"],
        ["'entry' seems to name rows", "'%' behind every number"],
    ),
    Real(
        _csv(two_headers),
        "Conversion",
        ["Temperature", "Pressure", "Bed"],
        [],
        ["line 2 holds units of columns, °C, [bar], (%), and is left out"],
    ),
]


@pytest.mark.parametrize("real", TABLES, ids=lambda real: real.settings[0])
def test_three_commands_lead_to_experiments_that_can_be_made(run, tmp_path, monkeypatch, real):
    monkeypatch.chdir(tmp_path)
    real.write(tmp_path / "table.csv")
    checked = run("check", "table.csv", "--target", real.target)
    assert checked.exit_code in (0, 1), checked.output
    for words in real.asked:
        assert words in checked.output
    told = re.search(r"left out by (--parameters .*);", checked.output)
    answers = [*shlex.split(told[1]), *real.answers[1:]] if real.answers[:1] == ["as told"] else real.answers

    options = ("--trainer", "gp", "--out", "a.mkbo.json")
    trained = run("pretrain", "table.csv", "--target", real.target, *answers, *options)
    assert trained.exit_code == 0, trained.output

    suggested = run("suggest", "--covariance", "a.mkbo.json", "--direction", "same", "-n", "3", "--json")
    assert suggested.exit_code == 0, suggested.output
    points = [one["point"] for one in json.loads(suggested.stdout)["suggestions"]]
    taken = json.loads(run("check", "table.csv", "--target", real.target, *real_options(answers), "--json").stdout)
    assert list(taken["parameters"]) == real.settings
    for point in points:
        assert list(point) == real.settings
        for name, spec in taken["parameters"].items():
            if "levels" in spec:
                assert point[name] in spec["levels"]
            else:
                low, high = spec["bounds"]
                assert low <= point[name] <= high
                assert not spec["integer"] or point[name] == int(point[name])
    if real.settings[0] == "Cement (%)":
        assert all(abs(sum(list(point.values())[:4]) - 100) <= 1e-9 for point in points)


def real_options(answers):
    """Return the options of `mkbo pretrain` that `mkbo check` has, too."""
    return [answer for answer in answers if answer != "--drop-missing"]


def test_a_written_space_marks_what_was_asked_about(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trials = optuna(_rng()).drop(columns="state")
    trials.to_csv("trials.csv", index=False)
    run("check", "trials.csv", "--target", "value", "--write-space", "space.toml")
    asked = re.findall(r"# Is this a parameter\?.*\n\[(.*)\]", Path("space.toml").read_text())
    assert asked == [name for name in trials if name != "value" and not name.startswith("params_")]


def test_parts_of_a_mixture_in_a_written_space_are_offered_no_logarithm(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe(_rng()).to_csv("mixes.csv", index=False)
    run("check", "mixes.csv", "--target", "Strength (MPa)", "--write-space", "space.toml")
    sections = Path("space.toml").read_text().split("\n\n")
    offered = [section.splitlines()[0] for section in sections if "log = true" in section and section.startswith("[")]
    assert offered == ['["Age (d)"]']


@pytest.mark.parametrize("name", ["units.csv", "units.xlsx"])
def test_a_line_of_units_is_left_out_of_workbooks_too_and_data_never(run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    table = two_headers(_rng())
    write = {"units.csv": table.to_csv, "units.xlsx": table.to_excel}[name]
    write(name, index=False)
    noun = "line" if name.endswith("csv") else "row"
    assert f"{noun} 2 holds units of columns" in run("check", name, "--target", "Conversion").output
    words = pd.DataFrame({"medium": ["h", "s", "h", "s"] * 4, "x": np.arange(16) % 7, "y": np.arange(16.0)})
    words.to_csv("words.csv", index=False)
    assert "holds units" not in run("check", "words.csv", "--target", "y").output
