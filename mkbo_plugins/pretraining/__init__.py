"""From a table to a pre-trained covariance."""
