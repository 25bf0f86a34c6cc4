"""`python -m benchmarks [NAME ...]`: print the figures of all benchmarks, or of some."""

from __future__ import annotations

import importlib
import sys

NAMES = (
    "backtest",
    "clairvoyant",
    "market_load",
    "ahap",
    "horizon",
    "deadline",
    "selection",
    "budget_solver",
    "engine",
    "local_start",
    "budget",
)


def main(names: list[str]) -> None:
    """Run the benchmarks of these names, or all of them."""
    for name in names or NAMES:
        if name not in NAMES:
            sys.exit(f"a benchmark must be one of {', '.join(NAMES)}, got {name!r}")
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
