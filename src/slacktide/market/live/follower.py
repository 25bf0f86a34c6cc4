"""Follows a feed into a table: queries it each slot, fills what is missing, waits longer after failures.

Nothing that a source does ends it. While there is no answer, the table stands still and its notes say why;
when there is one again, the gap is filled as far back as the source reports. The caller owns the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from slacktide.core.errors import FileError, SlacktideError, shown
from slacktide.core.waits import GrowingWait
from slacktide.market.formats.samples import MICROS_PER_HOUR, micros_of, time_of
from slacktide.market.live.base import USD, FeedRefused, FeedUnreachable, Price, PriceFeed, Prices, as_of
from slacktide.market.live.followed_table import CLOCKS_APART, FollowedTable, is_sound, rows_due

LATE_S = 1.0  # a slot's price is requested this long after the slot began
FIRST_WAIT_S, LONGEST_WAIT_S = 2.0, 900.0  # before a source that failed is tried again


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowStep:
    """What came of asking once."""

    at_utc: datetime
    rows: int = 0  # rows that were written
    latest: tuple[Price, ...] = ()  # the price of each pool that holds now; none where there was no answer
    error: SlacktideError | None = None  # why there was no answer
    wait_s: float = 0.0  # how long to wait before asking again


class Follower:
    """Keeps a table up to date with what a feed says of some zones."""

    def __init__(
        self,
        feed: PriceFeed,
        table: FollowedTable,
        *,
        zones: Sequence[str] = (),
        slot_hours: float,
        since_hours: float,
        on_demand_usd: float | None = None,
        wait: GrowingWait | None = None,
    ) -> None:
        """Say what to follow, and how far back a new table begins; an on-demand price where it has none."""
        self._feed, self._table, self._zones = feed, table, tuple(zones)
        self._step_micros = round(slot_hours * MICROS_PER_HOUR)
        self._since_hours, self._on_demand_usd = since_hours, on_demand_usd
        self._wait = wait or GrowingWait(FIRST_WAIT_S, LONGEST_WAIT_S)
        self._answered = False
        self._reported: set[str] = set()

    @property
    def failures(self) -> int:
        """How often in a row there was no answer."""
        return self._wait.failures

    def step(self, now_utc: datetime) -> FollowStep:
        """Query once, and write what is new. Raises FeedRefused where the very first request is refused."""
        try:
            return self._take(self._queried(now_utc), now_utc)
        except FeedRefused as error:
            if not self._answered:
                raise
            return self._failed(error, now_utc)
        except (FeedUnreachable, FileError) as error:
            return self._failed(error, now_utc)

    def _queried(self, now_utc: datetime) -> Prices:
        """Request all prices since the last rows; a feed of the user's own may fail in any way."""
        try:
            answer = self._feed.prices(self._zones, self._since(now_utc))
            bad = next((price for price in answer.prices if not is_sound(price)), None)
        except SlacktideError:
            raise
        except Exception as error:
            kind = type(error).__name__
            raise FeedUnreachable(f"a feed must answer, got {kind}: {shown(str(error))}") from error
        if bad is not None:
            raise FeedUnreachable(f"a feed must report prices that can be, got {shown(tuple(bad))}")
        if answer.currency != USD:
            raise FeedRefused(f"prices must be in USD, got {shown(answer.currency)}; use another feed")
        return answer

    def _since(self, now_utc: datetime) -> datetime:
        """Return from when on prices are missing."""
        last = self._table.last_micros
        ours = [last[pool] for pool in self._reported if pool in last] or list(last.values())
        return time_of(min(ours)) if ours else self._begin(now_utc)

    def _begin(self, now_utc: datetime) -> datetime:
        return now_utc - timedelta(hours=self._since_hours)

    def _take(self, answer: Prices, now_utc: datetime) -> FollowStep:
        prices, notes = self._priced(answer)
        latest = as_of(replace(answer, prices=prices), now_utc + CLOCKS_APART).prices
        if not latest and not self._answered:
            raise FeedRefused(
                f"a feed must have a price to follow, got none; {' '.join(notes) or 'check it'}"
            )
        last = self._table.last_micros
        rows = rows_due(prices, last, self._begin(now_utc), now_utc, self._step_micros)
        self._table.append(rows)
        stamp = f"{now_utc:%Y-%m-%dT%H:%M:%SZ}"
        self._table.note(replace(self._table.notes, notes=notes, trouble="", answered_utc=stamp))
        self._answered, self._reported = True, {price.pool for price in latest}
        self._wait.reset()
        return FollowStep(
            at_utc=now_utc, rows=len(rows), latest=latest, wait_s=self._until_next_slot_s(now_utc)
        )

    def _priced(self, answer: Prices) -> tuple[tuple[Price, ...], tuple[str, ...]]:
        """Return the prices that have one on demand, or are given one, and what is to be noted."""
        usd = self._on_demand_usd
        given = [
            price if price.on_demand_per_gpu_hour is not None else price._replace(on_demand_per_gpu_hour=usd)
            for price in answer.prices
        ]
        without = sorted({price.pool for price in given if price.on_demand_per_gpu_hour is None})
        notes = answer.notes
        if without:
            names = ", ".join(without[:5])
            notes += (f"Left out, for want of an on-demand price (--on-demand-usd): {names}.",)
        return tuple(price for price in given if price.on_demand_per_gpu_hour is not None), notes

    def _failed(self, error: SlacktideError, now_utc: datetime) -> FollowStep:
        wait_s = self._wait.after_failure(getattr(error, "retry_after_s", 0.0))
        try:
            self._table.note(replace(self._table.notes, trouble=str(error)))
        except FileError as unwritable:  # a full disk: it is reported on the screen, and rows come later
            error = unwritable
        return FollowStep(at_utc=now_utc, error=error, wait_s=wait_s)

    def _until_next_slot_s(self, now_utc: datetime) -> float:
        past_micros = micros_of(now_utc) % self._step_micros
        return (self._step_micros - past_micros) / 1e6 + LATE_S
