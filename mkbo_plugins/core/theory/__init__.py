"""The theory of m-kernels that no optimiser needs: machines of any norm, symmetrised products, the Mercer check."""
