"""The market that all jobs of a fleet share, on the clock of the fleet."""

from __future__ import annotations

import json
import math
from datetime import datetime

from slacktide.engine.job.job_context import market_of
from slacktide.engine.job.usable_pools import hours_since, own_slot
from slacktide.journal.events import Submitted
from slacktide.market.base import Market
from slacktide.market.live.feed import Feed, shared_feed
from slacktide.market.market_view import MarketView
from slacktide.market.spec import is_feed
from slacktide.simulation.plain import USUAL
from slacktide.simulation.playback import Playback


class FleetMarket:
    """All pools of a market from a slot of the first of them on; hours and slots are counted from there."""

    def __init__(self, market: Market, start_slot: int = 0, feed: Feed | None = None) -> None:
        self._pools, self._start_slot, self._feed = market.pools, start_slot, feed
        self._playback = None if feed is not None else self._played()
        self.names = tuple(pool.name for pool in market.pools)
        self.slot_hours = market.pools[0].slot_hours

    @property
    def start(self) -> datetime:
        """When the clock of the fleet stood at 0, by the market's own."""
        return self._pools[0].time(self._start_slot)

    def slot(self, hours: float) -> int:
        """Return the slot that a time falls in."""
        return math.floor(hours / self.slot_hours + 1e-9)

    def hours(self, now_hours: float, origin_hours: float) -> float:
        """Return a moment on the clock of the fleet, which began at another one."""
        return hours_since(now_hours, origin_hours, self.slot_hours)

    def at(self, slot: int) -> MarketView:
        """Return the market as it stands in a slot."""
        if self._feed is not None:
            return self._feed.among(self.names, self._start_slot + slot, self._start_slot, 0)
        assert self._playback is not None
        return self._playback.at(slot)

    def _played(self) -> Playback:
        first, *others = self._pools
        return Playback(first, self._start_slot, others, USUAL.forecaster, USUAL.horizon)


def fleet_market(first: Submitted) -> FleetMarket:
    """Open the market of a fleet where its first job stood; raises InputError or FileError."""
    feed = shared_feed(first.market) if is_feed(json.loads(first.market)["spec"]) else None
    market = market_of(first.market) if feed is None else feed.market
    assert market is not None
    start = own_slot(market.pools[0], market.pool(first.pool), first.start_slot)
    return FleetMarket(market, start, feed)
