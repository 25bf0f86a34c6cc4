"""Live prices: the contract of a source, a module for each source, and markets that are still being written.

Begin with `base`; a new source is one file here. `feed` is the market that a followed table makes.
"""
