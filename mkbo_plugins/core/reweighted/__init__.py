"""Re-weighted kernels, normalised and two-layer ones made of them, and their Gram matrices with gradients."""
