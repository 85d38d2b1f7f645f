"""Errors, warnings and interruptions of commands, as sentences instead of tracebacks."""

import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from mkbo_plugins.errors import MkboError, MkboWarning
from mkbo_plugins.messages.terminal import Terminal

GOES_ON = "stopped; the same command goes on from here"
"""What an interrupted command says that keeps what is done."""


@contextmanager
def plain_errors(when_interrupted: str = "stopped") -> Iterator[None]:
    """Print errors and warnings of this package as plain sentences; an error ends the command with status 2.

    SIGTERM interrupts it as Ctrl-C does, with status 130: workers and unfinished files go with it. It is a context, or
    a decorator of a whole command.
    """
    errors = Terminal(stderr=True)

    def print_warning(message: Warning | str, category: type[Warning], *args: object) -> None:
        if issubclass(category, MkboWarning):
            errors.print(f"note: {in_options(message)}", soft_wrap=True)
        else:
            original(message, category, *args)  # type: ignore[arg-type]

    with warnings.catch_warnings(), _terminated_as_interrupted():
        warnings.simplefilter("always", MkboWarning)
        original, warnings.showwarning = warnings.showwarning, print_warning  # type: ignore[assignment]
        try:
            yield
        except (MkboError, ImportError) as error:
            errors.print(f"error: {in_options(error)}", soft_wrap=True)
            sys.exit(2)
        except BrokenPipeError:
            raise  # of a reader, such as head, that has seen enough
        except OSError as error:
            where = "" if error.filename is None else f" with {error.filename}"
            errors.print(f"error: cannot go on{where}: {error.strerror or error}", soft_wrap=True)
            sys.exit(2)
        except KeyboardInterrupt:
            errors.print(when_interrupted)
            sys.exit(130)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGTERM, where this may be set and nobody else has."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    else:
        yield


def in_options(message: object) -> str:
    """Return a message that names options of the command instead of arguments in Python.

    In messages, an argument is followed by its option, as in ``missing='drop' (--drop-missing)``.
    """
    return re.sub(r"\S+ \((--(?:[^()]|\([^()]*\))+)\)", r"\1", str(message))
