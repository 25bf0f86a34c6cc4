"""Allocators for a stream of jobs on an average budget, without a spot market.

Begin with `fixed_width`, the optimum; a new one is one file here.
"""
