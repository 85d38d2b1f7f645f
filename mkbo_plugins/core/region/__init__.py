"""Points within bounds that keep linear constraints: whether there are any, and even draws of them."""
