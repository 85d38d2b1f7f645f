"""The fixed components of a pre-trained covariance, of one table or of several."""
