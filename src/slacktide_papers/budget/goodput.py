"""An autoscaler in the manner of Pollux (OSDI 2021): its rounds, its beliefs, its discount for restarts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slacktide.allocators.view import Fact, Finished, FleetView, Progressed, Wanted
from slacktide.budget.fleet import Fleet
from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compiled
from slacktide.core.errors import InputError
from slacktide_papers.budget.sharing import Shares, best_shares, widths_at

ROUND_HOURS = 60 / 3600  # once a minute it decides, about all jobs at once
BELIEVED_RESTART_HOURS = 30 / 3600  # how long it believes that every restart takes
BAND_SHARE = 0.1
"""How far the efficiency may be off its target before the cluster is resized, as a share of it."""


@dataclass(frozen=True, slots=True)
class GoodputAutoscaler:
    """Rent as many GPUs as keep the mean speedup per GPU near a target; share them for the most fitness.

    Fitness is the harmonic mean of speedups. A speedup on another width than the present one is discounted by
    (age - restarts so far x delay) / (age + delay), so that young jobs and those that were moved often are
    left alone. A new job waits for the next round.
    """

    efficiency: float  # the target: sum of speedups over GPUs rented
    learns: bool = True
    """Whether it must learn speedups: a job then begins on one GPU and may have at most twice the width that
    it has run on; until that is more than a node, speedups are believed to go on in proportion."""
    restart_hours: float | None = BELIEVED_RESTART_HOURS
    """The delay that it believes in; None: it knows each application's."""

    def __post_init__(self) -> None:
        if not 0 < self.efficiency <= 1:
            raise InputError(f"efficiency must be in (0, 1], got {self.efficiency:g}")
        if self.restart_hours is not None and not self.restart_hours >= 0:
            raise InputError(f"restart_hours must be >= 0, got {self.restart_hours:g}")

    def begin(self, fleet: Fleet) -> GoodputRun:
        """Look up the widths that jobs may have and what it believes of restarts."""
        stages = fleet.stages
        options = np.flatnonzero(stages.rate.any(axis=0))
        delay = stages.restart_hours if self.restart_hours is None else np.full(
            len(stages.rate), self.restart_hours
        )  # fmt: skip
        return GoodputRun(self, options, stages.rate[:, options], delay, fleet.node_gpus)


@dataclass(slots=True)
class Seen:
    """What the autoscaler remembers of one job."""

    tried_gpus: int = 0  # the greatest width on which it has run
    restarts: int = 0


@dataclass(slots=True)
class GoodputRun:
    """Decides in rounds, and in between keeps everything as it is."""

    rule: GoodputAutoscaler
    options: Ints  # the widths of all classes, ascending
    rate: Floats  # [stage, option]; 0 where the width is not allowed
    delay_hours: Floats  # [stage]: the restart that it believes in
    node_gpus: int
    round: int = 0  # the number of the round to come
    seen: dict[int, Seen] = field(default_factory=dict)
    shares: Shares | None = None  # those found for the next decision; None between rounds

    @property
    def wake_hours(self) -> float:
        """When the next round is."""
        return self.round * ROUND_HOURS

    def remember(self) -> Mapping[str, Any]:
        """Return the round to come and what it saw of each job, as JSON values."""
        seen = {str(job): [one.tried_gpus, one.restarts] for job, one in self.seen.items()}
        return {"round": self.round, "seen": seen}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Restore what `remember` returned."""
        self.round, self.shares = memory["round"], None
        self.seen = {int(job): Seen(*each) for job, each in memory["seen"].items()}

    def learn(self, fact: Fact) -> None:
        """Note how wide a job has run; forget it when it is done."""
        if isinstance(fact, Progressed):
            seen = self.seen.setdefault(fact.id, Seen())
            seen.tried_gpus = max(seen.tried_gpus, fact.gpus)
        elif isinstance(fact, Finished):
            self.seen.pop(fact.id, None)

    def rent_gpus(self, view: FleetView) -> int:
        """Return the size of the cluster; it changes in rounds only, and is 0 when there are no jobs."""
        self.shares = None
        if view.now_hours < self.wake_hours:
            return view.rented_gpus
        while self.wake_hours <= view.now_hours:
            self.round += 1
        if not len(view.jobs.ids):
            return 0
        speed = self._believed(view)
        worth = self._worth(view, speed)
        self.shares = compiled(best_shares)(worth, speed, self.options, self._most_gpus(view, speed))
        return self._size(view.rented_gpus)

    def decide(self, view: FleetView) -> Wanted:
        held = view.jobs.gpus
        if self.shares is None:
            return Wanted(held, rule="between rounds")
        widths: Ints = compiled(widths_at)(self.shares, self.options, view.ready_gpus)
        for job in view.jobs.ids[(held > 0) & (widths != held)].tolist():
            self.seen.setdefault(job, Seen()).restarts += 1
        return Wanted(widths, rule="round")

    def _believed(self, view: FleetView) -> Floats:
        """Return [job, option]: the speed it believes in; 0 for widths that it would not choose."""
        rate = self.rate[view.stage]
        if not self.rule.learns:
            return rate
        tried = np.array([self._seen(job).tried_gpus for job in view.jobs.ids.tolist()])
        known = np.maximum(tried, 1)
        at = np.searchsorted(self.options, known)
        beyond = rate[np.arange(len(at)), at][:, None] * self.options / known[:, None]
        guessed = (self.options > known[:, None]) & (known <= self.node_gpus)[:, None]
        allowed = (rate > 0) & (self.options <= np.where(tried > 0, 2 * tried, 1)[:, None])
        return np.where(allowed, np.where(guessed, beyond, rate), 0.0)

    def _worth(self, view: FleetView, speed: Floats) -> Floats:
        """Return [job, option]: what it adds to the fitness, the discount for a restart included."""
        held, delay = view.jobs.gpus, self.delay_hours[view.stage]
        restarts = np.array([self._seen(job).restarts for job in view.jobs.ids.tolist()])
        age = view.now_hours - view.jobs.submitted_hours
        kept = np.divide(
            np.maximum(age - restarts * delay, 0.0), age + delay, out=np.ones(len(age)), where=age + delay > 0
        )
        moves = (held[:, None] > 0) & (self.options != held[:, None])
        worth = speed * np.where(moves, kept[:, None], 1.0)
        found: Floats = np.divide(-1.0, worth, out=np.full(worth.shape, -np.inf), where=worth > 0)
        return found

    def _most_gpus(self, view: FleetView, speed: Floats) -> int:
        """Return the largest cluster worth looking at: beyond it the efficiency must be below the band."""
        fastest = speed.max(axis=1).sum() / (self.rule.efficiency * (1.0 - BAND_SHARE))
        needed = max(len(speed), view.rented_gpus) + len(speed)
        nodes = -(-max(int(fastest), needed) // self.node_gpus)
        return nodes * self.node_gpus

    def _size(self, rented_gpus: int) -> int:
        """Keep the cluster while its efficiency is in the band, else take the size nearest the target."""
        assert self.shares is not None
        target = self.rule.efficiency
        sizes = np.arange(self.node_gpus, len(self.shares.worth), self.node_gpus)
        sizes = sizes[self.shares.worth[sizes] > -np.inf]
        off = np.abs(self.shares.speed[sizes] / sizes - target)
        present = np.flatnonzero(sizes == rented_gpus)
        if len(present) and off[present[0]] <= BAND_SHARE * target:
            return rented_gpus
        return int(sizes[np.argmin(off)])

    def _seen(self, job: int) -> Seen:
        return self.seen.get(job) or Seen()
