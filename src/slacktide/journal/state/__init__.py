"""The state of a journal: a fold over its events, and snapshots of it.

Begin with `world` (all jobs) and `track` (one job).
"""
