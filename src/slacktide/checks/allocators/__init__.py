"""The contract of allocators, with and without a market.

Begin with `allocator`, which has the checks; `site_cases` makes the cases with a market.
"""
