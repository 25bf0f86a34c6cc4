"""Seconds to load a trace of a million rows, compared with reading the same file with Python's csv module."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

from benchmarks.timing import best
from slacktide.market.formats.table import write_table
from slacktide.market.source import open_market

ROWS = 1_000_000


def main() -> None:
    """Print the load time of each of our formats."""
    days = ROWS / 4 / 144
    market = open_market(f"synthetic:h100?days={days:.4f}&slot=10m&pools=4")
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "market.csv"
        write_table(market, plain)
        reference, count = best(lambda: _count(plain), tries=1)
        print(f"{count:,} rows; csv module, rows as text only: {reference:.2f} s")
        for name in ("market.csv", "market.csv.gz", "market.parquet"):
            path = Path(folder) / name
            write_table(market, path)
            took, loaded = best(lambda p=path: open_market(str(p)))  # type: ignore[misc]
            pairs = zip(loaded.pools, market.pools, strict=True)
            same = all((one.spot_gpus == other.spot_gpus).all() for one, other in pairs)
            print(
                f"{name:<16} {took:.2f} s, {took / reference:.2f} of the reference; read back equal: {same}"
            )


def _count(path: Path) -> int:
    with path.open(newline="") as file:
        return sum(1 for _ in csv.reader(file)) - 1


if __name__ == "__main__":
    main()
