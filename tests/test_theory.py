"""The page from the paper to the code names code that exists, and each row of it one test of its own."""

import ast
import re
from importlib.resources import files
from pkgutil import resolve_name

import pytest

from tests.documents import ROOT

PAGE = files("mkbo_plugins").joinpath("docs/theory.md").read_text(encoding="utf-8")
OF_THE_PAPER = re.findall(r"\| `([\w.]+)` \| `(test_\w+)` \| ([^|]+) \|$", PAGE, flags=re.MULTILINE)
ADDED = re.findall(r"\| `([\w.]+)` \| `(tests/[\w/.]+)::(\w+)` \|$", PAGE, flags=re.MULTILINE)
DIFFERENCES = re.findall(r"^(\d+)\. \*\*", PAGE, flags=re.MULTILINE)


def names_in(path):
    """Return the names of the tests of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]


def test_every_row_is_read():
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    headings = sum(set(line) <= set("|-") for line in rows)
    assert len(OF_THE_PAPER) + len(ADDED) == len(rows) - 2 * headings


def test_rows_of_the_paper_and_their_tests_match_one_to_one():
    named = [test for _, test, _ in OF_THE_PAPER]
    written = [name for path in (ROOT / "tests" / "theory").glob("test_*.py") for name in names_in(path)]
    assert sorted(named) == sorted(written)
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("code", sorted({row[0] for row in OF_THE_PAPER + ADDED}))
def test_code_exists(code):
    resolve_name(f"mkbo_plugins.{code}")


@pytest.mark.parametrize(("path", "test"), [row[1:] for row in ADDED])
def test_tests_of_additions_exist(path, test):
    assert test in names_in(ROOT / path)


def test_additions_have_tests_of_their_own():
    assert len({row[1:] for row in ADDED}) == len(ADDED)


def test_each_row_agrees_or_says_why_not_and_points_to_differences_that_are_listed():
    assert [str(number) for number in range(1, len(DIFFERENCES) + 1)] == DIFFERENCES
    used = set()
    for _, _, agreement in OF_THE_PAPER:
        assert agreement.startswith(("equal", "corrected, because ")), agreement
        numbers = re.findall(r"\(([\d, ]+)\)$", agreement)
        assert numbers or not agreement.startswith("corrected") or "sum over n" in agreement
        used.update(number for group in numbers for number in group.split(", "))
    assert used == set(DIFFERENCES)
