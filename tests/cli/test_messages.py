"""What every command refuses before it begins."""

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
