"""The clairvoyant: the best that one job could have done in one pool, had all quotes been known beforehand.

Begin with `clairvoyant.clairvoyant`.
"""
