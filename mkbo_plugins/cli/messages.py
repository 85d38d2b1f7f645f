"""What commands have in common: sentences instead of tracebacks, and checks before work begins."""

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from mkbo_plugins.errors import ArtefactError, MkboError, MkboWarning


@contextmanager
def plain_errors(when_interrupted: str = "stopped") -> Iterator[None]:
    """Print errors and warnings of this package as plain sentences; an error ends the command with status 2."""
    errors = Console(stderr=True)

    def print_warning(message: Warning | str, category: type[Warning], *args: object) -> None:
        if issubclass(category, MkboWarning):
            errors.print(f"note: {message}", highlight=False, markup=False, soft_wrap=True)
        else:
            original(message, category, *args)  # type: ignore[arg-type]

    with warnings.catch_warnings():
        warnings.simplefilter("always", MkboWarning)
        original, warnings.showwarning = warnings.showwarning, print_warning  # type: ignore[assignment]
        try:
            yield
        except (MkboError, ImportError) as error:
            errors.print(f"error: {error}", highlight=False, markup=False, soft_wrap=True)
            sys.exit(2)
        except KeyboardInterrupt:
            errors.print(when_interrupted, highlight=False)
            sys.exit(130)


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written before time is spent on what goes into it."""
    if path.is_dir():
        raise ArtefactError(f"cannot write {path}: it is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ArtefactError(f"cannot write {path}: its folder does not exist; make it first")
    if not os.access(path.parent, os.W_OK):
        raise ArtefactError(f"cannot write {path}: its folder cannot be written to; choose another")


def print_json(value: Any) -> None:
    """Print a value for scripts."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))
