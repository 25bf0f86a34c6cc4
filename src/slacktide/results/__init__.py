"""The results of runs, plans, comparisons and bills: made by simulators and the engine, read by reports.

Begin with `run.RunResult`.
"""
