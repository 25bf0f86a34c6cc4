"""Prices from SkyPilot's catalog: one table for each cloud, which needs no account."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar
from urllib.parse import urlsplit

from slacktide.core.errors import FileError, shown
from slacktide.core.files import read_at_most
from slacktide.market.live.base import (
    FeedRefused,
    FeedUnreachable,
    Price,
    Prices,
    checked_zones,
    feeds,
    is_requested,
    unpriced,
)
from slacktide.market.live.http import MAX_BYTES, Source, check_url

SOURCE = Source("SkyPilot's catalog")
COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice", "Region")


@feeds.register
@dataclass(slots=True)
class Skypilot:
    """Spot and on-demand prices of a machine or GPU of any cloud by zone, from SkyPilot's public catalog."""

    what: str
    """`CLOUD/TYPE` for a machine, `CLOUD/GPU` or `CLOUD/GPU:COUNT` for all with that GPU: `aws/H100:8`."""
    base_url: str = "https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master/catalogs/v7"
    """Where the catalog is, an address or a folder, such as `~/.sky/catalogs/v7`; a `.csv` is one cloud's."""

    history_days: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        cloud, _, kind = self.what.partition("/")
        if not cloud.isalnum() or not kind:
            raise FeedRefused(
                f"a machine must be CLOUD/TYPE, as in aws/p5.48xlarge or gcp/H100:8, got {shown(self.what)}"
            )
        if self._remote:
            check_url("base_url", self.base_url)

    def prices(self, zones: Sequence[str], since_utc: datetime | None = None) -> Prices:
        """Read the cloud's table and take the rows of this machine or GPU."""
        now, wanted = datetime.now(UTC), checked_zones(zones)
        found, region_of = dict[str, Price](), dict[str, str]()
        for row in self._rows():
            region, zone = row["Region"], row.get("AvailabilityZone") or ""
            if self._meant(row) and is_requested(wanted, region, zone):
                price = _price(row, now)
                if price is not None:
                    found.setdefault(price.pool, price)
                    region_of[zone or region] = region
        notes = [
            "SkyPilot's catalog is a copy of the clouds' prices, some hours old; each price is taken to hold "
            "since it was read."
        ]
        missing = unpriced(wanted, tuple(found.values()), region_of.__getitem__)
        if missing:
            notes.append(f"SkyPilot's catalog has no spot price of {self.what} in {missing}.")
        return Prices(prices=tuple(found.values()), requested_utc=now, notes=tuple(notes))

    @property
    def _remote(self) -> bool:
        return urlsplit(self.base_url).scheme in ("http", "https")

    def _rows(self) -> Iterator[Mapping[str, str]]:
        try:
            text = self._bytes().decode("utf-8-sig")
            table = csv.DictReader(io.StringIO(text, newline=""))
            missing = [name for name in COLUMNS if name not in (table.fieldnames or ())]
            if missing:
                raise FeedUnreachable(f"{SOURCE} must have the column {missing[0]}, got {shown(text[:60])}")
            for row in table:
                yield {key: value or "" for key, value in row.items() if key is not None}
        except (UnicodeDecodeError, csv.Error) as error:
            raise FeedUnreachable(f"{SOURCE} must be a table in UTF-8, got: {error}") from None

    def _bytes(self) -> bytes:
        cloud, own = self.what.partition("/")[0].lower(), self.base_url.endswith(".csv")
        place = self.base_url if own else f"{self.base_url.rstrip('/')}/{cloud}/vms.csv"
        if self._remote:
            return SOURCE.get_bytes(place, {})
        try:
            return read_at_most(os.path.expanduser(place), MAX_BYTES, f"{MAX_BYTES >> 20} MiB")
        except FileError as error:
            raise FeedRefused(f"{SOURCE}: {error}") from None

    def _meant(self, row: Mapping[str, str]) -> bool:
        kind = self.what.partition("/")[2]
        gpu, _, count = kind.partition(":")
        has = row["AcceleratorName"] == gpu and (not count or _count(row) == _number(count))
        return bool(row["AcceleratorName"]) and (row["InstanceType"] == kind or has)


def _price(row: Mapping[str, str], now: datetime) -> Price | None:
    """Return the price of a row; None without a spot price or without a whole GPU."""
    gpus, zone = _count(row), row.get("AvailabilityZone") or row["Region"]
    if not row["SpotPrice"].strip() or gpus < 1:
        return None
    on_demand = SOURCE.price(row["Price"]) / gpus if row["Price"].strip() else None
    name = row["InstanceType"] or f"{row['AcceleratorName']}:{gpus:g}"
    return Price(
        f"{zone}/{name}", now, SOURCE.price(row["SpotPrice"]) / gpus, on_demand, row["AcceleratorName"]
    )


def _count(row: Mapping[str, str]) -> float:
    return _number(row["AcceleratorCount"] or "0")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise FeedUnreachable(f"a number of GPUs in {SOURCE} must be a number, got {shown(text)}") from None
