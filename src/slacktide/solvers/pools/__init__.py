"""Solvers for a job that may be in any of several pools, one at a time.

Begin with `optimum` (the clairvoyant) or `joint` (the programme behind roaming-horizon).
"""
