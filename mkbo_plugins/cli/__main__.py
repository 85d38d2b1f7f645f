"""``python -m mkbo_plugins.cli`` is ``mkbo``."""

from mkbo_plugins.cli import app

app()
