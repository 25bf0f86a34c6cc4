"""Live prices: what a source must answer (`base`), and a file for each source."""
