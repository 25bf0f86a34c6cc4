"""Machines: simulated ones, up to 64, rented from a cloud with all its faults, under controllers that die.

Engine, journal, back end, keeper and the agents of machines are the real ones; workers, network, cloud and
time are imagined, and all chance comes from a seed. After every step and at the end the laws hold: never two
attempts of a job alive, attempts only grow, no machine without a ticket, no limit passed, none left over, and
bills that agree with what was really held.
"""

from __future__ import annotations

from collections import Counter

from campaigns.finding import Finding, Tell, evidence
from campaigns.machines.laws import SHARE
from campaigns.machines.life import Life

KILLS_A_LIFE = 25
ENOUGH = 100
"""After so many kills the bills of machines must agree in the sum; single lives may be short."""


def run(count: int, seed: int, tell: Tell) -> Counter[str]:
    """Kill controllers this many times; each life has a seed of its own, counted up from the first."""
    total: Counter[str] = Counter({"kills": 0})
    while (done := total["kills"]) < count:
        kills = min(KILLS_A_LIFE, count - done)
        with evidence("machines", seed, kills) as folder:
            total.update(Life(folder, seed, kills).live())
        tell(f"{total['kills']:,} of {count:,} kills")
        seed += 1
    if total["kills"] >= ENOUGH and total["seconds off"] > SHARE * total["machine-seconds by the cloud"]:
        raise Finding(f"the bills of machines are off by {total['seconds off']} s in all: {dict(total)}")
    return total
