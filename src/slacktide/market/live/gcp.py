"""Prices of GPUs on GCP: the public list of its SKUs, which requires an API key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from slacktide.core.errors import shown
from slacktide.market.live.base import (
    FeedRefused,
    FeedUnreachable,
    Price,
    Prices,
    RegionPrices,
    checked_zones,
    feeds,
    unpriced,
)
from slacktide.market.live.http import Source, check_url

SOURCE = Source("GCP")
KEY_VARIABLES = ("SLACKTIDE_GCP_API_KEY", "GOOGLE_API_KEY")
COMPUTE_ENGINE = "6F81-5844-456A"  # the id of Compute Engine among Google's services
GPU_WORDS = {
    "H200": ("H200 141GB", "H200"), "H100": ("H100 80GB", "H100"),
    "H100-MEGA": ("H100 80GB Mega", "H100 80GB Plus"), "A100": ("A100",), "A100-80GB": ("A100 80GB",),
    "L4": ("L4",), "T4": ("T4",), "V100": ("V100",), "P100": ("P100",), "P4": ("P4",),
}  # fmt: skip
"""How the list writes a GPU in the description of its price, between `Nvidia`, perhaps `Tesla`, and `GPU`."""
NAMED = re.compile(r"nvidia (?:tesla )?(.+?) gpu\b(.*)", re.IGNORECASE)
USAGE = {"Preemptible": "spot", "OnDemand": "on-demand"}


@feeds.register
@dataclass(slots=True)
class Gcp:
    """Spot and on-demand prices of a GPU of GCP by region, without its machine; needs a Google API key."""

    what: str  # the GPU: H100, A100, A100-80GB, L4, T4, V100 ...
    base_url: str = "https://cloudbilling.googleapis.com/v1"

    history_days: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        check_url("base_url", self.base_url)
        if self.what not in GPU_WORDS:
            raise FeedRefused(
                f"a GPU of GCP must be one of {', '.join(GPU_WORDS)}, got {shown(self.what)}; for whole "
                "machines use skypilot:gcp/TYPE"
            )

    def prices(self, zones: Sequence[str], since_utc: datetime | None = None) -> Prices:
        """Read all pages of the list and take the prices of this GPU."""
        now, wanted = datetime.now(UTC), checked_zones(zones)
        by_region = RegionPrices()
        for sku in self._skus():
            self._take(sku, now, by_region)
        found = by_region.in_zones(wanted, gcp_region, self.what, self.what)
        return Prices(prices=found, requested_utc=now, notes=self._notes(wanted, found))

    def _take(self, sku: object, now: datetime, by_region: RegionPrices) -> None:
        """Add one price of the list, if it is for this GPU."""
        kind = self._kind(sku)
        if not kind:
            return
        info = _last(SOURCE.field(sku, "pricingInfo"))
        since = SOURCE.moment(SOURCE.field(info, "effectiveTime"))
        usd = _usd_per_hour(SOURCE.field(info, "pricingExpression"))
        for region in SOURCE.field(sku, "serviceRegions"):
            by_region.add(str(region), min(since, now), usd, spot=kind == "spot")

    def _kind(self, sku: object) -> str:
        """Return what a price is for: spot or on demand of this GPU, or empty for something else."""
        category = SOURCE.field(sku, "category")
        if not isinstance(category, Mapping) or category.get("resourceGroup") != "GPU":
            return ""
        named = NAMED.search(str(SOURCE.field(sku, "description")))
        if named is None or named[1].upper() not in map(str.upper, GPU_WORDS[self.what]):
            return ""
        kind = USAGE.get(str(category.get("usageType")), "")
        # What is attached to reservations and the like is billed as on demand, at other prices.
        return "" if kind == "on-demand" and "attached to" in named[2].lower() else kind

    def _skus(self) -> Iterator[Any]:
        key = next((os.environ[name] for name in KEY_VARIABLES if os.environ.get(name)), "")
        if not key:
            raise FeedRefused(
                f"the feed gcp must have a Google API key, got none; set {KEY_VARIABLES[0]} to one of a "
                "project with the Cloud Billing API, or use skypilot:gcp/TYPE, which needs none"
            )
        url = f"{self.base_url}/services/{COMPUTE_ENGINE}/skus"
        query = {"key": key, "currencyCode": "USD", "pageSize": "5000"}

        def read(token: str) -> dict[str, Any]:
            return SOURCE.get_json(url, {**query, "pageToken": token} if token else query, secret=key)

        return SOURCE.entries(read, "nextPageToken", "skus")

    def _notes(self, wanted: Sequence[str], found: Sequence[Price]) -> tuple[str, ...]:
        notes = [
            f"GCP's prices are those of the GPU {self.what} alone: its machine's cores and memory cost more."
        ]
        missing = unpriced(wanted, found, gcp_region)
        if missing:
            notes.append(f"GCP lists no spot price of {self.what} in {missing}.")
        return tuple(notes)


def gcp_region(zone: str) -> str:
    """Return the region of a zone of GCP: `us-central1` of `us-central1-a`."""
    return re.sub(r"-[a-z]$", "", zone)


def _last(infos: object) -> object:
    if not isinstance(infos, list) or not infos:
        raise FeedUnreachable(f"pricingInfo of {SOURCE} must have a price, got {shown(infos)}")
    return infos[-1]


def _usd_per_hour(expression: object) -> float:
    """Return the price of the last tier, in USD."""
    unit = SOURCE.field(_last(SOURCE.field(expression, "tieredRates")), "unitPrice")
    if not isinstance(unit, Mapping):
        return SOURCE.price(None)  # which raises
    SOURCE.check_usd(unit.get("currencyCode", "USD"))
    dollars, nanos = SOURCE.price(unit.get("units", 0)), unit.get("nanos", 0)
    if isinstance(nanos, bool) or not isinstance(nanos, int):
        raise FeedUnreachable(f"a price of {SOURCE} must have whole nanos, got {shown(nanos)}")
    return dollars + SOURCE.price(nanos * 1e-9)
