"""What happened, what will, and why, in sentences: pages, tables, terminals and the dashboard use them.

Begin with `plan`, `why`, or `reasons`.
"""
