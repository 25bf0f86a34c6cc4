"""What a run shows while it runs: a view that is drawn again and again, and lines."""
