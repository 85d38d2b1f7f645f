"""Try many damaged and forged files, each within two seconds and 500 MB.

Example: python -m tools.fuzz 10000 500 1500 300 300 300 300 gives numbers of mutated artefacts, resealed ones,
checkpoints, workbooks, calls of public functions with arguments of all kinds, the same of the hosts' functions, and
commands with options of all kinds. One more number is the first seed, 0 if left out, for other cases than before.
"""

import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzzing import (
    host_calls,
    mutated,
    public_calls,
    resealed,
    try_arguments,
    try_artefact,
    try_checkpoint,
    try_command,
    try_workbook,
    write_inputs,
)
from tests.test_fuzzing import WHOLE

SECONDS, MEGABYTES = 2.0, 500


def main(
    mutations: int,
    forgeries: int,
    checkpoints: int,
    workbooks: int,
    arguments: int,
    hosts: int,
    commands: int,
    first: int = 0,
) -> None:
    """Try so many files of each kind, and print how they fared."""
    with tempfile.TemporaryDirectory() as folder:
        path, book = Path(folder) / "grid.json", Path(folder) / "damaged.xlsx"
        calls, of_hosts = public_calls(), host_calls()
        write_inputs(Path(folder))
        os.chdir(folder)
        kinds = {
            "mutated": (mutations, lambda rng: try_artefact(mutated(rng.choice(WHOLE), rng))),
            "resealed": (forgeries, lambda rng: try_artefact(resealed(rng.choice(WHOLE), rng))),
            "checkpoints": (checkpoints, lambda rng: try_checkpoint(path, rng)),
            "workbooks": (workbooks, lambda rng: try_workbook(book, rng)),
            "arguments": (arguments, lambda rng: try_arguments(calls, rng)),
            "hosts": (hosts, lambda rng: try_arguments(of_hosts, rng)),
            "commands": (commands, try_command),
        }
        for kind, (count, attempt) in kinds.items():
            found: Counter[str] = Counter()
            slowest = 0.0
            for seed in range(first, first + count):
                before, start = _megabytes(), time.process_time()
                try:
                    found[attempt(random.Random(f"{kind} {seed}"))] += 1
                except Exception as error:  # whatever it is, it is a finding
                    found["raw"] += 1
                    print(f"{kind} {seed}: {type(error).__name__}: {error!s:.300} {getattr(error, '__notes__', '')}")
                seconds, megabytes = time.process_time() - start, _megabytes() - before
                slowest = max(slowest, seconds)
                if seconds > SECONDS or megabytes > MEGABYTES:
                    found["costly"] += 1
                    print(f"{kind} {seed}: {seconds:.1f} s, {megabytes:.0f} MB")
            print(f"{kind}: {dict(found)}, slowest {slowest:.2f} s, {_megabytes():.0f} MB in all")


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
