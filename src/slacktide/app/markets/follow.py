"""Writes live prices from a feed into a market table, until it is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from slacktide.core.errors import InputError
from slacktide.core.units import format_duration
from slacktide.market.formats.market_bytes import TableNotes
from slacktide.market.formats.samples import ASSUMED_SPOT_GPUS, MAX_SPOT_GPUS, MAX_USD_PER_GPU_HOUR
from slacktide.market.live.base import PriceFeed, open_feed
from slacktide.market.live.follower import FollowedTable, Follower, FollowStep

SHORTEST_HOURS, LONGEST_HOURS = 1.0 / 60.0, 24.0
"""The shortest and longest slots of a table: sources have quotas, and days are too long for any job."""
MOST_SINCE_HOURS = 24.0 * 366
ONCE_TRIES = 4  # how often to try a source that does not answer, with `once`
ONCE_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRequest:
    """Which feed to write into which table."""

    feed: str  # `aws:p5.48xlarge`, with settings after a question mark
    path: str
    zones: tuple[str, ...] = ()  # zones or regions; none: all that the source has
    every_hours: float = 5.0 / 60.0  # how long a slot of the table is
    since_hours: float = 14.0 * 24.0  # how far back a new table begins, if the source has past prices
    spot_gpus: int = ASSUMED_SPOT_GPUS  # spot GPUs to assume where nothing was seen: no source reports them
    on_demand_usd: float | None = None  # USD per GPU-hour on demand, where the source has none

    def __post_init__(self) -> None:
        if not SHORTEST_HOURS <= self.every_hours <= LONGEST_HOURS:
            shortest, longest = format_duration(SHORTEST_HOURS), format_duration(LONGEST_HOURS)
            came = format_duration(self.every_hours)
            raise InputError(f"slots must be between {shortest} and {longest} long, got {came}")
        if not 0 <= self.since_hours <= MOST_SINCE_HOURS:
            raise InputError(f"a table must begin within a year, got {format_duration(self.since_hours)}")
        if not 0 <= self.spot_gpus <= MAX_SPOT_GPUS:
            raise InputError(f"spot_gpus must be >= 0, got {self.spot_gpus}")
        if self.on_demand_usd is not None and not 0 <= self.on_demand_usd <= MAX_USD_PER_GPU_HOUR:
            raise InputError(f"on_demand_usd must be >= 0 and finite, got {self.on_demand_usd}")


def follow(
    request: FollowRequest,
    report: Callable[[FollowStep], object],
    *,
    once: bool = False,
    feed: PriceFeed | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Write a feed's prices into a table, forever or until it has answered `once`; each step is reported.

    It may be interrupted at any moment: the table can be read, and continued later. Raises InputError for a
    feed or table that cannot be used, and with `once` FeedUnreachable if there was no answer.
    """
    source = open_feed(request.feed) if feed is None else feed
    notes = TableNotes(
        feed=request.feed.partition("?")[0],  # without its settings, which may hold private addresses
        zones=request.zones,
        slot_hours=request.every_hours,
        spot_gpus=request.spot_gpus,
    )
    with FollowedTable(request.path, notes) as table:
        follower = Follower(
            source,
            table,
            zones=request.zones,
            slot_hours=request.every_hours,
            since_hours=request.since_hours,
            on_demand_usd=request.on_demand_usd,
        )
        while True:
            step = follower.step(now())
            over = once and _is_over(step, follower)
            report(step)
            if over:
                return
            sleep(step.wait_s)


def _is_over(step: FollowStep, follower: Follower) -> bool:
    """Whether the answer that `once` waits for has arrived; raises the last error after enough tries."""
    if step.error is None:
        return True
    if follower.failures >= ONCE_TRIES or step.wait_s > ONCE_PATIENCE_S:
        raise step.error
    return False


__all__ = ["FollowRequest", "FollowStep", "follow"]
