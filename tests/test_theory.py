"""The page from the paper to the code names functions and tests that exist."""

import ast
import importlib
import re
from importlib.resources import files
from pathlib import Path

import pytest

PAGE = files("mkbo_plugins").joinpath("docs/theory.md").read_text(encoding="utf-8")
ROWS = re.findall(r"\| `(mkbo_plugins[\w.]+)` \| `(tests/[\w/.]+)::(\w+)` \|$", PAGE, flags=re.MULTILINE)


def test_every_row_is_read():
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    headings = sum(set(line) <= set("|-") for line in rows)
    assert len(ROWS) == len(rows) - 2 * headings


@pytest.mark.parametrize(("function", "path", "test"), ROWS)
def test_function_and_test_exist(function, path, test):
    module, name = function.rsplit(".", 1)
    assert callable(getattr(importlib.import_module(module), name))
    source = Path(__file__).parents[1].joinpath(path).read_text(encoding="utf-8")
    assert test in {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)}
