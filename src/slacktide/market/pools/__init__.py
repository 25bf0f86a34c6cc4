"""The pools of a market: where each is, what moves between them cost, and which of them a job may use.

Begin with `places`, then `moves`; `statistics` and `comparison` are the figures of pools.
"""
