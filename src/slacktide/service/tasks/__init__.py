"""Costly requests: plans, back-tests, bills and pictures, which take seconds, run in a process of their own.

Begin with `task_process`, which is what that process runs; `task_worker` starts it and sends it requests.
"""
