"""Evaluation of re-weighted kernels: explicit features, the sum over pairs, and the choice between them."""
