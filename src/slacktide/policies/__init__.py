"""Policies for one job: what they see, the deadline guard that wraps them, and a module for each policy.

Begin with `view`; a new policy is one file here. `pools` has those for jobs that may move between pools.
"""
