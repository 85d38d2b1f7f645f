"""What no optimiser refits of a pre-trained covariance: components by name, each a value with its gradients."""
