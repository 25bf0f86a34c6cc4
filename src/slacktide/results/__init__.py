"""What runs, comparisons and plans come to: made by simulators and the engine, read by reports."""
