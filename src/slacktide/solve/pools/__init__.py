"""Solvers for a job that may be in any of several pools, one at a time."""
