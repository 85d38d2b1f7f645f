"""Campaigns that measure what a pre-trained covariance gains; they need the extras botorch and plot."""
