"""One worker for each GPU of a job: its process, its environment, its progress; shared by all back ends.

Begin with `worker_set`.
"""
