"""Work out in a process of its own what one who knows the market would pay for the demo's job.

The first time on a machine this compiles for some twenty seconds. The demo starts it beside the run, so that
the machine code is on disk when the bill is drawn up.
"""

from __future__ import annotations

import contextlib
import os
import sys

from slacktide.app.market import DEFAULT_MARKET
from slacktide.jobfile import read_job_file
from slacktide.market.source import open_market
from slacktide.solve.clairvoyant import clairvoyant


def main(path: str, start: int) -> None:
    """Print what the job file's job would cost with perfect foresight of its market."""
    with contextlib.suppress(OSError):
        os.nice(10)  # the workers of the demo come first
    file = read_job_file(path)
    pool = open_market(file.market or DEFAULT_MARKET).pools[0]
    print(f"{clairvoyant(file.job, pool, start).cost_usd:.2f}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
