"""Damaged and forged files are refused in words, or give finite values; ``tools/fuzz.py`` tries many more."""

import random

import pytest
from typer.testing import CliRunner

from mkbo_plugins.cli import app
from tests.fuzzing import (
    COMMANDS,
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
from tests.test_artefact import (
    KERNELS,
    build,
    build_campaigns,
    build_chain,
    build_combined,
    build_described,
    build_library,
)

WHOLE = [
    make().to_bytes() for make in (build, build_chain, build_combined, build_campaigns, build_library, build_described)
]
WHOLE += [build(kernel).to_bytes() for kernel in KERNELS[1:]]


@pytest.mark.parametrize("seed", range(10))
def test_mutated_artefacts(seed):
    rng = random.Random(seed)
    for _ in range(30):
        data = rng.choice(WHOLE)
        changed = mutated(data, rng)
        assert try_artefact(changed) == ("refused" if changed != data else "right")


@pytest.mark.parametrize("seed", range(10))
def test_resealed_artefacts(seed):
    rng = random.Random(seed)
    found = [try_artefact(resealed(rng.choice(WHOLE), rng)) for _ in range(8)]
    assert "refused" in found


@pytest.mark.parametrize("seed", range(4))
def test_checkpoints(seed, tmp_path):
    rng = random.Random(seed)
    found = [try_checkpoint(tmp_path / "grid.json", rng) for _ in range(20)]
    assert "refused" in found


@pytest.mark.parametrize("seed", range(2))
def test_workbooks(seed, tmp_path):
    rng = random.Random(seed)
    found = [try_workbook(tmp_path / "book.xlsx", rng) for _ in range(20)]
    assert "refused" in found


def test_arguments_of_any_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where a name given as a file is written
    calls, rng = public_calls(), random.Random(0)
    found = [try_arguments(calls, rng) for _ in range(100)]
    assert {"refused", "right"} == set(found)


def test_arguments_of_any_kind_in_hosts():
    for host in ("torch", "ax", "optuna", "skopt"):
        pytest.importorskip(host)
    calls, rng = host_calls(), random.Random(0)
    found = [try_arguments(calls, rng) for _ in range(100)]
    assert {"refused", "right"} == set(found)


def test_options_of_any_kind(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    for command in COMMANDS:
        assert CliRunner().invoke(app, command.split()).exit_code == (2 if "known.csv/" in command else 0), command
    rng = random.Random(0)
    found = [try_command(rng) for _ in range(40)]
    assert {"refused", "right"} == set(found)
