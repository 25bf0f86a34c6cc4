"""A fleet of jobs under an allocator, simulated exactly: on a market, or as a stream at one price.

Begin with `run`, whose driver lets an allocator decide at each moment of a `MarketWorld` or a `StreamWorld`;
`comparison` runs several allocators at one spend.
"""
