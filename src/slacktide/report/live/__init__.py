"""A run while it runs: a view that is redrawn in a terminal, and its events as lines."""
