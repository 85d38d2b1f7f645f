"""An interrupted experiment continues and loses nothing."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

pytest.importorskip("botorch")

from mkbo_plugins.errors import MkboError
from mkbo_plugins.experiments.campaign import Campaign
from mkbo_plugins.experiments.store import RunStore
from mkbo_plugins.files import STALE

PROGRAM = """
    import sys, time
    from functools import partial
    from pathlib import Path
    from mkbo_plugins.experiments.campaign import Campaign
    from mkbo_plugins.experiments.store import RunStore

    def job(i, log):
        time.sleep(0.3)
        with open(log, "a") as file:
            file.write(f"{i}\\n")
        return Campaign((i,), (i / 3,))

    folder = Path(sys.argv[1])
    jobs = {("model", i): partial(job, i, folder / "log.txt") for i in range(8)}
    for (_, i), campaign in RunStore(folder / "runs").complete(jobs, n_jobs=1).items():
        assert campaign == Campaign((i,), (i / 3,))
"""


def test_killed_and_restarted_it_repeats_at_most_the_run_it_was_in(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, str(program), str(tmp_path)]
    process = subprocess.Popen(command)
    log = tmp_path / "log.txt"
    while process.poll() is None and (not log.exists() or len(log.read_text().split()) < 3):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finished = len(list((tmp_path / "runs").glob("*.json")))
    assert 2 <= finished < 8
    subprocess.run(command, check=True)
    runs = log.read_text().split()
    assert sorted(set(runs)) == [str(i) for i in range(8)]
    assert len(runs) <= 9


TERMINATED = """
    import os, sys, time
    from functools import partial
    from pathlib import Path
    from mkbo_plugins.experiments.store import RunStore
    from mkbo_plugins.messages.commands import plain_errors

    def job(folder):
        (folder / str(os.getpid())).touch()
        time.sleep(600)

    folder = Path(sys.argv[1])
    with plain_errors():
        RunStore(folder / "runs").complete({(i,): partial(job, folder) for i in range(4)}, n_jobs=2)
"""


def test_workers_end_with_a_terminated_command(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(TERMINATED))
    process = subprocess.Popen([sys.executable, str(program), str(tmp_path)], stderr=subprocess.PIPE, text=True)
    while process.poll() is None and len(workers := [int(p.name) for p in tmp_path.iterdir() if p.name.isdigit()]) < 2:
        time.sleep(0.02)
    process.terminate()
    assert (process.communicate(timeout=60)[1], process.returncode) == ("stopped\n", 130)
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_what_a_killed_run_left_unfinished_is_removed_by_a_later_one(tmp_path):
    old, new = tmp_path / ".a_1.json.abc.mkbo.tmp", tmp_path / ".a_2.json.abc.mkbo.tmp"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * STALE,) * 2)
    RunStore(tmp_path)
    assert list(tmp_path.iterdir()) == [new]


def test_a_damaged_run_is_named(tmp_path):
    store = RunStore(tmp_path)
    (tmp_path / "a_1.json").write_text('{"indices": [1')
    with pytest.raises(MkboError, match=r"a_1\.json is damaged.*delete it"):
        store.get(("a", 1))


def test_stored_values_survive_exactly(tmp_path):
    campaign = Campaign((3, 1), (0.1 + 0.2, 1e-300))
    store = RunStore(tmp_path / "runs")
    store.put(("a", 1), campaign)
    assert RunStore(tmp_path / "runs").get(("a", 1)) == campaign
    assert store.get(("a", 2)) is None


def test_names_of_a_table_are_no_paths(tmp_path):
    store = RunStore(tmp_path / "runs")
    store.put(("../../set", 1), Campaign((0,), (1.0,)))
    assert [path.name for path in store.folder.iterdir()] == ["..%2F..%2Fset_1.json"]
    assert store.get(("../../set", 1)) == Campaign((0,), (1.0,))
