"""Spot markets: pools of GPUs with a price and a number of spot GPUs for every slot.

Begin with `base` (`Market`, `Pool`) and `source.open_market`; `tape` holds what a policy may know of a pool
at a moment.
"""
