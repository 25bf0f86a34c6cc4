"""The state of a journal: a fold over its events, and snapshots of it.

Begin with `journal_state` (all jobs) and `job_record` (one job).
"""
