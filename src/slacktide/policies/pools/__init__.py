"""Policies for a job that may be in any of several pools, and what they share.

Begin with `eager_failover`, the shortest; a new one is one file here.
"""
