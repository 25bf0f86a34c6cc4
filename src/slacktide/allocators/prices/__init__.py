"""The parts of `shadow-prices`: what jobs still cost, bids, the price of money, promises and the reserve.

Begin with `spot_auction`.
"""
