"""Costly requests: plans, back-tests, bills and pictures, which take seconds, run in a separate process.

Begin with `task_process`, which that process runs; `task_worker` starts it and sends it requests.
"""
