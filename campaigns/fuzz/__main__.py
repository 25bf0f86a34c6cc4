"""`python -m campaigns.fuzz`: as `python -m campaigns fuzz`, or one input of it again."""

from __future__ import annotations

import argparse
import sys

from campaigns import fuzz
from campaigns.__main__ import Progress, sentence
from campaigns.finding import Finding


def main() -> int:
    """Run the inputs that were asked for; exits with 1 at the first finding."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.fuzz", description="Mutated inputs.")
    parser.add_argument("--count", type=int, default=10_000, metavar="N", help="how many inputs")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="where chance begins")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the number of the first input")
    asked = parser.parse_args()
    try:
        counts = fuzz.run(asked.count, asked.seed, Progress(sys.stderr), first=asked.first)
    except Finding as finding:
        print(f"fuzz: FOUND {finding}")
        return 1
    print(f"fuzz, seed {asked.seed}: {sentence(counts)}; nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
