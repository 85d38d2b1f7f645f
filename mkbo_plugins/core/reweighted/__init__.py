"""Kernels made of a re-weighted one, and their Gram matrices with gradients."""
