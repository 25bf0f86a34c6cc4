"""Every registered source of prices keeps the contract on recorded answers, and broken ones do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from slacktide.checks import FEED_CHECKS, CheckFailed, check_feed
from slacktide.checks.price_feed import FeedCheck
from slacktide.market.live.azure import Azure
from slacktide.market.live.base import Price, PriceFeed, Prices, feeds
from slacktide.market.live.gcp import KEY_VARIABLES, Gcp
from slacktide.market.live.skypilot import Skypilot
from tests.unit.market.live import parts_of_feeds as parts

AGO = [datetime.now(UTC) - timedelta(hours=hours) for hours in (60, 30, 20, 3)]
HISTORY = [
    parts.aws_entry(zone, time, f"{20 + at}.0")
    for zone in ("us-east-1a", "us-east-1b")
    for at, time in enumerate(AGO)
]


@contextmanager
def aws() -> Iterator[tuple[PriceFeed, Sequence[str]]]:
    feed = parts.aws(HISTORY)
    yield feed, ["us-east-1a", "us-east-1b"]


@contextmanager
def azure() -> Iterator[tuple[PriceFeed, Sequence[str]]]:
    with parts.serving(parts.azure_list) as server:
        yield Azure(parts.AZURE, base_url=server.url), ["eastus-1", "westus3"]


@contextmanager
def gcp() -> Iterator[tuple[PriceFeed, Sequence[str]]]:
    with parts.serving(parts.gcp_list) as server:
        yield Gcp("H100", server.url), ["us-central1-a", "europe-west1"]


@contextmanager
def skypilot() -> Iterator[tuple[PriceFeed, Sequence[str]]]:
    with parts.serving(parts.always(parts.CATALOG)) as server:
        yield Skypilot("aws/H100", server.url), ["us-east-1a", "us-west-2"]


RECORDED = {"aws": aws, "azure": azure, "gcp": gcp, "skypilot": skypilot}


def test_every_registered_feed_has_recorded_answers() -> None:
    assert set(RECORDED) == set(feeds)


@pytest.mark.parametrize("name", sorted(RECORDED))
@pytest.mark.parametrize("check", FEED_CHECKS, ids=lambda check: check.__name__)
def test_feeds_keep_the_contract(name: str, check: FeedCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLES[0], "sesame")
    with RECORDED[name]() as (feed, zones):
        check(feed, zones)


class Bent:
    """A feed whose answers are bent by a function."""

    history_days = 90.0

    def __init__(self, bend: Callable[[Prices], Prices]) -> None:
        self._bend, self._feed = bend, parts.aws(HISTORY)

    def prices(self, zones: Sequence[str], since_utc: datetime | None = None) -> Prices:
        return self._bend(self._feed.prices(zones, since_utc))


def each(change: Callable[[Price], Price]) -> Callable[[Prices], Prices]:
    return lambda answer: replace(answer, prices=tuple(map(change, answer.prices)))


BROKEN: dict[str, Callable[[Prices], Prices]] = {
    "says nothing": lambda answer: replace(answer, prices=()),
    "negative": each(lambda price: price._replace(spot_per_gpu_hour=-1.0)),
    "not a number": each(lambda price: price._replace(on_demand_per_gpu_hour=float("nan"))),
    "no zone of time": each(lambda price: price._replace(since_utc=price.since_utc.replace(tzinfo=None))),
    "of tomorrow": each(lambda price: price._replace(since_utc=price.since_utc + timedelta(days=9))),
    "newest first": lambda answer: replace(answer, prices=answer.prices[::-1]),
    "twice": lambda answer: replace(answer, prices=answer.prices * 2),
    "all of the past": lambda answer: replace(
        answer, prices=parts.aws(HISTORY).prices(["us-east-1"], AGO[0]).prices
    ),
    "no currency": lambda answer: replace(answer, currency="dollars"),
    "elsewhere": each(lambda price: price._replace(pool=f"moon/{price.pool}")),
}


@pytest.mark.parametrize("how", sorted(BROKEN))
def test_broken_feeds_do_not(how: str) -> None:
    with pytest.raises(CheckFailed):
        check_feed(Bent(BROKEN[how]), ["us-east-1a", "us-east-1b"])


def test_other_exceptions_break_the_contract() -> None:
    def fails(answer: Prices) -> Prices:
        raise KeyError("price")

    with pytest.raises(CheckFailed, match="KeyError"):
        check_feed(Bent(fails), ["us-east-1a"])
