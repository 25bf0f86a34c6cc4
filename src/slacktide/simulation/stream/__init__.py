"""The back-test of a stream of jobs on an average budget: event by event, or at once where jobs are
independent.

Begin with `simulate`, then `events`.
"""
