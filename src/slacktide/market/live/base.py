"""Live price feeds: the contract of a source of prices for a kind of machine, now or since a time.

A feed reports prices. No source reports how many spot GPUs are available: our own requests show it.
A feed does not wait, retry or store anything; the follower does (`slacktide.market.live.follower`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import parse_qsl

from slacktide.core.errors import BackendError, InputError, shown
from slacktide.core.own_class import with_full_path
from slacktide.core.register import Register

USD = "USD"


class Price(NamedTuple):
    """What GPUs of a pool cost from a moment on, until the next price of the same pool."""

    pool: str
    """`zone/type`, as providers of machines name it, or `region/type` where prices are the region's."""
    since_utc: datetime
    """From when on; the time of the request where the source does not say."""
    spot_per_gpu_hour: float
    on_demand_per_gpu_hour: float | None = None
    """None where the source does not have it."""
    gpu: str = ""
    """The GPU type, such as H100; empty where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The answer of a feed."""

    prices: tuple[Price, ...]
    requested_utc: datetime
    currency: str = USD
    notes: tuple[str, ...] = ()
    """What is assumed in these prices, and which part of the request the source cannot answer."""


class FeedRefused(InputError):
    """The source will not answer this request, and repeating it will not help: settings or credentials."""


class FeedUnreachable(BackendError):
    """No answer, an unreadable one, or a temporary refusal: try again later."""

    def __init__(self, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """How long the source wants no requests; 0 where it does not say."""


class PriceFeed(Protocol):
    """A source of prices. A class registered in `feeds` is made with `what` to price, and its settings."""

    @property
    def history_days(self) -> float:
        """How far back the source reports prices; 0: only those of now."""
        ...

    def prices(self, zones: Sequence[str], since_utc: datetime | None = None) -> Prices:
        """Return the prices in these zones or regions, or in all if none is named.

        The present ones; or with a time all that held then or later, as far back as the source reports.
        In order of time within a pool. Returns within a minute. Raises FeedRefused or FeedUnreachable.
        """
        ...


feeds: Register[PriceFeed] = Register(
    "price feed", packages=("slacktide.market.live",), entry_points="slacktide.feeds", verbs=("prices",)
)


def open_feed(spec: str) -> PriceFeed:
    """Make a feed from `name:what`, such as `aws:p5.48xlarge`, with settings after a question mark.

    `azure:Standard_ND96isr_H100_v5?base_url=http://mirror/prices`. Raises InputError.
    """
    plain, _, query = spec.partition("?")
    name, _, what = plain.partition(":")
    if name not in feeds and ":" in what:  # a class of the user's own: module:Class:what
        own, _, what = what.partition(":")
        name = f"{name}:{own}"
    if not name or not what.strip():
        raise InputError(
            f"a price feed must be NAME:TYPE, as in aws:p5.48xlarge, got {shown(spec)}; "
            f"names: {', '.join(feeds)}"
        )
    given = dict(parse_qsl(query, keep_blank_values=True))
    settings = {"what": what.strip(), **{key: _typed(text) for key, text in given.items()}}
    return feeds.make(with_full_path({name: settings}, Path()))


def _typed(text: str) -> str | int | float:
    """Return a setting as a number where it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


AWS_REGION = re.compile(r"[a-z]+(?:-[a-z]+)+-\d+")
"""How the zones of AWS begin: `us-east-1a`, and `us-west-2-lax-1a`."""
_ZONE = re.compile(r"[A-Za-z0-9._-]{1,64}")


def checked_zones(zones: Sequence[str]) -> tuple[str, ...]:
    """Return the zones, each once; raises FeedRefused for what no cloud calls a zone."""
    for zone in zones:
        if not _ZONE.fullmatch(zone):
            raise FeedRefused(f"a zone must be letters, digits and dashes, got {shown(zone)}")
    return tuple(dict.fromkeys(zones))


def aws_region(zone: str) -> str:
    """Return the region of a zone of AWS; a region is its own."""
    region = AWS_REGION.match(zone)
    if region is None:
        raise FeedRefused(
            f"a zone of AWS must be like us-east-1a, or a region like us-east-1, got {shown(zone)}"
        )
    return region[0]


def is_requested(zones: Sequence[str], region: str, zone: str = "") -> bool:
    """Whether a zone or its region was requested; true for all if none was named."""
    return not zones or region in zones or (bool(zone) and zone in zones)


def unpriced(zones: Sequence[str], prices: Sequence[Price], region_of: Callable[[str], str]) -> str:
    """Return the requested places without a price, with commas; a region has one if any of its zones has."""
    priced = {price.pool.partition("/")[0] for price in prices}
    priced |= set(map(region_of, priced))
    return ", ".join(zone for zone in zones if zone not in priced)


class RegionPrices:
    """Collects the newest price of each region from a list, and returns the prices of zones."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, bool], tuple[datetime, float]] = {}

    def add(self, region: str, since_utc: datetime, usd: float, *, spot: bool) -> None:
        """Add a price per GPU-hour, spot or on demand, that holds from a moment on."""
        key = region, spot
        self._newest[key] = max(self._newest.get(key, (since_utc, usd)), (since_utc, usd))

    def in_zones(
        self, zones: Sequence[str], region_of: Callable[[str], str], what: str, gpu: str
    ) -> tuple[Price, ...]:
        """Return the prices of zones, which are those of their regions; of all regions if none is named."""
        spot = {region: price for (region, is_spot), price in sorted(self._newest.items()) if is_spot}
        return tuple(
            Price(f"{zone}/{what}", since, usd, self._newest.get((region, False), (since, None))[1], gpu)
            for region, (since, usd) in spot.items()
            for zone in ([zone for zone in zones if region_of(zone) == region] if zones else [region])
        )
