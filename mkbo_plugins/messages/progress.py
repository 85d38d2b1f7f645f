"""A progress bar for long work, shown only where a person can see it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(description: str, *, show: bool = True) -> Iterator[Callable[[int, int | None], None] | None]:
    """Yield a function of (done, total or None) that moves a bar on standard error, or None when none is shown."""
    if not show:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from mkbo_plugins.messages.terminal import Terminal

    console = Terminal(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    visible = console.is_terminal or console.is_jupyter
    with Progress(*columns, console=console, transient=True, disable=not visible) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
