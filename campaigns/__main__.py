"""`python -m campaigns [NAME ...]`: attack the live engine, all the ways or some, until something is found.

Each campaign prints what it did and what came out. Exits with 0 when nothing was found, and with 1 at the
first finding, with the command that finds it again and the folder that holds the evidence.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import IO

from campaigns.finding import Finding

LONG = {"money": 5_000, "fuzz": 10_000, "faults": 120, "kills": 1_000, "machines": 1_000}
"""Every campaign, and how much of it makes its long form."""
EVERY_S = 10.0
"""How often progress is told where nobody watches a terminal."""


class Progress:
    """Tells how far a campaign has come: on a terminal in one line, elsewhere now and then."""

    def __init__(self, out: IO[str], every_s: float = EVERY_S) -> None:
        self._out, self._every_s, self._told_at = out, every_s, -every_s

    def __call__(self, words: str) -> None:
        """Tell, unless something was told just now."""
        now = time.monotonic()
        if self._out.isatty():
            self._out.write(f"\r\x1b[K{words}")
        elif now >= self._told_at + self._every_s:
            self._told_at = now
            self._out.write(words + "\n")
        self._out.flush()

    def clear(self) -> None:
        """Make room for something that stays."""
        if self._out.isatty():
            self._out.write("\r\x1b[K")
            self._out.flush()


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m campaigns", description="Seeded attacks on the engine.")
    made.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(LONG)}; all without it")
    made.add_argument("--count", type=int, metavar="N", help="how much of each; otherwise its long form")
    made.add_argument("--seed", type=int, default=1, metavar="S", help="where chance begins (default 1)")
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Run the campaigns of these names, or all of them; exits with 2 when one cannot be meant."""
    asked = parser().parse_args(words)
    if asked.count is not None and asked.count < 1:
        parser().error(f"--count must be >= 1, got {asked.count}")
    for name in asked.names:
        if name not in LONG:
            parser().error(f"a campaign must be one of {', '.join(LONG)}, got {name!r}")
    # What a campaign started must not outlive it, however it is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for name in asked.names or LONG:
        if not carried_out(name, asked.count or LONG[name], asked.seed):
            return 1
    return 0


def carried_out(name: str, count: int, seed: int) -> bool:
    """Run one campaign and print what came out; False when it found something."""
    began, progress = time.monotonic(), Progress(sys.stderr)
    try:
        counts = importlib.import_module(f"campaigns.{name}").run(count, seed, progress)
    except Finding as finding:
        progress.clear()
        print(f"{name}: FOUND {finding}", flush=True)
        return False
    progress.clear()
    print(f"{name}, seed {seed}: {sentence(counts)}; nothing found in {_took(began)}", flush=True)
    return True


def sentence(counts: Mapping[str, int]) -> str:
    """Return counts in one line, in the order in which they were first counted."""
    return ", ".join(f"{number:,} {what}" for what, number in counts.items())


def _took(began: float) -> str:
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


if __name__ == "__main__":
    sys.exit(main())
