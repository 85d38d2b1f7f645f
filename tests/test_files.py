"""Files that are written as a whole, and what a killed process leaves behind."""

import errno
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from mkbo_plugins.files import STALE, write_atomically, write_new


def _leave(path, age):
    path.write_bytes(b"half")
    os.utime(path, (time.time() - age,) * 2)


@pytest.mark.parametrize("name", ["next.csv", "[a]*.csv", "\u00e4" * 120])
def test_what_a_killed_process_left_is_removed_by_the_next_write_of_that_name(tmp_path, name):
    mine = tmp_path / f".{name[:50]}.abc.mkbo.tmp"
    _leave(mine, 2 * STALE)
    others = [(f".{name[:50]}.xyz.mkbo.tmp", STALE / 2), (".other.csv.abc.mkbo.tmp", 2 * STALE)]
    for other, age in others:
        _leave(tmp_path / other, age)
    write_atomically(tmp_path / name, b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {name, *(other for other, _ in others)}
    assert (tmp_path / name).read_bytes() == b"whole"


def test_a_failed_write_leaves_nothing(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "folder", b"data")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_the_file_it_names_is_replaced(there, tmp_path):
    folder, link, middle = tmp_path / "folder", tmp_path / "link", tmp_path / "middle"
    folder.mkdir()
    if there:
        (folder / "file").write_bytes(b"old")
    middle.symlink_to(folder / "file")
    link.symlink_to("middle")
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert middle.is_symlink()
    assert (folder / "file").read_bytes() == link.read_bytes() == b"new"
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "link", "middle"}
    assert [path.name for path in folder.iterdir()] == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o755])
def test_a_file_that_is_replaced_keeps_its_permissions(mode, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(mode)
    write_atomically(file, b"new")
    assert (stat.S_IMODE(file.stat().st_mode), file.read_bytes()) == (mode, b"new")


def test_what_is_no_file_is_refused_and_named(tmp_path):
    pipe, loop, device = tmp_path / "pipe", tmp_path / "loop", tmp_path / "device"
    os.mkfifo(pipe)
    loop.symlink_to("loop")
    device.symlink_to(os.devnull)
    refused = {pipe: errno.EINVAL, device: errno.EINVAL, loop: errno.ELOOP, tmp_path / ("x" * 300): errno.ENAMETOOLONG}
    for path, number in refused.items():
        with pytest.raises(OSError, match=str(path)) as caught:
            write_atomically(path, b"data")
        assert (caught.value.errno, caught.value.filename) == (number, str(path))
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["device", "loop", "pipe"]


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_is_there_as_a_whole_and_replaces_none(links, tmp_path, monkeypatch):
    if not links:
        monkeypatch.setattr(os, "link", lambda *paths: os.open(tmp_path / "nowhere" / "file", os.O_RDONLY))
    write_new(tmp_path / "file", b"first")
    with pytest.raises(FileExistsError, match="file"):
        write_new(tmp_path / "file", b"second")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"first"


@pytest.mark.parametrize("write", ["write_atomically", "write_new"])
def test_a_process_killed_while_it_writes_leaves_nothing_under_the_name(write, tmp_path):
    program = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom mkbo_plugins import files\n"
        "files.os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"files.{write}(Path(sys.argv[1]), b'data')\n"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "file"], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "file").exists()
    assert len(list(tmp_path.glob(".file.*.mkbo.tmp"))) == 1
