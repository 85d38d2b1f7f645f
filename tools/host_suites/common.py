"""Tests of a host, run with its own models and with pre-trained ones in their place, to see where only ours fail."""

import filecmp
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain

PROJECT = Path(__file__).parents[2]
OURS = "MKBO_IN_PLACE_OF_THE_HOSTS"
BAD = ("failure", "error")


@dataclass(frozen=True)
class Suite:
    """Tests of a host.

    Parameters
    ----------
    package
        Name of the host.
    plugin
        Module that pytest loads before any test; it imports the host, and puts ours in place where `in_place` says so.
    files
        Files and folders of tests, below the checkout.
    known
        Tests that only ours fail, as patterns of their names, by the reason.
    """

    package: str
    plugin: str
    files: Sequence[str]
    known: Mapping[str, Sequence[str]]


def in_place() -> bool:
    """Return whether this process runs tests with ours in place of the host's models."""
    return OURS in os.environ


def main(suite: Suite, arguments: Sequence[str]) -> int:
    """Run a suite, in the checkout that the first argument names; more arguments replace its files.

    Returns
    -------
    int
        Status: 1 where a test that the host passes fails with ours and is not known to.
    """
    checkout, files = Path(arguments[0]).resolve(), arguments[1:] or suite.files
    print(f"{suite.package} {importlib.metadata.version(suite.package)}, tests of {checkout}")
    print(f"source files of the checkout that differ from those installed: {_differing(checkout, suite.package)}")
    stock = _run(suite, checkout, files, ours=False)
    ours = _run(suite, checkout, files, ours=True)
    return _report(suite, stock, ours)


def _differing(checkout: Path, package: str) -> list[str] | str:
    spec = importlib.util.find_spec(package)
    installed = Path(str(spec.origin if spec else None)).parent
    there = sorted((checkout / package).rglob("*.py"))
    if not there:
        return "the checkout has no source"
    pairs = [(path.relative_to(checkout / package), path) for path in there]
    return [
        str(name)
        for name, path in pairs
        if not ((installed / name).is_file() and filecmp.cmp(path, installed / name, shallow=False))
    ]


def _run(suite: Suite, checkout: Path, files: Iterable[str], *, ours: bool) -> dict[str, str]:
    """Return what became of each test: nothing where it passed, "skipped", or how it failed."""
    environment = os.environ | {"PYTHONPATH": str(PROJECT), **({OURS: "1"} if ours else {})}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", "--tb=short", "-c", os.devnull, "--rootdir", ".", "-p", "no:cacheprovider", "-p", suite.plugin]
        # Without -P the checkout's own source would be tested instead of the installed one.
        command = [sys.executable, "-P", "-m", "pytest", *options, f"--junitxml={report}", *files]
        done = subprocess.run(command, check=False, cwd=checkout, env=environment, capture_output=True, text=True)
        if not report.exists():
            raise SystemExit(f"pytest made no report:\n{done.stdout}\n{done.stderr}")
        return _outcomes(report)


def _outcomes(report: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        bad = next((child for child in case if child.tag in BAD), None)
        skipped = "skipped" if case.find("skipped") is not None else ""
        said = skipped if bad is None else " ".join((bad.get("message") or "failed").split())
        found[name] = max(found.get(name, ""), said, key=lambda text: (text not in ("", "skipped"), text))
    return found


def _report(suite: Suite, stock: Mapping[str, str], ours: Mapping[str, str]) -> int:
    fails = {name: said for name, said in ours.items() if said not in ("", "skipped")}
    by_stock = {name: said for name, said in stock.items() if said not in ("", "skipped")}
    new = {name: said for name, said in fails.items() if name not in by_stock}
    skipped = sum(said == "skipped" for said in stock.values())
    print(f"{len(stock)} tests, {skipped} skipped; the host's models fail {len(by_stock)}:")
    for name, said in by_stock.items():
        print(f"    {name}: {said:.160}")
    print(f"with ours {len(ours)} tests, {len(fails)} fail, of which the host's pass {len(new)}")
    for reason, patterns in suite.known.items():
        explained = [name for name in new if any(fnmatch(name, pattern) for pattern in patterns)]
        print(f"  {len(explained)} known: {reason}")
        for name in explained:
            print(f"    {name}: {new.pop(name):.160}")
    print(f"  {len(new)} not known")
    for name, said in new.items():
        print(f"    {name}: {said:.400}")
    return int(bool(new))


@cache
def covariance(dimensions: int) -> PretrainedCovariance:
    """Return a covariance over parameters from 0 to 1, trained on a small table."""
    names = [f"x{j}" for j in range(dimensions)]
    space = ParameterSpace.from_dict(dict.fromkeys(names, (0.0, 1.0)))
    table = pd.DataFrame(space.sobol(16), columns=names)
    table["y"] = np.sin(3 * table[names]).sum(axis=1)
    return pretrain(table, target="y", space=space, C=5.0, epsilon=0.1, sigma=dimensions / 2, ard=False, progress=False)
