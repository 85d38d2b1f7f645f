"""Interrupt commands that write at random moments: what is there afterwards is the old file or the new one.

Example: python tools/kill_commands.py 20
"""

import hashlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
MKBO = (sys.executable, "-m", "mkbo_plugins.cli")


def main(rounds: int) -> None:
    """Interrupt each command so many times, and print what was found."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng = np.random.default_rng(0)
        table = pd.DataFrame(rng.random((16, 2)), columns=["a", "b"]).assign(y=lambda t: t["a"] + t["b"] ** 2)
        table.to_csv(folder / "new.csv", index=False)
        table.assign(y=-table["y"]).to_csv(folder / "old.csv", index=False)
        commands = {
            "pretrain": ("c.mkbo.json", lambda which: _pretrain(which, "c.mkbo.json")),
            "suggest": ("next.csv", _suggest),
            "show": ("c.png", lambda which: ("show", f"{which}.mkbo.json", "--plot", "c.png")),
        }
        for which in ("old", "new"):
            _run(folder, _pretrain(which, f"{which}.mkbo.json"))
        for command, (out, arguments) in commands.items():
            _try(folder, command, out, {which: arguments(which) for which in ("old", "new")}, rounds)


def _pretrain(which: str, out: str) -> tuple[str, ...]:
    return "pretrain", f"{which}.csv", "--target", "y", "--trainer", "gp", "--out", out


def _suggest(which: str) -> tuple[str, ...]:
    return "suggest", "--covariance", f"{which}.mkbo.json", "--direction", "same", "-n", "2", "--out", "next.csv"


def _run(folder: Path, arguments: tuple[str, ...]) -> float:
    start = time.monotonic()
    subprocess.run([*MKBO, *arguments], cwd=folder, check=True, capture_output=True)
    return time.monotonic() - start


def _try(folder: Path, command: str, out: str, arguments: dict[str, tuple[str, ...]], rounds: int) -> None:
    contents, took = {}, 0.0
    for which in ("new", "old"):
        took = _run(folder, arguments[which])
        contents[_digest(folder / out)] = which
    old, found, codes = (folder / out).read_bytes(), [], []
    draws = random.Random(command)
    for i in range(rounds):
        (folder / out).write_bytes(old)
        process = subprocess.Popen(
            [*MKBO, *arguments["new"]], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        time.sleep(draws.uniform(0.3, 1.05) * took)
        process.send_signal(SIGNALS[i % len(SIGNALS)])
        words = process.communicate()[1].decode()
        codes.append(process.returncode)
        found.append(contents.get(_digest(folder / out), "ANOTHER"))
        if "Traceback" in words:
            print(f"{command}: traceback after {SIGNALS[i % len(SIGNALS)].name}: {words[-300:]}")
    print(f"{command}: { ({kind: found.count(kind) for kind in sorted(set(found))}) }, exit codes {sorted(set(codes))}")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main(int(sys.argv[1]))
