"""What a journal tells, read as docs/reference/journal.md describes it and without Slacktide's own code."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from campaigns.recount import Held


class Row(NamedTuple):
    """An event of the journal."""

    seq: int
    job: str
    kind: str
    data: Any


class Price(NamedTuple):
    """What a GPU costs for an hour."""

    spot_usd: float
    on_demand_usd: float


def rows(journal: Path, *kinds: str) -> list[Row]:
    """Return the events of these kinds; none while there is no journal."""
    if not journal.exists():
        return []
    marks = ", ".join("?" * len(kinds))
    database = sqlite3.connect(f"file:{journal}?mode=ro", uri=True, timeout=60)
    try:
        found = database.execute(
            f"SELECT seq, job, kind, data FROM events WHERE kind IN ({marks}) ORDER BY seq", kinds
        ).fetchall()
    except sqlite3.OperationalError as error:  # it is just being made
        if "no such table" in str(error):
            return []
        raise
    finally:
        database.close()
    return [Row(seq, job, kind, json.loads(data)) for seq, job, kind, data in found]


def statuses(journal: Path) -> dict[str, str]:
    """Return how every job that was taken in ended; an empty text for those that have not."""
    told = rows(journal, "Submitted", "Ended")
    return {row.job: row.data["status"] if row.kind == "Ended" else "" for row in told}


def market(path: Path) -> list[Price]:
    """Return the prices of a market of one pool, slot by slot."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Price(float(row["spot_usd_per_gpu_hour"]), float(row["on_demand_usd_per_gpu_hour"]))
            for row in csv.DictReader(file)
        ]


def held(journal: Path, prices: Sequence[Price] | None) -> list[Held]:
    """Return what was held and is billed, at the market's prices, or at those in the journal for a feed."""
    return [_held(row, prices) for row in rows(journal, "Lived", "Kept")]


def waited_hours(journal: Path, speed: float) -> float:
    """Return for how long the market's clock says that it waited, where it is faster than its steps allow.

    It writes down where it stands (`ClockAnchored`) whenever it has waited, and with every controller.
    """
    said = [row.data for row in rows(journal, "ClockAnchored")]
    anchors = [(float(one["boot_s"]) * speed / 3600.0, float(one["at_hours"])) for one in said]
    return sum(
        max(0.0, (later[0] - earlier[0]) - (later[1] - earlier[1])) for earlier, later in pairwise(anchors)
    )


def _held(row: Row, prices: Sequence[Price] | None) -> Held:
    one = row.data["priced"]["stretch"]
    quote = one["quote"]
    slot = int(one["slot"])
    price = Price(float(quote["spot_usd_per_gpu_hour"]), float(quote["on_demand_usd_per_gpu_hour"]))
    if prices is not None:
        price = prices[min(slot, len(prices) - 1)]
    return Held(
        one["payer"],
        one["pool"],
        slot,
        float(one["held_hours"]),
        one["spot_gpus"],
        one["on_demand_gpus"],
        *price,
    )
