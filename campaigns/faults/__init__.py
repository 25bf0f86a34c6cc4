"""Faults: disks, clocks, signals, feeds, folders and secrets that fail while jobs run.

A play has two jobs on one journal. Something is broken, on purpose and at random within what the seed
allows, and put right or not. At the end the laws of `campaigns.stage.laws` hold: the bystander went on, what
is said and billed is so.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from campaigns.faults import absence, clock, disk, money, signals, trouble
from campaigns.faults.machine import Machine, compiler
from campaigns.faults.play import Play
from campaigns.finding import Finding, Tell, evidence
from campaigns.stage.arena import Arena
from campaigns.stage.market import REAL_TIME, REHEARSAL

PLAYS: tuple[Callable[[Play], None], ...] = (
    *signals.PLAYS, *absence.PLAYS, *clock.PLAYS, *trouble.PLAYS, *money.PLAYS, *disk.PLAYS,
)  # fmt: skip


def run(count: int, seed: int, tell: Tell) -> Counter[str]:
    """Play this many faults, one after another; the seed says with which to begin, and all that is random."""
    if compiler() is None:
        raise SystemExit(
            "the fault campaign must have a C compiler to play disks and clocks, got none; install cc"
        )
    counts: Counter[str] = Counter({"faults": 0})
    for number in range(count):
        play = PLAYS[(seed + number) % len(PLAYS)]
        tell(f"{number:,} of {count:,} faults: {title(play)}")
        played(play, seed + number)
        counts["faults"] += 1
        counts[title(play)] += 1
    return counts


def played(play: Callable[[Play], None], seed: int) -> None:
    """Play one fault, and see that the laws hold."""
    with evidence("faults", seed, 1) as folder:
        machine, rng = Machine(folder), random.Random(seed)
        with Arena(folder, env=machine.env, pace=rng.choice([REHEARSAL, REAL_TIME])) as arena:
            try:
                play(Play(arena, rng, machine))
            except Finding as finding:
                finding.what = f"{title(play)}: {finding.what}"
                raise


def title(play: Callable[[Play], None]) -> str:
    """Return what a play is called."""
    return play.__name__.replace("_", " ")
