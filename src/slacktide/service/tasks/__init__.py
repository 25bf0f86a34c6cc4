"""Requests that take seconds: plans, back-tests, bills and pictures are made in a process of their own.

Begin with `task_process`, which is what that process runs; `task_worker` starts it and talks to it.
"""
