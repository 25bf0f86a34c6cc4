"""How pictures are put together: sheets of panels, style, names and labels.

Begin with `sheet`.
"""
