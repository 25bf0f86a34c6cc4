"""Policies for a job that may be in any of several pools, and what they share.

Begin with `roaming_horizon`; a new policy is one file here.
"""
