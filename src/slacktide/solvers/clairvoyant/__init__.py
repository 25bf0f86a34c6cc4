"""The best that could have been done by one job in one pool, had its market been known.

Begin with `clairvoyant.clairvoyant`.
"""
