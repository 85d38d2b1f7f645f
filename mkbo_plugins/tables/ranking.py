"""A table with its target by rank."""

from dataclasses import replace

from mkbo_plugins.core.training.normal_scores import normal_scores
from mkbo_plugins.tables.table import TrainingTable


def by_rank(data: TrainingTable) -> TrainingTable:
    """Return a table whose target, and what is known of its noise, is in normal scores of the ranks of its rows."""
    scores, noise = normal_scores(data.y, data.sample_weight, data.noise)
    return replace(data, y=scores, noise=noise)
