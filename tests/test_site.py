"""The site is built without a warning, its links lead somewhere, and every public name is in it."""

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from tests.documents import ROOT

for needed in ("mkdocs", "material", "mkdocstrings_handlers.python", "nbconvert"):
    pytest.importorskip(needed, reason=f"{needed} is missing; the extra docs of this package installs it")

PUBLIC = {
    "mkbo_plugins": None,
    "mkbo_plugins.botorch": None,
    "mkbo_plugins.ax": None,
    "mkbo_plugins.baybe": None,
    "mkbo_plugins.optuna": None,
    "mkbo_plugins.skopt": None,
    "mkbo_plugins.plots": None,
    "mkbo_plugins.covariance": ("Covariance",),
    "mkbo_plugins.botorch.suggest": ("suggest", "Advice", "Suggestion"),
    "mkbo_plugins.space.constraints": ("LinearConstraint",),
    "mkbo_plugins.trials": ("Trials",),
    "mkbo_plugins.inspection": ("inspect_table", "Finding"),
    "mkbo_plugins.validation": ("held_out", "HeldOut"),
    "mkbo_plugins.core": None,
    "mkbo_plugins.core.confidence": ("gp_ucb_beta",),
    "mkbo_plugins.errors": None,
}
"""Public modules, with their public names where these are not all."""


@dataclass
class Page(HTMLParser):
    """What a page has to point to, what it points to, what it loads, and its text."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def __post_init__(self):
        super().__init__()

    @classmethod
    def of(cls, path):
        page = cls()
        page.feed(path.read_text(encoding="utf-8"))
        return page

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids.add(given.get("id"))
        if tag in {"a", "link"} and given.get("rel") not in {"canonical", "prev", "next"} and "href" in given:
            (self.links if tag == "a" else self.loaded).append(given["href"])
        if "src" in given:
            self.loaded.append(given["src"])

    def handle_data(self, data):
        self.text.append(data)


def test_the_site_is_whole(tmp_path):
    """One test of several properties, since the site is built once for all of them."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(ROOT / "tools" / "mkdocs.yml")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [*command, "--site-dir", str(tmp_path)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    pages = {path: Page.of(path) for path in tmp_path.rglob("*.html")}
    check_that_links_lead_somewhere(pages)
    check_that_nothing_is_loaded_from_elsewhere(tmp_path, pages)
    check_that_every_public_name_has_a_place(pages)
    check_that_shapes_are_those_of_the_source(pages)
    check_that_tutorials_have_their_pictures(pages)


def check_that_links_lead_somewhere(pages):
    seen = 0
    for path, page in pages.items():
        if path.name == "404.html":  # is shown under any address, so that its links are from the top
            continue
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or link == "":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{path}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].ids, f"{path}: {link}"
            seen += 1
    assert seen > 1000


def check_that_nothing_is_loaded_from_elsewhere(site, pages):
    for path, page in pages.items():
        assert not [link for link in page.loaded if urlsplit(link).netloc], path
    for path in site.rglob("*.css"):
        assert not re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", path.read_text(encoding="utf-8")), path


def check_that_every_public_name_has_a_place(pages):
    ids = set().union(*(page.ids for page in pages.values()))
    for module, names in PUBLIC.items():
        try:
            found = importlib.import_module(module)
        except ImportError:
            continue  # an optimiser that is not installed here
        public = names or getattr(found, "__all__", None) or _own(found)
        wanted = {module, *(f"{module}.{name}" for name in public)}
        for name in public:
            wanted |= {f"{module}.{name}.{method}" for method in _methods(getattr(found, name))}
        assert wanted <= ids, sorted(wanted - ids)


def _own(module):
    return [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]


def _methods(value):
    """Return the names of a class's own documented methods and properties."""
    if not inspect.isclass(value):
        return []
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
    functions = [member for member in node.body if isinstance(member, ast.FunctionDef)]
    return [function.name for function in functions if function.name[0] != "_" and ast.get_docstring(function)]


def check_that_shapes_are_those_of_the_source(pages):
    """Annotations of arrays are shown with their shapes, not with what a parser of Python makes of these."""
    text = "".join(part for page in pages.values() for part in page.text)
    shown = re.findall(r"\b(?:Float|Int|Bool|Num|Shaped)\[(?:np\.)?\w+, ([^\]]+)\]", text)
    wrong = {shape for shape in shown if shape != "..." and not re.fullmatch(r"([\"']) ?[\w*#.+ ]+\1", shape)}
    assert not wrong
    assert len(shown) > 50
    assert '"... n d"' in shown


def check_that_tutorials_have_their_pictures(pages):
    for notebook in (ROOT / "tutorials").glob("*.ipynb"):
        stored = notebook.read_text(encoding="utf-8").count('"image/png"')
        (page,) = [page for path, page in pages.items() if path.parts[-2:] == ("tutorials", f"{notebook.stem}.html")]
        assert len([link for link in page.loaded if link.startswith(f"{notebook.stem}_files/")]) == stored


def test_the_gallery_shows_the_pictures_that_its_lines_make(tmp_path, monkeypatch):
    for needed in ("botorch", "matplotlib"):
        pytest.importorskip(needed)
    specification = importlib.util.spec_from_file_location("make_gallery", ROOT / "tools" / "make_gallery.py")
    tool = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(tool)
    tool.run(tmp_path)
    shown = set(re.findall(r"\]\((\w+\.png)\)", tool.PAGE.read_text(encoding="utf-8")))
    stored = {path.name: path for path in tool.PAGE.parent.glob("*.png")}
    assert {path.name for path in tmp_path.glob("*.png")} | {"report.png"} == shown == set(stored)
    assert (tmp_path / "report.html").is_file()
    assert sum(path.stat().st_size for path in stored.values()) < 1.5e6
