"""Allocators, which decide what all jobs of a run hold: what they are shown, and a module for each.

Begin with `view`; a new allocator for a market is one file here. `streams` has those for GPUs without a
market.
"""
