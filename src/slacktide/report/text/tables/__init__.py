"""Tables for a terminal, a module for each subject.

Begin with `grid`, a table before it is drawn.
"""
