"""What happened and why, in sentences: pages, tables, terminals and the dashboard take them from here.

Begin with `why`, or `reasons`.
"""
