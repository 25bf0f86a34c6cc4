"""The agent of a machine: it runs a job's workers there, and ends them when no controller reaches it.

Begin with `serve`.
"""
