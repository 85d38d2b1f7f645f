"""Training on a table: support vector machines, leave-one-out, weights of coordinates."""
