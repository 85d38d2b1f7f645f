"""The paper, row by row: every formula evaluated by brute force and compared with the code."""
