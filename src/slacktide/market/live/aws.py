"""Spot prices of AWS: its `describe_spot_price_history`, of the last 90 days."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from slacktide.core.errors import InputError
from slacktide.market.formats.default_prices import AWS_INSTANCES, AWS_LIST, MachineType, gpu_of, instance
from slacktide.market.live.base import (
    FeedRefused,
    FeedUnreachable,
    Price,
    Prices,
    aws_region,
    checked_zones,
    feeds,
    is_requested,
    unpriced,
)
from slacktide.market.live.ec2_api import ec2_client, ec2_errors
from slacktide.market.live.http import Source

SOURCE = Source("AWS")
CONNECT_S, READ_S = 5, 20


@feeds.register
@dataclass(slots=True)
class Aws:
    """Spot prices of an AWS instance type, 90 days back; needs `slacktide[aws]` and AWS credentials."""

    what: str  # the instance type, such as `p5.48xlarge`
    product: str = "Linux/UNIX"
    gpus: int = 0  # GPUs of the type; 0: the known number
    on_demand_usd: float = 0.0
    """USD per GPU-hour on demand, which AWS does not report here; 0: the known list price."""
    base_url: str = ""  # the address of the service; empty: Amazon's
    _clients: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    history_days: ClassVar[float] = 90.0

    def __post_init__(self) -> None:
        if self.gpus < 0 or self.on_demand_usd < 0:
            raise InputError("gpus and on_demand_usd must be >= 0, got a negative one")
        self._machine()

    def prices(self, zones: Sequence[str], since_utc: datetime | None = None) -> Prices:
        """Query each region about its zones; a price holds from its time until the next one."""
        now = datetime.now(UTC)
        wanted = checked_zones(zones)
        if not wanted:
            raise FeedRefused("zones must be given for AWS, got none; add --zones us-east-1a,us-east-1b")
        begin = now if since_utc is None else max(since_utc, now - timedelta(days=self.history_days))
        by_time = {
            (price.since_utc, price.pool): price  # pages may overlap
            for region in dict.fromkeys(map(aws_region, wanted))
            for price in self._in_region(region, wanted, begin, now)
        }
        found = [by_time[key] for key in sorted(by_time)]
        return Prices(prices=tuple(found), requested_utc=now, notes=self._notes(wanted, found))

    def _in_region(self, region: str, wanted: Sequence[str], begin: datetime, now: datetime) -> list[Price]:
        request: dict[str, Any] = {
            "InstanceTypes": [self.what],
            "ProductDescriptions": [self.product],
            "StartTime": begin,  # the price that held then is reported, too
            "EndTime": now,
        }

        def read(token: str) -> Mapping[str, Any]:
            found: Mapping[str, Any] = self._client(region).describe_spot_price_history(
                **request, **({"NextToken": token} if token else {})
            )
            return found

        remedy = "; check the instance type, and that you may ec2:DescribeSpotPriceHistory"
        with ec2_errors(f"AWS in {region}", FeedRefused, FeedUnreachable, remedy=remedy):
            # There may be empty pages before the last.
            entries = list(SOURCE.entries(read, "NextToken", "SpotPriceHistory"))
        prices = [self._price(entry) for entry in entries]
        return [price for price in prices if is_requested(wanted, region, price.pool.partition("/")[0])]

    def _price(self, entry: Mapping[str, Any]) -> Price:
        machine = self._machine()
        zone = str(SOURCE.field(entry, "AvailabilityZone"))
        since = SOURCE.moment(SOURCE.field(entry, "Timestamp"))
        usd = SOURCE.price(SOURCE.field(entry, "SpotPrice")) / machine.gpus
        on_demand_usd = machine.on_demand_usd_per_gpu_hour
        return Price(f"{zone}/{self.what}", since, usd, on_demand_usd, gpu_of(self.what))

    def _machine(self) -> MachineType:
        return instance(self.what, self.gpus or None, self.on_demand_usd or None)

    def _notes(self, wanted: Sequence[str], found: Sequence[Price]) -> tuple[str, ...]:
        usd = self._machine().on_demand_usd_per_gpu_hour
        origin = "as given" if self.on_demand_usd or self.what not in AWS_INSTANCES else AWS_LIST
        cost = f"{self.what} costs {usd:.4g} USD per GPU-hour on demand ({origin})"
        notes = [f"{cost}: AWS reports spot prices only."]
        missing = unpriced(wanted, found, aws_region)
        if missing:
            notes.append(f"AWS has no spot prices of {self.what} in {missing}.")
        return tuple(notes)

    def _client(self, region: str) -> Any:
        if region not in self._clients:
            self._clients[region] = ec2_client(region, self.base_url, CONNECT_S, READ_S)
        return self._clients[region]
