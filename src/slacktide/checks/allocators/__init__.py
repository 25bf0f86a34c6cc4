"""The contracts of allocators, with and without a market.

Begin with `allocator`.
"""
