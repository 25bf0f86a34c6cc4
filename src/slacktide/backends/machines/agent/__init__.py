"""The agent of a machine: it runs jobs' workers there, and ends them when no controller reaches it.

Begin with `serve`.
"""
