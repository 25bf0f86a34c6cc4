"""What really happens on simulated machines: which workers live, how far each job is, and what is forbidden.

Nothing of Slacktide decides here. The workers of an attempt make progress while all of its ranks live, and
begin at the last checkpoint. That two attempts of a job live at once, or that one begins after a later one
did, is a finding at the moment when it happens.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from campaigns.finding import Finding
from slacktide.journal.events import Capacity

CHECKPOINT_S = 5.0
FAILS_SHARE = 0.5
"""How often workers exit with 1 when one of their set is gone; otherwise they wait for it."""


@dataclass(slots=True, eq=False)
class Crew:
    """The workers of one attempt of a job on one machine."""

    job: str
    attempt: int
    kinds: tuple[Capacity, ...]
    ranks: tuple[int, ...]
    world: int
    began_s: float
    end_s: float | None = None
    """When they will have ended, having been told to; None: nobody has."""
    gone_s: float | None = None
    told: bool = False
    lost: bool = False
    """Whether they ended without a word."""
    failed: bool = False
    finished: bool = False

    @property
    def alive(self) -> bool:
        """Whether they live."""
        return self.gone_s is None

    def die(self, now: float, *, lost: bool = False) -> None:
        """End all of them now."""
        if self.alive:
            self.gone_s, self.lost = now, lost


@dataclass(slots=True)
class Work:
    """How far a job is."""

    total_s: float
    """In GPU-seconds."""
    done_s: float = 0.0
    safe_s: float = 0.0
    saved_at: float = 0.0
    attempt: int = 0
    """The last attempt whose ranks were all alive."""
    newest: int = 0
    reported_at: float | None = None
    finished: bool = False


@dataclass(slots=True)
class Truth:
    """All jobs and all workers of one life."""

    rng: random.Random
    works: dict[str, Work] = field(default_factory=dict)
    crews: list[Crew] = field(default_factory=list)
    """Those that live, or have not been looked at since they ended."""
    begun: int = 0

    def begin(self, crew: Crew) -> None:
        """Let workers begin."""
        work = self.works[crew.job]
        if crew.attempt < work.newest:
            raise Finding(f"attempt {crew.attempt} of {crew.job} began after attempt {work.newest}")
        work.newest = crew.attempt
        self.crews.append(crew)
        self.begun += 1
        self.check()

    def check(self) -> None:
        """See that no two attempts of a job live at once, and no rank twice."""
        alive: dict[str, Crew] = {}
        seats: set[tuple[str, int]] = set()
        for crew in self.crews:
            if not crew.alive:
                continue
            other = alive.setdefault(crew.job, crew)
            if other.attempt != crew.attempt:
                raise Finding(f"attempts {other.attempt} and {crew.attempt} of {crew.job} live at once")
            for rank in crew.ranks:
                if (crew.job, rank) in seats:
                    raise Finding(f"rank {rank} of {crew.job} lives twice")
                seats.add((crew.job, rank))

    def pass_time(self, now: float, seconds: float) -> None:
        """Let workers work, end and fail."""
        for crew in self.crews:
            if crew.alive and crew.end_s is not None and now >= crew.end_s:
                crew.die(now)
        self.crews = [crew for crew in self.crews if crew.alive]
        for job, work in self.works.items():
            self._work(work, [crew for crew in self.crews if crew.job == job], now, seconds)

    def _work(self, work: Work, crews: list[Crew], now: float, seconds: float) -> None:
        if not crews:
            return
        whole = sum(len(crew.ranks) for crew in crews) == crews[0].world
        if not whole:
            self._fail(work, crews, now)
            return
        if crews[0].attempt != work.attempt:
            work.attempt, work.done_s, work.saved_at = crews[0].attempt, work.safe_s, now
        if any(crew.told for crew in crews):
            return
        work.done_s = min(work.total_s, work.done_s + seconds * crews[0].world)
        work.reported_at = now
        if now - work.saved_at >= CHECKPOINT_S or work.done_s >= work.total_s:
            work.safe_s, work.saved_at = work.done_s, now
        if work.done_s >= work.total_s:
            work.finished = True
            for crew in crews:
                crew.finished = True
                crew.die(now)

    def _fail(self, work: Work, crews: list[Crew], now: float) -> None:
        """Let some of those that miss others of their set give up; a set that is only half begun waits."""
        if crews[0].attempt == work.attempt and self.rng.random() < FAILS_SHARE:
            for crew in crews:
                crew.failed = not crew.told
                crew.die(now)
