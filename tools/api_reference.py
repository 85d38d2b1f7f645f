"""Write the API reference from docstrings: ``python tools/api_reference.py``."""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "mkbo_plugins" / "docs" / "api.md"
MODULES = (
    "mkbo_plugins",
    "mkbo_plugins.botorch",
    "mkbo_plugins.ax",
    "mkbo_plugins.optuna",
    "mkbo_plugins.skopt",
    "mkbo_plugins.plots",
)
OTHERS = {
    "mkbo_plugins.covariance": ("Covariance",),
    "mkbo_plugins.botorch.suggest": ("suggest", "Advice", "Suggestion"),
    "mkbo_plugins.space.constraints": ("LinearConstraint",),
    "mkbo_plugins.trials": ("Trials",),
    "mkbo_plugins.inspection": ("inspect_table", "Finding"),
    "mkbo_plugins.validation": ("held_out", "HeldOut", "leave_one_campaign_out", "LeftOutCampaigns", "LeftOut"),
    "mkbo_plugins.core": ("*",),
    "mkbo_plugins.core.confidence": ("gp_ucb_beta",),
    "mkbo_plugins.errors": ("*",),
}
"""Modules described behind `MODULES`, with the names to describe; a star stands for all public ones."""


def page() -> str:
    """Return the reference as Markdown."""
    parts = ["# API reference", "Made from docstrings by `python tools/api_reference.py`."]
    for name in MODULES:
        parts += _module(name, ("*",))
    for name, names in OTHERS.items():
        parts += _module(name, names)
    return "\n\n".join(parts) + "\n"


def _module(name: str, names: tuple[str, ...]) -> Iterator[str]:
    module = importlib.import_module(name)
    yield f"## {name}"
    if names == ("*",):
        yield _markdown(inspect.getdoc(module) or "")
    for public in _public(module) if names == ("*",) else names:
        yield from _object(public, getattr(module, public))


def _public(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = inspect.getmembers(module, lambda value: getattr(value, "__module__", None) == module.__name__)
    return [name for name, _ in own if not name.startswith("_")]


def _object(name: str, value: Any) -> Iterator[str]:
    if not callable(value):
        yield f"### {name}"
        return
    node = _definition(value)
    if isinstance(node, ast.FunctionDef):
        yield f"### {name}"
        yield f"```text\n{_signature(name, node)}\n```"
        yield _markdown(inspect.getdoc(value) or "")
        return
    yield f"### class {name}"
    yield _markdown(inspect.getdoc(value) or "")
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and not member.name.startswith("_") and ast.get_docstring(member):
            is_property = any("property" in ast.unparse(decorator) for decorator in member.decorator_list)
            title = f"`{member.name}`" if is_property else f"`{_signature(member.name, member, method=True)}`"
            yield f"#### {title}"
            yield _markdown(inspect.cleandoc(ast.get_docstring(member) or ""))


def _definition(value: Any) -> ast.FunctionDef | ast.ClassDef:
    """Return the syntax tree of a function or class, whose text does not depend on the version of Python."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    node = tree.body[0]
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    return node


def _signature(name: str, node: ast.FunctionDef, *, method: bool = False) -> str:
    arguments = ast.parse(f"def f({ast.unparse(node.args)}): ...").body[0]
    assert isinstance(arguments, ast.FunctionDef)
    given = arguments.args
    for argument in [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]:
        if argument is not None:
            argument.annotation = None
    if method and given.args and given.args[0].arg in ("self", "cls"):
        del given.args[0]
    return f"{name}({ast.unparse(given)})"


def _markdown(docstring: str) -> str:
    """Return a docstring of NumPy's style as Markdown."""
    docstring = re.sub(r"``(.+?)``", r"`\1`", docstring)
    title, *sections = re.split(r"^(\w[\w ]*)\n-{3,}\n", docstring, flags=re.MULTILINE)
    parts = [title.strip()]
    for heading, body in zip(sections[::2], sections[1::2], strict=True):
        if heading == "Examples":
            parts.append(f"**{heading}**\n\n```pycon\n{body.strip()}\n```")
        elif heading == "Notes":
            parts.append(f"**{heading}**\n\n{body.strip()}")
        else:
            parts.append(f"**{heading}**\n\n{_entries(body)}")
    return "\n\n".join(part for part in parts if part)


def _entries(body: str) -> str:
    """Return names with indented descriptions as a list; text without a description stays as it is."""
    lines = []
    for line in body.strip().splitlines():
        if line.startswith(" "):
            lines.append("  " + line.strip())
        elif line:
            lines.append(f"- `{line}`" if re.match(r"^[\w*, .]+$", line) and len(line) < 80 else line)
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
