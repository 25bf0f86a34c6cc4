"""The parts of `shadow-prices`: what jobs still cost, the auction of spot, pacing, promises, the reserve.

Begin with `spot_auction`.
"""
