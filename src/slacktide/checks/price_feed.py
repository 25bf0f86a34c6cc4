"""The contract of a feed, a source of live prices, as checks that anyone can run on their own.

    from slacktide.checks import check_feed
    check_feed(open_feed("aws:p5.48xlarge"), ["us-east-1a", "us-east-1b"])

Prices must be plausible, in order, and only of the zones requested. The checks send a handful of requests to
the real source, which cost nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TypeAlias

from slacktide.checks.base import must
from slacktide.core.errors import shown
from slacktide.market.live.base import FeedRefused, FeedUnreachable, Price, PriceFeed, Prices

NOWHERE = "no-such-zone-9z"
CLOCKS_APART = timedelta(minutes=5)  # how far a price may be dated after the request for it

FeedCheck: TypeAlias = Callable[[PriceFeed, Sequence[str]], None]


def check_feed(feed: PriceFeed, zones: Sequence[str]) -> None:
    """Run every check on zones that have prices; raises CheckFailed at the first broken promise."""
    for check in FEED_CHECKS:
        check(feed, zones)


def check_prices_now(feed: PriceFeed, zones: Sequence[str]) -> None:
    """A request without a time returns one price for each pool, the current one."""
    answer = _fetched(feed, zones)
    must(answer.prices, f"a feed must have prices in {', '.join(zones)}, got none")
    often = [pool for pool, count in Counter(price.pool for price in answer.prices).items() if count > 1]
    must(not often, f"the prices of now must be one for each pool, got more of {often[:3]}")


def check_numbers(feed: PriceFeed, zones: Sequence[str]) -> None:
    """Prices are finite and not negative, in a named currency, and of pools with printable names."""
    answer = _fetched(feed, zones)
    code = answer.currency
    must(len(code) == 3 and code.isupper(), f"a currency must be a code such as USD, got {shown(code)}")
    for price in answer.prices:
        named = price.pool.strip() and price.pool.isprintable()
        must(named, f"a pool must have a name to print, got {shown(price.pool)}")
        _check_money(price, price.spot_per_gpu_hour)
        if price.on_demand_per_gpu_hour is not None:
            _check_money(price, price.on_demand_per_gpu_hour)


def check_times(feed: PriceFeed, zones: Sequence[str]) -> None:
    """Times have a time zone, are not in the future, and strictly increase within a pool."""
    answer = _fetched(feed, zones, _since(feed))
    aware = answer.requested_utc.tzinfo is not None
    must(aware, f"the time of the request must have a time zone, got {answer.requested_utc}")
    must(
        abs(answer.requested_utc - datetime.now(UTC)) < timedelta(hours=1),
        f"the time of the request must be now, got {answer.requested_utc}",
    )
    for price in answer.prices:
        must(price.since_utc.tzinfo is not None, f"times must have a time zone, got {price.since_utc}")
        ahead = price.since_utc > answer.requested_utc + CLOCKS_APART
        must(not ahead, f"a price must not be of the future, got {price.since_utc}")
    for times in _times(answer).values():
        must(all(one < two for one, two in pairwise(times)), "prices must go forward in time, got them mixed")


def check_since(feed: PriceFeed, zones: Sequence[str]) -> None:
    """A request with a time returns at most one price per pool from before it, and leaves out no pool."""
    since = _since(feed)
    past, now = _fetched(feed, zones, since), _fetched(feed, zones)
    for pool, times in _times(past).items():
        early = sum(time <= since for time in times)
        must(early <= 1, f"one price at most must be of before the time requested, got {early} of {pool}")
    missing = {price.pool for price in now.prices} - {price.pool for price in past.prices}
    must(
        not missing, f"pools that have a price now must have one since a time, got none of {sorted(missing)}"
    )


def check_zones(feed: PriceFeed, zones: Sequence[str]) -> None:
    """Only pools of the requested zones are returned, and none for a zone that does not exist."""
    for zone in zones:
        prices = _fetched(feed, [zone]).prices
        fits = all(price.pool.startswith(zone) for price in prices)
        must(fits, f"only pools of {zone} must be returned, got {[price.pool for price in prices][:3]}")
    try:
        prices = feed.prices([NOWHERE]).prices
    except (FeedRefused, FeedUnreachable):
        return
    must(not prices, f"a zone that does not exist must have no price, got {len(prices)}")


def check_history(feed: PriceFeed, zones: Sequence[str]) -> None:
    """A feed says how many days of past prices it has, and a request for more raises no unexpected error."""
    days = feed.history_days
    must(math.isfinite(days) and days >= 0, f"history_days must be >= 0 and finite, got {days}")
    _fetched(feed, zones, datetime.now(UTC) - timedelta(days=days + 3650))


def _fetched(feed: PriceFeed, zones: Sequence[str], since: datetime | None = None) -> Prices:
    with _expected_errors():
        return feed.prices(zones, since)


@contextmanager
def _expected_errors() -> Iterator[None]:
    """Raise CheckFailed for any error but FeedRefused and FeedUnreachable, which are passed on."""
    try:
        yield
    except (FeedRefused, FeedUnreachable):
        raise
    except Exception as error:
        kind = type(error).__name__
        must(False, f"a feed must raise FeedRefused or FeedUnreachable, got {kind}: {error}")


def _since(feed: PriceFeed) -> datetime:
    return datetime.now(UTC) - timedelta(days=min(feed.history_days, 1.0))


def _times(answer: Prices) -> dict[str, list[datetime]]:
    found: dict[str, list[datetime]] = {}
    for price in answer.prices:
        found.setdefault(price.pool, []).append(price.since_utc)
    return found


def _check_money(price: Price, amount: float) -> None:
    must(math.isfinite(amount) and amount >= 0, f"a price must be >= 0, got {amount} of {price.pool}")


FEED_CHECKS: tuple[FeedCheck, ...] = (
    check_prices_now, check_numbers, check_times, check_since, check_zones, check_history,
)  # fmt: skip
