"""Pages to pass on: one HTML file that refers to nothing outside, runs nothing, and can be printed."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from mkbo_plugins.errors import MkboError
from mkbo_plugins.files import read_start
from mkbo_plugins.messages.pages import writable

START = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="mkbo report">
"""
"""How a page begins, by which it is known as one that may be replaced."""

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 56rem; margin: 2rem auto; padding: 0 1rem;
  overflow-wrap: anywhere; }
h1, h2, h3 { line-height: 1.2; margin: 1.6em 0 .5em; }
h1 { font-size: 1.7rem; margin-top: 0; }
h2 { font-size: 1.3rem; border-bottom: 1px solid #bbb; padding-bottom: .2em; }
h3 { font-size: 1.05rem; }
.wide { overflow-x: auto; margin: 1em 0; }
table { border-collapse: collapse; font-size: .9rem; min-width: 60%; }
caption { text-align: left; color: #555; padding-bottom: .3em; }
th, td { text-align: left; vertical-align: top; padding: .25em .9em .25em 0; border-bottom: 1px solid #ddd; }
thead th { border-bottom: 2px solid #888; }
th { font-weight: 600; }
th, td { overflow-wrap: normal; }
th.long { overflow-wrap: anywhere; min-width: 9em; }
figure { margin: 1em 0; }
figure img { max-width: 100%; height: auto; }
figcaption, footer { color: #555; font-size: .9rem; }
footer { margin-top: 3em; border-top: 1px solid #bbb; padding-top: .5em; }
@media print {
  @page { margin: 15mm; }
  body { font-size: 10pt; max-width: none; margin: 0; padding: 0; color: #000; }
  .wide { overflow: visible; }
  h1, h2, h3, caption { break-after: avoid; }
  h2 ~ h2 { break-before: page; }
  figure img { max-height: 110mm; }
  figure, tr { break-inside: avoid; }
  thead { display: table-header-group; }
}
"""


LONG = 24
"""Characters from which on a name is broken in the middle of a word rather than widening its table."""


def check_replaceable(path: Path) -> None:
    """Raise an `MkboError` if a file is not named as a page, or is there and neither empty nor one."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise MkboError(f"{path}: pages are named .html, got {path.suffix!r}; a browser prints them as PDF")
    beginning = read_start(path, len(START)) if path.exists() else b""
    if beginning and beginning != START.encode():
        raise MkboError(f"{path} exists and is no page of mkbo report; name another file, or delete it")


def page(title: str, parts: Iterable[str], footer: str) -> bytes:
    """Return a page of parts that functions of this module made.

    Parameters
    ----------
    title, footer
        Texts.
    parts
        Headings, paragraphs, tables and pictures as HTML.
    """
    head = f"<title>{_escaped(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{_escaped(title)}</h1>\n"
    end = f"\n<footer>{_escaped(footer)}</footer>\n</body>\n</html>\n"
    return (START + head + "\n".join(parts) + end).encode()


def heading(text: str, level: int = 2) -> str:
    """Return a heading of a level as HTML."""
    return f"<h{level}>{_escaped(text)}</h{level}>"


def paragraph(text: str) -> str:
    """Return a paragraph as HTML."""
    return f"<p>{_escaped(text)}</p>"


def listing(texts: Iterable[str]) -> str:
    """Return a numbered list as HTML."""
    return "<ol>" + "".join(f"<li>{_escaped(text)}</li>" for text in texts) + "</ol>"


def table(rows: Iterable[Sequence[str]], header: Sequence[str] = (), caption: str = "") -> str:
    """Return rows of texts, the first of each its name, as an HTML table."""
    title = f"<caption>{_escaped(caption)}</caption>" if caption else ""
    head = "".join(_name(text, "col") for text in header)
    body = "\n".join(
        f"<tr>{_name(name, 'row')}{''.join(f'<td>{_escaped(text)}</td>' for text in cells)}</tr>"
        for name, *cells in rows
    )
    head = f"<thead><tr>{head}</tr></thead>" if header else ""
    return f'<div class="wide"><table>{title}{head}<tbody>\n{body}\n</tbody></table></div>'


def _name(text: str, scope: str) -> str:
    """Return the name of a row or a column, which may be broken anywhere if it is long."""
    width = ' class="long"' if len(text) > LONG else ""
    return f'<th scope="{scope}"{width}>{_escaped(text)}</th>'


def picture(svg: bytes, caption: str) -> str:
    """Return an SVG picture with its caption, which is read out in its place, as HTML that holds the picture itself."""
    said = _escaped(caption)
    image = f'<img alt="{said}" src="data:image/svg+xml;base64,{b64encode(svg).decode()}">'
    return f"<figure>{image}<figcaption>{said}</figcaption></figure>"


def _escaped(text: str) -> str:
    """Return a text as HTML shows it."""
    return escape(writable(text))
