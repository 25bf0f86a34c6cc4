"""Kills: SIGKILL to controllers, workers and supervisors, at random moments and at journal writes.

A round has a journal, a few jobs at a time and one controller after another. Workers are killed alone, with
their supervisor, or lose only that; controllers at any moment or just before or after a write. At the end
every job has succeeded with all of its work done, and the laws of `campaigns.stage.laws` hold.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial

from campaigns.finding import Finding, Tell, evidence
from campaigns.stage import laws, processes
from campaigns.stage.arena import Arena, Task
from campaigns.stage.commands import nap, tail
from campaigns.stage.market import REAL_TIME, REHEARSAL, random_offers
from campaigns.waiting import wait_until

KILLS_A_ROUND = 25
JOBS_AT_ONCE = 3
UNITS_A_KILL = 40
"""The longer a round, the longer its jobs, which should live through a few kills each."""
MOST_WRITES = 12
"""Who is to die at a write dies at one of its first writes; every job makes two in each slot."""


def run(count: int, seed: int, tell: Tell) -> Counter[str]:
    """Kill this many times; each round has a seed of its own, counted up from the first."""
    total: Counter[str] = Counter({"kills": 0})
    while (done := total["kills"]) < count:
        kills = min(KILLS_A_ROUND, count - done)
        total.update(_round(kills, seed, partial(_tell, tell, done, count)))
        seed += 1
    return total


def _tell(tell: Tell, before: int, count: int, kills: int) -> None:
    tell(f"{before + kills:,} of {count:,} kills")


def _round(kills: int, seed: int, tell: Callable[[int], None]) -> Counter[str]:
    rng = random.Random(seed)
    offers, pace = random_offers(rng), rng.choice([REHEARSAL, REAL_TIME])
    with evidence("kills", seed, kills) as folder, Arena(folder, offers, pace=pace) as arena:
        return Round(arena, rng, kills, tell).live()


class Round:
    """One journal with jobs and controllers that are killed."""

    def __init__(self, arena: Arena, rng: random.Random, kills: int, tell: Callable[[int], None]) -> None:
        self.arena, self.rng, self.tell = arena, rng, tell
        self.counts: Counter[str] = Counter()
        self._kills = kills
        self._ways: tuple[tuple[str, int, Callable[[], bool]], ...] = (
            ("of controllers", 5, self._controller),
            ("of controllers at a journal write", 5, self._at_a_write),
            ("of workers", 4, self._worker),
            ("of supervisors", 3, self._supervisor),
            ("of workers with their supervisors", 4, self._machine),
        )

    def live(self) -> Counter[str]:
        """Kill as often as wanted, let all jobs end, and see that the laws hold."""
        self._keep_busy()
        self.arena.take_charge()
        while self.counts["kills"] < self._kills:
            self._kill()
            self.tell(self.counts["kills"])
        self.arena.wait_for_end()
        said = self.arena.let_go()
        if said.code != 0:
            raise Finding(f"a controller that was asked to stop exited with {said.code}: {tail(said.err)}")
        laws.check(self.arena)
        self.counts["jobs that succeeded with all work done"] += len(self.arena.tasks)
        lives = sum(len(self.arena.record(job).lives()) for job in self.arena.tasks)
        self.counts["workers billed as long as they lived, bill = audit = recount"] += lives
        return self.counts

    def _kill(self) -> None:
        self._keep_busy()
        name, _, way = self.rng.choices(self._ways, [weight for _, weight, _ in self._ways])[0]
        if way():
            self.counts["kills"] += 1
            self.counts[name] += 1

    def _keep_busy(self) -> None:
        """Hand in jobs until there are enough that have not ended."""
        for _ in range(JOBS_AT_ONCE - len(self.arena.unended())):
            self.arena.submit(
                Task(
                    name=f"job-{len(self.arena.tasks) + 1:02d}",
                    units=self.rng.randrange(200, 200 + UNITS_A_KILL * self._kills),
                    told_code=self.rng.choice([0, 0, 1, 143]),
                    gpus=self.rng.choice([1, 2, 3]),
                    policy=self.rng.choice(["maximal-spot", "on-demand"]),
                    billing=self.rng.choice(["second", "slot"]),
                    grace=self.rng.choice(["1s", "3s"]),
                )
            )

    def _pause(self) -> None:
        nap(self.rng.uniform(0.0, 0.8))

    def _controller(self) -> bool:
        self._pause()
        self.arena.in_charge().kill()
        if self.rng.random() < 0.5:
            self._pause()
        self.arena.take_charge()
        return True

    def _at_a_write(self) -> bool:
        """Replace the controller by one that dies at one of its writes, then that by one that lives."""
        self.arena.in_charge().kill()
        fragile = self.arena.take_charge(
            die_at=self.rng.randint(1, MOST_WRITES), before=self.rng.random() < 0.5
        )
        wait_until(lambda: fragile.code is not None, "a controller's death at a write")
        if fragile.code != -signal.SIGKILL:
            raise Finding(f"a controller ended by itself with {fragile.code}: {tail(fragile.err)}")
        self.arena.take_charge()
        return True

    def _worker(self) -> bool:
        return self._hurt(processes.send, supervisor=False)

    def _supervisor(self) -> bool:
        return self._hurt(processes.send, supervisor=True)

    def _machine(self) -> bool:
        return self._hurt(processes.send_session, supervisor=True)

    def _hurt(self, send: Callable[[processes.Process, signal.Signals], bool], *, supervisor: bool) -> bool:
        """Kill some process of a job; False when there was none just now."""
        self.arena.in_charge()
        self._pause()
        found = [one for one in self.arena.workers() if one.supervisor is supervisor]
        return bool(found) and send(self.rng.choice(found), signal.SIGKILL)
