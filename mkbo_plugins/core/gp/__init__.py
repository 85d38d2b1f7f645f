"""One exact Gaussian process, and a form as its covariance: fit, evidence, predictions, designs."""
