"""One worker for each GPU of a job: its process, environment and progress. All back ends share this.

Begin with `worker_set`.
"""
