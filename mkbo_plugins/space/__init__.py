"""Parameters and spaces: from raw units to coordinates and back."""
