"""Policies for one job: what they are shown, the deadline guard round them, and a module for each policy.

Begin with `view`; a new policy is one file here. `pools` has those for jobs that may move between pools.
"""
