"""What runs, plans, comparisons and bills come to: made by simulators and the engine, read by reports.

Begin with `run.RunResult`.
"""
