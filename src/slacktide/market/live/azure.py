"""Prices of Azure: its public list of retail prices, which needs no account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from slacktide.core.errors import shown
from slacktide.market.live.base import (
    FeedRefused,
    FeedUnreachable,
    Price,
    Prices,
    azure_region,
    checked_zones,
    feeds,
    is_requested,
)
from slacktide.market.live.http import (
    MAX_PAGES,
    check_url,
    entries_of,
    field_of,
    get_json,
    moment_of,
    price_of,
)


class MachineType(NamedTuple):
    """A kind of machine."""

    gpus: int
    gpu: str = ""


AZURE_MACHINES = {
    "Standard_NC6s_v3": MachineType(1, "V100"),
    "Standard_NC12s_v3": MachineType(2, "V100"),
    "Standard_NC24s_v3": MachineType(4, "V100"),
    "Standard_NC24rs_v3": MachineType(4, "V100"),
    "Standard_ND40rs_v2": MachineType(8, "V100-32GB"),
    "Standard_NC4as_T4_v3": MachineType(1, "T4"),
    "Standard_NC8as_T4_v3": MachineType(1, "T4"),
    "Standard_NC16as_T4_v3": MachineType(1, "T4"),
    "Standard_NC64as_T4_v3": MachineType(4, "T4"),
    "Standard_NV36ads_A10_v5": MachineType(1, "A10"),
    "Standard_NV72ads_A10_v5": MachineType(2, "A10"),
    "Standard_NC24ads_A100_v4": MachineType(1, "A100-80GB"),
    "Standard_NC48ads_A100_v4": MachineType(2, "A100-80GB"),
    "Standard_NC96ads_A100_v4": MachineType(4, "A100-80GB"),
    "Standard_ND96asr_v4": MachineType(8, "A100"),
    "Standard_ND96amsr_A100_v4": MachineType(8, "A100-80GB"),
    "Standard_NC40ads_H100_v5": MachineType(1, "H100-NVL"),
    "Standard_NC80adis_H100_v5": MachineType(2, "H100-NVL"),
    "Standard_ND96isr_H100_v5": MachineType(8, "H100"),
    "Standard_ND96isr_H200_v5": MachineType(8, "H200"),
}
"""Machines of Azure with whole GPUs, and what SkyPilot calls these."""


def machine_type(name: str, gpus: int, known: Mapping[str, MachineType]) -> MachineType:
    """Return a machine, with the GPUs that the caller gives; raises FeedRefused where they are not known."""
    if gpus < 0:
        raise FeedRefused(f"gpus must be >= 1, or 0 for what is known, got {gpus}")
    if gpus == 0 and name not in known:
        raise FeedRefused(
            f"the GPUs of a machine must be known, got {shown(name)}; give them, as in {name[:40]}?gpus=8"
        )
    found = known.get(name, MachineType(gpus))
    return found._replace(gpus=gpus or found.gpus)


SOURCE = "Azure"
SPOT, LOW = " Spot", " Low Priority"


@feeds.register
@dataclass(slots=True)
class Azure:
    """Spot and on-demand prices of an Azure machine by region, from its public retail price list."""

    what: str  # the machine, as Azure calls it: `Standard_ND96isr_H100_v5`
    gpus: int = 0  # GPUs of the machine; 0: as is known of it
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
        now, wanted = datetime.now(UTC), checked_zones(zones)
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
            str(field_of(SOURCE, item, "meterName")),
            str(field_of(SOURCE, item, "armRegionName")),
        )
        currency = str(field_of(SOURCE, item, "currencyCode"))
        if currency != "USD":
            raise FeedUnreachable(f"prices of {SOURCE} must be in USD, got {shown(currency)}")
        usd = price_of(SOURCE, field_of(SOURCE, item, "retailPrice"))
        since = moment_of(SOURCE, field_of(SOURCE, item, "effectiveStartDate"))
        other = "Windows" in str(field_of(SOURCE, item, "productName")) or name.endswith(LOW)
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
            yield from entries_of(SOURCE, page, "Items")
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
        missing = [zone for zone in wanted if not is_requested(tuple(priced), azure_region(zone), zone)]
        notes = [
            "Azure's prices are those of its public list, per region; what you pay may differ by contract."
        ]
        return (
            *notes,
            *([f"Azure lists no spot price of {self.what} in {', '.join(missing)}."] if missing else []),
        )


def _each(usd: float | None, machine: MachineType) -> float | None:
    return None if usd is None else usd / machine.gpus
