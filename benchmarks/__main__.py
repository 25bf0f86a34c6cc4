"""`python -m benchmarks [NAME ...]`: print the figures of all benchmarks, or of some.

`python -m benchmarks --against COMMIT [CASE ...]` prints the speed of this tree compared with that commit.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from benchmarks import against

NAMES = (
    "backtest",
    "clairvoyant",
    "market_load",
    "feed",
    "ahap",
    "horizon",
    "pools",
    "warnings",
    "deadline",
    "truth",
    "selection",
    "sweeps",
    "calibration",
    "budget_solver",
    "engine",
    "snapshots",
    "local_start",
    "imports",
    "warm",
    "budget",
    "fleet",
    "online",
    "fleet_bound",
    "service",
)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks", description="Figures of speed and quality.")
    made.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}; all without it")
    made.add_argument(
        "--against", metavar="COMMIT", help="compare CPU times with this commit; NAMEs are then of cases"
    )
    made.add_argument("--rounds", type=int, default=against.ROUNDS, help="runs of each case in either tree")
    return made


def main(words: Sequence[str] | None = None) -> None:
    """Run the benchmarks of these names, or all of them; leaves with 2 when one cannot be meant."""
    options = parser().parse_args(words)
    if options.rounds < 1:
        parser().error(f"--rounds must be >= 1, got {options.rounds}")
    if options.against is not None:
        try:
            against.main(options.against, options.names, options.rounds)
        except against.Unusable as error:
            parser().error(str(error))
        return
    for name in options.names or NAMES:
        if name not in NAMES:
            parser().error(f"a benchmark must be one of {', '.join(NAMES)}, got {name!r}")
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
