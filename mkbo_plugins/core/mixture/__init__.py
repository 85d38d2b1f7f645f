"""The mixture of kernels fitted to a table by leave-one-out, the baseline of the paper."""
