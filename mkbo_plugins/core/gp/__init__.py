"""One exact Gaussian process: fit, evidence, predictions, designs."""
