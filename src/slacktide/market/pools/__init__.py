"""The pools of a market: where each is, what moves between them cost, and which of them a job may use.

Begin with `places`; `statistics` has the figures of pools.
"""
