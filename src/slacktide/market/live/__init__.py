"""Live prices: the contract of a source, a module for each source, and markets that are still being written.

Begin with `base`; a new source is one file here. `follower` writes what a source reports into a table, and
`feed` is the market that such a table makes.
"""
