"""A bound below the mean response of a fleet's jobs that no allocator can beat on its market and money.

Begin with `climb.bound_below`.
"""
