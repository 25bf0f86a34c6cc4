"""Figures of speed and quality, each printed beside the reference it was measured with in the same run."""
