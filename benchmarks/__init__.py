"""Figures of speed and quality, each printed next to a reference measured in the same run."""
