"""Prices of Azure: its public list of retail prices, which needs no account."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from slacktide.core.errors import shown
from slacktide.market.live import cells
from slacktide.market.live.base import FeedRefused, FeedUnreachable, Price, Prices, feeds
from slacktide.market.live.http import MAX_PAGES, check_url, get_json
from slacktide.market.live.machine_types import AZURE_MACHINES, MachineType, machine_type
from slacktide.market.live.zones import azure_region, checked, meant

SOURCE = "Azure"
SPOT, LOW = " Spot", " Low Priority"


@feeds.register
@dataclass(slots=True)
class Azure:
    """Spot and on-demand prices of an Azure machine by region, from its public retail price list."""

    what: str
    """The machine, as Azure calls it: `Standard_ND96isr_H100_v5`."""
    gpus: int = 0
    """GPUs of the machine; 0: as is known of it."""
    base_url: str = "https://prices.azure.com/api/retail/prices"

    history_days: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        check_url("base_url", self.base_url)
        if "'" in self.what:
            raise FeedRefused(
                f"a machine of Azure must be like Standard_ND96isr_H100_v5, got {shown(self.what)}"
            )
        self._machine()

    def prices(self, zones: Sequence[str], since_utc: datetime | None = None) -> Prices:
        """Read the list's pages about this machine; each price says since when it holds."""
        now, wanted = datetime.now(UTC), checked(zones)
        spot: dict[str, tuple[datetime, float]] = {}
        on_demand: dict[str, float] = {}
        for item in self._items({azure_region(zone) for zone in wanted}):
            self._take(item, now, spot, on_demand)
        machine = self._machine()
        found = [
            Price(
                f"{zone}/{self.what}",
                since,
                usd / machine.gpus,
                _each(on_demand.get(region), machine),
                machine.gpu,
            )
            for region, (since, usd) in sorted(spot.items())
            for zone in ([one for one in wanted if azure_region(one) == region] or [region])
        ]
        return Prices(prices=tuple(found), requested_utc=now, notes=self._notes(wanted, found))

    def _take(
        self,
        item: object,
        now: datetime,
        spot: dict[str, tuple[datetime, float]],
        on_demand: dict[str, float],
    ) -> None:
        """Sort one price of the list in, if it is of Linux machines by the hour."""
        name, region = (
            str(cells.field(SOURCE, item, "meterName")),
            str(cells.field(SOURCE, item, "armRegionName")),
        )
        currency = str(cells.field(SOURCE, item, "currencyCode"))
        if currency != "USD":
            raise FeedUnreachable(f"prices of {SOURCE} must be in USD, got {shown(currency)}")
        usd = cells.price(SOURCE, cells.field(SOURCE, item, "retailPrice"))
        since = cells.moment(SOURCE, cells.field(SOURCE, item, "effectiveStartDate"))
        other = "Windows" in str(cells.field(SOURCE, item, "productName")) or name.endswith(LOW)
        if other or since > now:
            return
        if name.endswith(SPOT):
            spot[region] = max(spot.get(region, (since, usd)), (since, usd))
        else:
            on_demand[region] = usd

    def _items(self, regions: set[str]) -> Iterator[Any]:
        """Yield the entries of all pages; the address of the next one is taken at our own base only."""
        query = {"$filter": self._filter(regions), "currencyCode": "USD"}
        for _ in range(MAX_PAGES):
            page = get_json(SOURCE, self.base_url, query)
            yield from cells.entries(SOURCE, page, "Items")
            link = page.get("NextPageLink")
            if not link:
                return
            query = dict(parse_qsl(urlsplit(str(link)).query))
        raise FeedUnreachable(f"an answer of {SOURCE} must have at most {MAX_PAGES} pages, got more")

    def _filter(self, regions: set[str]) -> str:
        words = [
            "serviceName eq 'Virtual Machines'", f"armSkuName eq '{self.what}'", "priceType eq 'Consumption'",
        ]  # fmt: skip
        if regions:
            words.append("(" + " or ".join(f"armRegionName eq '{one}'" for one in sorted(regions)) + ")")
        return " and ".join(words)

    def _machine(self) -> MachineType:
        return machine_type(self.what, self.gpus, AZURE_MACHINES)

    def _notes(self, wanted: Sequence[str], found: Sequence[Price]) -> tuple[str, ...]:
        priced = {price.pool.partition("/")[0] for price in found}
        missing = [zone for zone in wanted if not meant(tuple(priced), azure_region(zone), zone)]
        notes = [
            "Azure's prices are those of its public list, per region; what you pay may differ by contract."
        ]
        return (
            *notes,
            *([f"Azure lists no spot price of {self.what} in {', '.join(missing)}."] if missing else []),
        )


def _each(usd: float | None, machine: MachineType) -> float | None:
    return None if usd is None else usd / machine.gpus
