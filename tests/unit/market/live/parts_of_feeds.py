"""Sources of prices for tests: a server on loopback with recorded answers, and AWS answered by a stub."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from slacktide.market.live.aws import Aws
from slacktide.market.live.base import Price, Prices

BEGIN = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Answer(NamedTuple):
    """What a server says to one question."""

    body: str | bytes = ""
    status: int = 200
    headers: Mapping[str, str] = {}


class Server:
    """Answers by path from a function, and remembers what it was asked."""

    def __init__(self, answer: Callable[[str, dict[str, str]], Answer]) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = dict(parse_qsl(parts.query))
                outer.asked.append((parts.path, query))
                said = answer(parts.path, query)
                body = said.body.encode() if isinstance(said.body, str) else said.body
                self.send_response(said.status)
                for name, value in said.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serving(answer: Callable[[str, dict[str, str]], Answer]) -> Iterator[Server]:
    server = Server(answer)
    try:
        yield server
    finally:
        server.close()


def always(
    body: str | bytes = "", status: int = 200, **headers: str
) -> Callable[[str, dict[str, str]], Answer]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda path, query: Answer(body, status, named)


# ------------------------------------------------------------------- Azure

AZURE = "Standard_ND96isr_H100_v5"


def azure_item(
    region: str, usd: float, meter: str = "ND96isr H100 v5", product: str = "NDsr H100 v5"
) -> dict[str, Any]:
    return {
        "currencyCode": "USD",
        "retailPrice": usd,
        "unitPrice": usd,
        "armRegionName": region,
        "effectiveStartDate": "2026-10-01T00:00:00Z",
        "meterName": meter,
        "productName": f"Virtual Machines {product} Series",
        "armSkuName": AZURE,
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
    }


AZURE_ITEMS = [
    azure_item("eastus", 98.32),
    azure_item("eastus", 39.328, "ND96isr H100 v5 Spot"),
    azure_item("eastus", 60.0, "ND96isr H100 v5 Spot", "NDsr H100 v5 Windows"),
    azure_item("eastus", 45.0, "ND96isr H100 v5 Low Priority"),
    azure_item("westus3", 98.32),
    azure_item("westus3", 24.0, "ND96isr H100 v5 Spot"),
]


def azure_list(path: str, query: dict[str, str]) -> Answer:
    """Answer like the price list: some items a page, and where the next one is, in Microsoft's own words."""
    skip = int(query.get("$skip", "0"))
    items = [
        item
        for item in AZURE_ITEMS
        if f"'{item['armRegionName']}'" in query["$filter"] or "Region" not in query["$filter"]
    ]
    page, rest = items[skip : skip + 2], items[skip + 2 :]
    link = (
        f"https://prices.azure.com:443/api/retail/prices?$filter={query['$filter']}&$skip={skip + 2}"
        if rest
        else None
    )
    return Answer(json.dumps({"Items": page, "NextPageLink": link, "Count": len(page)}))


# --------------------------------------------------------------------- GCP


def gcp_sku(
    words: str, usage: str, regions: Sequence[str], nanos: int, units: str = "0", group: str = "GPU"
) -> dict[str, Any]:
    unit = {"currencyCode": "USD", "units": units, "nanos": nanos}
    return {
        "description": words,
        "category": {"resourceFamily": "Compute", "resourceGroup": group, "usageType": usage},
        "serviceRegions": list(regions),
        "pricingInfo": [
            {
                "effectiveTime": "2026-10-31T22:00:00.5Z",
                "pricingExpression": {"tieredRates": [{"unitPrice": unit}]},
            }
        ],
    }


GCP_SKUS = [
    gcp_sku(
        "Nvidia H100 80GB GPU attached to Spot Preemptible VMs running in Iowa",
        "Preemptible",
        ["us-central1"],
        253000000,
        "2",
    ),
    gcp_sku("Nvidia H100 80GB GPU running in Iowa", "OnDemand", ["us-central1"], 796000000, "9"),
    gcp_sku(
        "Nvidia H100 80GB GPU attached to DWS Defined Duration VMs running in Iowa",
        "OnDemand",
        ["us-central1"],
        0,
        "4",
    ),
    gcp_sku(
        "Nvidia H100 80GB Mega GPU attached to Spot Preemptible VMs running in Iowa",
        "Preemptible",
        ["us-central1"],
        0,
        "3",
    ),
    gcp_sku("N2 Instance Core running in Iowa", "OnDemand", ["us-central1"], 31611000, "0", "CPU"),
    gcp_sku(
        "Commitment v1: Nvidia H100 80GB GPU running in Iowa for 1 Year", "Commit1Yr", ["us-central1"], 0, "7"
    ),
    gcp_sku(
        "Nvidia H100 80GB GPU attached to Spot Preemptible VMs running in Belgium",
        "Preemptible",
        ["europe-west1"],
        500000000,
        "2",
    ),
]


def gcp_list(path: str, query: dict[str, str]) -> Answer:
    if query.get("key") != "sesame":
        said = {
            "error": {
                "code": 400,
                "message": f"API key not valid: {query.get('key')}. Please pass a valid API key.",
            }
        }
        return Answer(json.dumps(said), 400)
    first = "pageToken" not in query
    return Answer(
        json.dumps(
            {"skus": GCP_SKUS[:3] if first else GCP_SKUS[3:], "nextPageToken": "more" if first else ""}
        )
    )


# ---------------------------------------------------------------- SkyPilot

CATALOG = """\
InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region,AvailabilityZone,GpuInfo
p5.48xlarge,H100,8.0,192.0,2048.0,98.32,24.0,us-east-1,us-east-1a,"{'Gpus': [{'Name': 'H100'}]}"
p5.48xlarge,H100,8.0,192.0,2048.0,98.32,,us-east-1,us-east-1b,
p5.4xlarge,H100,1.0,16.0,256.0,12.29,3.5,us-east-1,us-east-1a,
p5.48xlarge,H100,8.0,192.0,2048.0,98.32,28.0,us-west-2,us-west-2a,
m5.large,,,2.0,8.0,0.096,0.03,us-east-1,us-east-1a,
"""


# --------------------------------------------------------------------- AWS


def aws_entry(zone: str, time: datetime, usd: str) -> dict[str, Any]:
    """Return one price as AWS tells it."""
    return {
        "AvailabilityZone": zone,
        "InstanceType": "p5.48xlarge",
        "ProductDescription": "Linux/UNIX",
        "SpotPrice": usd,
        "Timestamp": time,
    }


class HistoryOfAws:
    """Stands for boto3's client: tells a price history page by page, as AWS does, newest first."""

    def __init__(self, entries: Sequence[Mapping[str, Any]], page: int = 2) -> None:
        self.entries, self.page, self.asked = list(entries), page, 0

    def describe_spot_price_history(self, **asked: Any) -> dict[str, Any]:
        self.asked += 1
        begin, end = asked["StartTime"], asked["EndTime"]
        newest = sorted(
            (one for one in self.entries if one["Timestamp"] <= end), key=lambda one: one["Timestamp"]
        )[::-1]
        zones = dict.fromkeys(one["AvailabilityZone"] for one in newest)
        held = [
            next(
                (one for one in newest if one["AvailabilityZone"] == zone and one["Timestamp"] <= begin), None
            )
            for zone in zones
        ]
        told = [one for one in newest if one["Timestamp"] > begin or one in held]
        first = int(asked.get("NextToken") or 0)
        more = first + self.page < len(told)
        return {
            "SpotPriceHistory": told[first : first + self.page],
            "NextToken": str(first + self.page) if more else "",
        }


def aws(entries: Sequence[Mapping[str, Any]], page: int = 2, what: str = "p5.48xlarge") -> Aws:
    """Return the feed of AWS with this history in us-east-1."""
    feed = Aws(what)
    feed._clients["us-east-1"] = HistoryOfAws(entries, page)
    return feed


# ---------------------------------------------------------- a feed by script


class Scripted:
    """A feed that says what its test tells it to, and fails on demand."""

    def __init__(self, *changes: Price, history_days: float = 90.0) -> None:
        self.changes = list(changes)
        self.history_days = history_days
        self.error: Exception | None = None
        self.now = BEGIN
        self.asked: list[datetime | None] = []

    def prices(self, zones: Sequence[str], since_utc: datetime | None = None) -> Prices:
        self.asked.append(since_utc)
        if self.error is not None:
            raise self.error
        known = [price for price in self.changes if price.since_utc <= self.now]
        begin = (
            self.now if since_utc is None else max(since_utc, self.now - timedelta(days=self.history_days))
        )
        last = {price.pool: price for price in known if price.since_utc <= begin}
        told = [*last.values(), *(price for price in known if price.since_utc > begin)]
        return Prices(prices=tuple(told), requested_utc=self.now, notes=("A note of the feed.",))
