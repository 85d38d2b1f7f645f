"""Interrupt commands that write at random moments: what is there afterwards is the old file or the new one.

Each command runs in a process of its own, forked from this one, so that the time of imports is not among the moments.
Folders of results are interrupted until the same command ends; they then hold what an uninterrupted one wrote.

Example: python tools/kill_commands.py 20
"""

import hashlib
import importlib
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd

from mkbo_plugins.cli import app
from mkbo_plugins.experiments.published.salinas import FAMILIES, PUBLISHED
from mkbo_plugins.files import SUFFIX

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
IMPORTED = ("botorch.fit", "matplotlib.pyplot", "openpyxl", "sklearn.svm", "mkbo_plugins.experiments.benchmark.runner")


def main(rounds: int) -> None:
    """Interrupt each command so many times, and print what was found."""
    for name in IMPORTED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        rng = np.random.default_rng(0)
        table = pd.DataFrame(rng.random((16, 2)), columns=["a", "b"]).assign(y=lambda t: t["a"] + t["b"] ** 2)
        table.to_csv("new.csv", index=False)
        table.assign(y=-table["y"]).to_csv("old.csv", index=False)
        for which in ("old", "new"):
            _finish(_pretrain(which, f"{which}.mkbo.json"))
        runs = pd.concat([table.assign(run=run, y=table["y"] + table["b"] * run) for run in range(3)])
        runs.to_csv("new_runs.csv", index=False)
        runs.assign(y=-runs["y"]).to_csv("old_runs.csv", index=False)
        sheet = "suggest --covariance {}.mkbo.json --direction same -n 2 --out next."
        learned = "pretrain {}_runs.csv --target y --by run --trainer gp --jobs 1 --out runs.mkbo.json"
        commands = {
            "c.mkbo.json": " ".join(_pretrain("{}", "c.mkbo.json")),
            "next.csv": f"{sheet}csv",
            "next.xlsx": f"{sheet}xlsx",
            "c.png": "show {}.mkbo.json --plot c.png",
            "c.html": "report {}.mkbo.json --out c.html",
            "runs.mkbo.json": learned,
        }
        for out, command in commands.items():
            _replaced(out, command.format("old"), command.format("new"), rounds)
        learned = learned.format("new")
        _replaced("runs.mkbo.json", learned, "add runs.mkbo.json new.csv --name new --jobs 1", rounds)
        _replaced("runs.mkbo.json", learned, "drop runs.mkbo.json --name 1 --jobs 1", rounds)
        _new("space.toml", "check new.csv --target y --write-space space.toml", rounds)
        grid = "pretrain new.csv --target y --jobs 1 --resume grid.json --out resumed.mkbo.json"
        _goes_on("resumed", grid, ["grid.json", "resumed.mkbo.json"], rounds)
        problem = "--problem branin --model stock --model transfer"
        _goes_on("bench", f"benchmark --out bench {problem} --seeds 2 --trials 3 --jobs 1", ["bench"], rounds)
        _write_salinas(rng)
        salinas = "benchmark --published salinas --problem nas102 --data . --out published"
        _goes_on("published", f"{salinas} --seeds 1 --trials 4 --jobs 1", ["published"], rounds)
        _goes_on("paper", "benchmark --paper --out paper --seeds 1 --trials 2 --jobs 1", ["paper"], rounds)
        _goes_on("demo", "demo --out demo --seeds 1 --trials 2", ["demo"], rounds)


def _pretrain(which: str, out: str) -> tuple[str, ...]:
    return "pretrain", f"{which}.csv", "--target", "y", "--trainer", "gp", "--out", out


def _write_salinas(rng: np.random.Generator) -> None:
    """Write three tasks of a public benchmark, and what one method found in them."""
    table = pd.DataFrame(rng.integers(0, 3, (30, 2)), columns=["hp_x0", "hp_x1"])
    tasks = [table.assign(task=name, metric_error=(table["hp_x0"] - 1) ** 2 + rng.random(30)) for name in "abc"]
    pd.concat(tasks).to_csv(FAMILIES["nas102"].file, index=False)
    best = {"blackbox": "nas_bench102", "optimizer": "theirs", "iteration": range(30), "best": np.linspace(2, 1, 30)}
    results = [pd.DataFrame(best).assign(task=name, seed=seed) for name in "abc" for seed in range(2)]
    pd.concat(results).to_csv(PUBLISHED, index=False)


def _start(arguments: tuple[str, ...]) -> int:
    """Start a command in the background, what it prints in a file ``words``."""
    process = os.fork()
    if process:
        return process
    os.setsid()
    words = os.open("words", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(words, 1)
    os.dup2(words, 2)
    try:
        app(arguments)
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)
    os._exit(1)


def _finish(arguments: tuple[str, ...]) -> float:
    start = time.monotonic()
    code = os.waitstatus_to_exitcode(os.waitpid(_start(arguments), 0)[1])
    if code:
        raise RuntimeError(f"{arguments}: {code}, {Path('words').read_text()[-500:]}")
    return time.monotonic() - start


def _interrupt(arguments: tuple[str, ...], after: float, sent: signal.Signals) -> int:
    """Start a command, send it a signal, Ctrl-C to all its processes, and return its exit code."""
    process = _start(arguments)
    time.sleep(after)
    with suppress(ProcessLookupError):  # so early that it has no group of its own yet
        (os.killpg if sent is signal.SIGINT else os.kill)(process, sent)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    words = Path("words").read_text()
    if "Traceback" in words:
        print(f"{arguments}: traceback after {sent.name}: {words[-300:]}")
    return code


def _report(name: str, found: list[str], codes: list[int]) -> None:
    print(f"{name}: {dict(Counter(found))}, exit codes {dict(Counter(codes))}", flush=True)


def _replaced(out: str, before: str, command: str, rounds: int) -> None:
    """Interrupt a command that replaces the file of another one, which it may read."""
    path, arguments = Path(out), tuple(command.split())
    _finish(tuple(before.split()))
    old = path.read_bytes()
    contents = {_digest(path): "old"}
    took = _finish(arguments)
    contents[_digest(path)] = "new"
    found, codes, draws = [], [], random.Random(command)
    for i in range(rounds):
        path.write_bytes(old)
        codes.append(_interrupt(arguments, draws.uniform(0, 1.05) * took, SIGNALS[i % 3]))
        found.append(contents.get(_digest(path), "ANOTHER"))
    _report(f"{arguments[0]} {out}", found, codes)


def _new(out: str, command: str, rounds: int) -> None:
    """Interrupt a command that writes a file only where there is none; the same command then does."""
    arguments, path = tuple(command.split()), Path(out)
    took = _finish(arguments)
    whole, found, codes, draws = _digest(path), [], [], random.Random(out)
    for i in range(rounds):
        path.unlink(missing_ok=True)
        codes.append(_interrupt(arguments, draws.uniform(0, 1.05) * took, SIGNALS[i % 3]))
        if not path.exists():
            _finish(arguments)
            found.append("none")
        else:
            found.append("new" if _digest(path) == whole else "ANOTHER")
    _report(out, found, codes)


def _goes_on(name: str, command: str, outs: list[str], rounds: int) -> None:
    """Interrupt a command that keeps what is done, again and again until it ends."""
    arguments = tuple(command.split())
    took = _finish(arguments)
    whole = _whole(outs)
    found, codes, draws = [], [], random.Random(name)
    for i in range(rounds):
        if not codes or codes[-1] == 0:
            os.system(f"rm -rf {' '.join(outs)}")
        codes.append(_interrupt(arguments, draws.uniform(0, 0.6) * took, SIGNALS[i % 3]))
        if codes[-1] == 0 or i == rounds - 1:
            _finish(arguments)
            differ = [path for path, digest in _whole(outs).items() if whole.get(path) != digest]
            found.append(f"DIFFERS {differ}" if differ or _whole(outs).keys() != whole.keys() else "same")
        else:
            found.append("stopped")
    _report(name, found, codes)


def _whole(outs: list[str]) -> dict[str, str]:
    """Return digests of all files by name, but for unfinished ones, which a later write removes.

    Reports, which tell of times, are left out.
    """
    paths = [path for out in outs for path in ([Path(out)] if Path(out).is_file() else Path(out).rglob("*"))]
    kept = [path for path in paths if path.is_file() and not path.name.endswith((SUFFIX, "report.md"))]
    return {str(path): _digest(path) for path in kept}


def _digest(path: Path) -> str:
    """Return a hash of a file without the times it tells, of a workbook of its cells: it says when it was written."""
    data = path.read_bytes() if path.suffix != ".xlsx" else pd.read_excel(path).to_csv().encode()
    if path.suffix == ".json":
        data = re.sub(rb'"seconds": \[[^]]*\]', b"", data)
    if path.suffix == ".csv":
        data = pd.read_csv(path, dtype=str).drop(columns="seconds", errors="ignore").to_csv().encode()
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    main(int(sys.argv[1]))
