"""What every command refuses before it begins."""

import os
from pathlib import Path

import pytest

from mkbo_plugins.cli.messages import check_writable
from mkbo_plugins.errors import ArtefactError
from mkbo_plugins.messages.commands import in_options

SUGGEST = ("suggest", "--covariance", "a.mkbo.json", "--done", "done.csv")
PRETRAIN = ("pretrain", "table.csv", "--target", "strength", "--space", "space.toml")


@pytest.mark.parametrize(
    "arguments",
    [
        (*SUGGEST, "--out", "done.csv"),
        (*SUGGEST, "--out", "./sub/../done.csv"),
        (*SUGGEST, "--out", "link.csv"),
        (*SUGGEST, "--out", "a.mkbo.json"),
        (*SUGGEST, "--space", "space.toml", "--out", "space.toml"),
        (*SUGGEST, "--candidates", "table.csv", "--out", "table.csv"),
        (*PRETRAIN, "--out", "table.csv"),
        (*PRETRAIN, "--out", "space.toml"),
        (*PRETRAIN, "--resume", "table.csv"),
        (*PRETRAIN, "--resume", "space.toml"),
        (*PRETRAIN, "--resume", "new.json", "--out", "new.json"),
        ("pretrain", "book.xlsx::Runs", "--target", "strength", "--out", "book.xlsx"),
        ("show", "a.mkbo.json", "--plot", "a.mkbo.json"),
    ],
)
def test_no_command_writes_over_what_it_reads(run, folder, arguments):
    (folder / "sub").mkdir()
    (folder / "link.csv").symlink_to("done.csv")
    (folder / "book.xlsx").write_bytes(b"")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    result = run(*arguments)
    assert result.exit_code == 2
    assert "the command reads it as well" in result.output
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_a_file_beside_the_inputs_can_be_written(folder):
    check_writable(folder / "next.csv", [folder / "done.csv", None])
    with pytest.raises(ArtefactError, match="folder"):
        check_writable(folder / "absent" / "next.csv", [folder / "done.csv"])


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("leave them out with missing='drop' (--drop-missing)", "leave them out with --drop-missing"),
        ("keep them together with groups= (--groups), or else", "keep them together with --groups, or else"),
        ("two (or more) columns (first, last)", "two (or more) columns (first, last)"),
    ],
)
def test_options_are_named_instead_of_arguments(message, shown):
    assert in_options(message) == shown


SHOW = ("show", "a.mkbo.json", "--plot")
WRITING = {
    "pretrain": (*PRETRAIN, "--trainer", "gp", "--out"),
    "resume": (*PRETRAIN, "--out", "new.mkbo.json", "--resume"),
    "suggest": (*SUGGEST, "--out"),
    "check": ("check", "table.csv", "--target", "strength", "--write-space"),
    "plot": SHOW,
    "demo": ("demo", "--out"),
    "benchmark": ("benchmark", "--smoke", "--out"),
}


@pytest.mark.parametrize("command", WRITING)
@pytest.mark.parametrize("name", ["loop", "x" * 300 + ".png", "loop/a.png", "/dev/full", "device", "pipe"])
def test_what_cannot_be_written_is_a_sentence_that_names_it(run, folder, command, name):
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "device").symlink_to(os.devnull)
    before = sorted(folder.iterdir())
    result = run(*WRITING[command], name)
    assert result.exit_code == 2, result.output
    assert name in result.output
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)
    assert sorted(folder.iterdir()) == before


def test_a_full_disk_is_a_sentence(run, folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    pytest.importorskip("matplotlib")
    before = sorted(folder.iterdir())
    monkeypatch.setattr(os, "fsync", full)
    for command in ("pretrain", "resume", "plot"):
        result = run(*WRITING[command], "a.png")
        assert result.exit_code == 2
        assert "a.png" in result.output
        assert "No space left on device" in result.output
        assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(("command", "name"), [("pretrain", "thesis.tex"), ("plot", "thesis.png")])
def test_a_file_of_another_kind_is_not_replaced(run, folder, command, name):
    pytest.importorskip("matplotlib")
    Path(name).write_text("years of work")
    result = run(*WRITING[command], name)
    assert result.exit_code == 2
    assert f"{name} exists" in result.output or f"{name}: it exists" in result.output
    assert "name another file, or delete it" in result.output
    assert Path(name).read_text() == "years of work"


@pytest.mark.parametrize(("command", "name"), [("pretrain", "new.mkbo.json"), ("plot", "a.svg")])
def test_a_file_of_its_own_and_an_empty_one_are_replaced(run, folder, command, name):
    pytest.importorskip("matplotlib")
    Path(name).touch(0o600)
    for _ in range(2):
        result = run(*WRITING[command], name)
        assert result.exit_code == 0, result.output
        assert Path(name).stat().st_size
        assert Path(name).stat().st_mode & 0o777 == 0o600
