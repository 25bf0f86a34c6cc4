"""Fuzz: mutated inputs for every reader, option and state file, through the real command line.

Inputs are valid ones, changed in a few places by rules that know their grammar (`mutations`). What may come
out: success; or an exit code that the docs tell, with a readable sentence. Anything else is a finding: a
traceback, words of Python's in a message, a message of a page, output that is not the JSON that was asked
for, too much CPU or memory. The same seed makes the same inputs.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from campaigns.finding import Finding, Tell
from campaigns.fuzz.inputs import case
from campaigns.fuzz.verdict import problem
from campaigns.fuzz.watch import Watched

__all__ = ["run"]


def run(count: int, seed: int, tell: Tell, *, first: int = 0) -> Counter[str]:
    """Try this many inputs; counts them by what they were for and by what came out."""
    counts: Counter[str] = Counter({"inputs": 0})
    with tempfile.TemporaryDirectory(prefix="slacktide-fuzz-") as home, Watched(Path(home), seed) as worker:
        for number in range(first, first + count):
            outcome = worker.try_input(number)
            wrong = problem(case(seed, number), outcome)
            if wrong:
                raise _finding(wrong, seed, number)
            counts.update(("inputs", f"for {case(seed, number).target}", f"with exit code {outcome.code}"))
            tell(f"{counts['inputs']:,} of {count:,} inputs")
    return counts


def _finding(wrong: str, seed: int, number: int) -> Finding:
    """Keep the input that was found, and say how to find it again."""
    made = case(seed, number)
    folder = Path(tempfile.mkdtemp(prefix=f"slacktide-fuzz-{seed}-{number}-"))
    for name, content in made.files.items():
        (folder / name).write_bytes(content)
    shown = " ".join(arg if len(arg) < 100 else f"{arg[:60]}..." for arg in made.args)
    finding = Finding(f"slacktide {shown!r}: {wrong}")
    finding.command = f"python -m campaigns.fuzz --seed {seed} --first {number} --count 1"
    finding.folder = folder
    return finding
