"""What a new row of a live market costs, by how long its past is."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from slacktide.market.base import Market
from slacktide.market.formats.samples import micros_of, stamp
from slacktide.market.formats.table import write_table
from slacktide.market.live.feed import Feed
from slacktide.market.source import open_market

POOLS = 4
TRIES = 200


def main() -> None:
    """Print the time from new rows in the file to a view of them, after a thousand rows and a million."""
    took = {rows: _row_s(rows) for rows in (1_000, 1_000_000)}
    for rows, seconds in took.items():
        print(f"a slot more of {POOLS} pools after {rows:>9,} rows: {1e3 * seconds:.3f} ms")
    print(f"ratio: {took[1_000_000] / took[1_000]:.2f}")


def _row_s(rows: int) -> float:
    """Return the least processor time in which a slot's rows were read and every past was shown."""
    market = open_market(f"synthetic:h100?days={rows / POOLS / 144:.6f}&slot=10m&pools={POOLS}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "prices.csv"
        write_table(market, path)
        feed = Feed(f"feed:{path}")
        name, slots = market.pools[0].name, len(market.pools[0])
        feed.at(name, slots - 1)
        return min(_one(feed, path, market, slot) for slot in range(slots, slots + TRIES))


def _one(feed: Feed, path: Path, market: Market, slot: int) -> float:
    with path.open("a", encoding="utf-8") as file:
        for pool in market.pools:
            file.write(f"{stamp(micros_of(pool.time(slot)))},{pool.name},{slot % 9},2.5,9.8\n")
    began = time.process_time()
    moment = feed.at(market.pools[0].name, slot)
    lengths = {len(moment.past(at)) for at in range(len(moment))}
    seconds = time.process_time() - began
    assert lengths == {slot + 1}
    return seconds


if __name__ == "__main__":
    main()
