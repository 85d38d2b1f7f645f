"""The command ``mkbo demo``."""

from pathlib import Path
from typing import Annotated

import typer

from mkbo_plugins.errors import MkboError
from mkbo_plugins.messages.commands import GOES_ON, plain_errors
from mkbo_plugins.messages.terminal import Terminal


def demo(
    out: Annotated[Path, typer.Option(help="Folder for results; a second run continues in it.")] = Path("mkbo-demo"),
    seeds: Annotated[int, typer.Option(min=1, help="Paired campaigns from different starting points.")] = 4,
    trials: Annotated[int, typer.Option(min=1, help="Trials after three starting points.")] = 12,
) -> None:
    """Tune a real classifier with and without knowledge of cheap earlier runs, and print what happened.

    64 support vector classifiers trained on 200 of scikit-learn's handwritten digits are the table; tuning on all
    1,797 images is the target. Both models start from the same points.

    Example: mkbo demo --seeds 10
    """
    with plain_errors(GOES_ON):
        try:
            from mkbo_plugins.experiments.demo import run_demo
        except ImportError as error:
            raise MkboError(f"{error}; the demo needs both: pip install 'mkbo_plugins[botorch,plot]'") from error
        run_demo(Terminal(), out, seeds=seeds, trials=trials)
