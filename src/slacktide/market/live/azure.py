"""Prices of Azure: its public list of retail prices, which needs no account."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from slacktide.core.errors import shown
from slacktide.market.live.base import (
    FeedRefused,
    Price,
    Prices,
    RegionPrices,
    checked_zones,
    feeds,
    unpriced,
)
from slacktide.market.live.http import Source, check_url

_GPUS = """
    V100: NC6s_v3 1, NC12s_v3 2, NC24s_v3 4, NC24rs_v3 4
    V100-32GB: ND40rs_v2 8
    T4: NC4as_T4_v3 1, NC8as_T4_v3 1, NC16as_T4_v3 1, NC64as_T4_v3 4
    A10: NV36ads_A10_v5 1, NV72ads_A10_v5 2
    A100: ND96asr_v4 8
    A100-80GB: NC24ads_A100_v4 1, NC48ads_A100_v4 2, NC96ads_A100_v4 4, ND96amsr_A100_v4 8
    H100: ND96isr_H100_v5 8
    H100-NVL: NC40ads_H100_v5 1, NC80adis_H100_v5 2
    H200: ND96isr_H200_v5 8
"""
"""Machines of Azure with whole GPUs, by SkyPilot's names of the GPUs, and how many each has."""
AZURE_MACHINES = {
    f"Standard_{name}": (int(gpus), gpu)
    for gpu, _, machines in (line.strip().partition(": ") for line in _GPUS.strip().splitlines())
    for name, gpus in (machine.split() for machine in machines.split(", "))
}
SOURCE = Source("Azure")
SPOT, LOW = " Spot", " Low Priority"


@feeds.register
@dataclass(slots=True)
class Azure:
    """Spot and on-demand prices of an Azure machine by region, from its public retail price list."""

    what: str  # the machine, as Azure calls it: `Standard_ND96isr_H100_v5`
    gpus: int = 0  # GPUs of the machine; 0: the known number
    base_url: str = "https://prices.azure.com/api/retail/prices"

    history_days: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        check_url("base_url", self.base_url)
        if "'" in self.what:
            raise FeedRefused(
                f"a machine of Azure must be like Standard_ND96isr_H100_v5, got {shown(self.what)}"
            )
        if self.gpus < 0:
            raise FeedRefused(f"gpus must be >= 1, or 0 for what is known, got {self.gpus}")
        if self.gpus == 0 and self.what not in AZURE_MACHINES:
            raise FeedRefused(
                f"the GPUs of a machine must be known, got {shown(self.what)}; give them, as in "
                f"{self.what[:40]}?gpus=8"
            )

    def prices(self, zones: Sequence[str], since_utc: datetime | None = None) -> Prices:
        """Read the list's pages about this machine; each price says since when it holds."""
        now, wanted = datetime.now(UTC), checked_zones(zones)
        known, gpu = AZURE_MACHINES.get(self.what, (self.gpus, ""))
        by_region = RegionPrices()
        for item in self._items({azure_region(zone) for zone in wanted}):
            self._take(item, now, self.gpus or known, by_region)
        found = by_region.in_zones(wanted, azure_region, self.what, gpu)
        return Prices(prices=found, requested_utc=now, notes=self._notes(wanted, found))

    def _take(self, item: object, now: datetime, gpus: int, by_region: RegionPrices) -> None:
        """Add one price of the list, unless it is for Windows, low-priority machines or the future."""
        name, region = (str(SOURCE.field(item, key)) for key in ("meterName", "armRegionName"))
        SOURCE.check_usd(SOURCE.field(item, "currencyCode"))
        usd = SOURCE.price(SOURCE.field(item, "retailPrice"))
        since = SOURCE.moment(SOURCE.field(item, "effectiveStartDate"))
        other = "Windows" in str(SOURCE.field(item, "productName")) or name.endswith(LOW)
        if not other and since <= now:
            by_region.add(region, since, usd / gpus, spot=name.endswith(SPOT))

    def _items(self, regions: set[str]) -> Iterator[Any]:
        """Yield the entries of all pages; of a link to the next page only the query is used, at our URL."""
        words = [
            "serviceName eq 'Virtual Machines'", f"armSkuName eq '{self.what}'", "priceType eq 'Consumption'",
        ]  # fmt: skip
        if regions:
            words.append("(" + " or ".join(f"armRegionName eq '{name}'" for name in sorted(regions)) + ")")
        query = {"$filter": " and ".join(words), "currencyCode": "USD"}

        def read(link: str) -> dict[str, Any]:
            return SOURCE.get_json(self.base_url, dict(parse_qsl(urlsplit(link).query)) if link else query)

        return SOURCE.entries(read, "NextPageLink", "Items")

    def _notes(self, wanted: Sequence[str], found: Sequence[Price]) -> tuple[str, ...]:
        missing = unpriced(wanted, found, azure_region)
        note = "Azure's prices are those of its public list, per region; what you pay may differ by contract."
        if not missing:
            return (note,)
        return note, f"Azure lists no spot price of {self.what} in {missing}."


def azure_region(zone: str) -> str:
    """Return the region of a zone of Azure: `eastus2` of `eastus2-1`."""
    return re.sub(r"-\d$", "", zone)
