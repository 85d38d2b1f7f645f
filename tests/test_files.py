"""Files that are written as a whole, and what a killed process leaves behind."""

import os
import time

import pytest

from mkbo_plugins.files import STALE, write_atomically


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
