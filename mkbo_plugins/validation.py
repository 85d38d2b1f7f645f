"""Held-out predictions of a table, and campaigns left out of a library, under their public names."""

from mkbo_plugins.pretraining.held_out import HeldOut, held_out
from mkbo_plugins.pretraining.left_out_campaigns import LeftOut, LeftOutCampaigns, leave_one_campaign_out

__all__ = ["HeldOut", "LeftOut", "LeftOutCampaigns", "held_out", "leave_one_campaign_out"]
