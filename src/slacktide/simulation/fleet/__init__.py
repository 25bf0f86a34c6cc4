"""The back-test of a fleet: many jobs on one market of spot and on-demand GPUs, on one budget.

Begin with `run`, then `compare`.
"""
