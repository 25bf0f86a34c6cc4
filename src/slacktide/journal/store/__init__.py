"""Where events are kept: the contract of a store, SQLite and memory, and the lease of the one controller.

Begin with `base`.
"""
