"""Which experiment to make next, and why, whatever optimiser models the outcomes."""
