"""Following a source into a table: when to query it, which rows are due, and how they are kept.

Begin with `follower`.
"""
