"""`mkbo report`: a page that is whole, true, and safe to pass on."""

import json
import xml.etree.ElementTree as ET
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.cli.page import page, paragraph
from mkbo_plugins.report.words import describe
from tests.several_tables import SPACE, combined
from tests.test_campaigns import SPACE as SPACE_OF_CAMPAIGNS
from tests.test_campaigns import runs

pytest.importorskip("matplotlib")

VOID = ("meta", "img", "br")
SCRIPT = "<script>alert(1)</script>"


class Page(HTMLParser):
    """A page that was read: its text, the rows of its tables, what it refers to; elements are closed in order."""

    def __init__(self, path):
        super().__init__()
        self.open, self.tags, self.rows, self.sources, self.text = [], set(), [], [], ""
        self.raw = Path(path).read_text()
        self.feed(self.raw)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.sources += [value for name, value in attrs if name in ("src", "href", "data", "action", "style")]
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data

    def pictures(self):
        """Return the words of every picture; each must be whole and refer to itself only."""
        found = []
        for source in self.sources:
            kind, _, data = source.partition(",")
            assert kind == "data:image/svg+xml;base64"
            root = ET.fromstring(b64decode(data, validate=True))
            assert root.tag.endswith("svg")
            for element in root.iter():
                assert not element.tag.endswith(("script", "image", "foreignObject"))
                links = [value for name, value in element.attrib.items() if name.endswith("href")]
                assert all(link.startswith("#") for link in links)
            found.append(root)
        return found


def _report(run, *arguments):
    result = run("report", "a.mkbo.json", "--out", "a.html", *arguments)
    assert result.exit_code == 0, result.output
    return Page("a.html")


def _long(table, count=12):
    """Return experiments: outcomes, then one pending and one failed."""
    done = table.iloc[: count + 2].rename(columns={"strength": "hardness"})
    outcomes = [*(3 * done["hardness"].iloc[:count] + 1), None, "failed"]
    return done.assign(hardness=pd.Series(outcomes, index=done.index, dtype=object))


def test_a_page_says_what_show_says_and_refers_to_nothing_outside(run, folder, gp_cov):
    page = _report(run)
    shown = json.loads(run("show", "a.mkbo.json", "--json").stdout)
    for statement in describe(gp_cov):
        assert list(statement) in page.rows
    assert f"explain {shown['explained']:.0%} of" in page.text
    for row in shown["parameters"]:
        shares = [f"{row['alone']:.0%}", f"{row['total']:.0%}"]
        assert [row["name"], row["range"], row["length_scale"], *shares] in page.rows
    for involved, share in shown["shares"].items():
        assert [involved, f"{share:.1%}"] in page.rows
    assert len(page.pictures()) == 3
    assert "campaign" not in page.text
    assert not page.tags & {"script", "link", "iframe", "object", "embed", "base", "form"}
    for word in ("http:", "https:", "url(", "@import"):
        assert word not in page.raw.lower()
    assert "@media print" in page.raw


def test_a_campaign_on_the_page_is_that_of_suggest(run, folder, table):
    pytest.importorskip("botorch")
    done = _long(table)
    done.to_csv("long.csv", index=False)
    options = ("--done", "long.csv", "--direction", "same", "-n", 2)
    page = _report(run, *options)
    said = json.loads(run("suggest", "--covariance", "a.mkbo.json", *options, "--json").stdout)
    assert f"12 experiments measured, 1 pending, 1 failed; best hardness {said['best']:.6g}" in page.text
    suggested = said["suggestions"]
    assert all(s["why"] in page.text for s in suggested)
    assert ["hardness, predicted", *(f"{s['predicted']:.4g} ± {s['uncertainty']:.2g}" for s in suggested)] in page.rows
    assert ["chance to beat the best", *(f"{s['chance']:.0%}" for s in suggested)] in page.rows
    for name in suggested[0]["point"]:
        values = next(row[1:] for row in page.rows if row[0] == name and len(row) == 3)
        for shown, s in zip(values, suggested, strict=True):
            assert shown == s["point"][name] if name == "gas" else float(shown) == s["point"][name]
    assert f"Does the table help? {said['table_helps']['answer']}" in page.text
    outcomes = [f"{value:.6g}" for value in done["hardness"].iloc[:12]]
    assert [row[-1] for row in page.rows[-14:]] == [*outcomes, "pending", "failed"]
    assert [row[4] for row in page.rows[-14:]] == done["gas"].tolist()
    assert len(page.pictures()) == 6


def test_the_same_command_writes_the_same_page(run, folder):
    pytest.importorskip("botorch")
    first = _report(run, "--done", "done.csv").raw
    assert _report(run, "--done", "done.csv").raw == first


def test_a_campaign_in_a_space_of_its_own_with_requirements(run, folder, done):
    pytest.importorskip("botorch")
    done.assign(colour=np.linspace(0, 1, 6)).drop(columns="gas").to_csv("own.csv", index=False)
    options = ("--fix", "gas=Air", "--require", "colour >= 0.5", "--target", "hardness", "--minimise")
    page = _report(run, "--done", "own.csv", *options)
    allowed = done["hardness"].iloc[3:]
    assert f"best hardness {allowed.min():.6g}" in page.text
    assert "the smallest so far" in page.text
    assert "chance of colour >= 0.5" in [row[0] for row in page.rows]


def test_before_the_first_outcome(run, folder, done):
    pytest.importorskip("botorch")
    done.assign(hardness=None).to_csv("new.csv", index=False)
    page = _report(run, "--done", "new.csv")
    assert "0 experiments measured, 6 pending" in page.text
    assert len(page.pictures()) == 3


def test_names_and_levels_are_text_and_nothing_else(run, folder):
    pytest.importorskip("botorch")
    rng = np.random.default_rng(0)
    names, levels = ("a & b $x$ $\\no$", SCRIPT), ["</td><b>", "'\">"]
    table = pd.DataFrame({names[0]: rng.random(14), SCRIPT: rng.choice(levels, 14)})
    table["<i>y</i>"] = table[names[0]] ** 2 + (table[SCRIPT] == levels[0])
    space = ParameterSpace.from_dict({names[0]: (0.0, 1.0), SCRIPT: levels})
    pretrain(table, "<i>y</i>", space, trainer="gp").save("a.mkbo.json")
    table.iloc[:5].to_csv("odd.csv", index=False)
    page = _report(run, "--done", "odd.csv")
    assert not page.tags & {"script", "i", "b"}
    assert {*names, *levels, "<i>y</i>"} <= {cell for row in page.rows for cell in row}
    assert "What is known of <i>y</i>" in page.text
    page.pictures()


def test_several_tables_have_a_section_each(run, folder):
    pytest.importorskip("botorch")
    combined().save("a.mkbo.json")
    points = pd.DataFrame(SPACE.sobol(4, 9), columns=list(SPACE.names))
    points.assign(z=points["p"]).to_csv("two.csv", index=False)
    page = _report(run, "--done", "two.csv")
    for words in ("Table 1 of 2: hardness", "Table 2 of 2: yield", "2 tables over 3 parameters, in common: q"):
        assert words in page.text
    assert "Outcomes over what the table predicts of yield" in page.text


def test_campaigns_are_named_with_what_they_explain_and_most_like(run, folder):
    pytest.importorskip("botorch")
    table = runs()
    cov = pretrain(table, "y", SPACE_OF_CAMPAIGNS, by="study", trainer="gp")
    cov.save("a.mkbo.json")
    table[table["study"] == "study 1"].drop(columns="study").iloc[:11].to_csv("one.csv", index=False)
    page = _report(run, "--done", "one.csv")
    for campaign in cov.campaigns:
        assert (
            f"{campaign.name}: {campaign.rows} rows, held-out predictions explain {campaign.explained:.0%}" in page.text
        )
    assert "most like the earlier campaigns (rank correlation): study 1 (" in page.text
    assert "Earlier campaigns most like this one" in page.text
    assert "rank the outcomes so far" in page.raw


def test_a_page_replaces_a_page_and_nothing_else(run, folder):
    Path("a.html").write_text("<!DOCTYPE html>\n<html><body>my thesis</body></html>")
    result = run("report", "a.mkbo.json", "--out", "a.html")
    assert result.exit_code == 2
    assert "no page of mkbo report" in " ".join(result.output.split())
    assert "my thesis" in Path("a.html").read_text()
    Path("a.html").write_text("")
    assert _report(run).raw == _report(run).raw
    for out in ("a.mkbo.json", "absent/a.html", "a.pdf"):
        assert run("report", "a.mkbo.json", "--out", out).exit_code == 2
    PretrainedCovariance.load("a.mkbo.json")
    assert not Path("a.pdf").exists()


@pytest.mark.parametrize(
    "option",
    [("--minimise",), ("-n", 1), ("--space", "space.toml"), ("--fix", "gas=Air"), ("--seed", 1), ("--form", "stock")],
)
def test_options_of_a_campaign_need_one(run, folder, option):
    result = run("report", "a.mkbo.json", "--out", "a.html", *option)
    assert result.exit_code == 2
    assert f"{option[0]} is about a campaign" in " ".join(result.output.split())
    assert not Path("a.html").exists()


def test_characters_that_no_page_holds_are_shown_as_python_writes_them():
    written = page("a\x1b", [paragraph("b\ud83d")], "c\x00").decode()
    for shown in (r"<h1>a\x1b</h1>", r"<p>b\ud83d</p>", r"<footer>c\x00</footer>"):
        assert shown in written
