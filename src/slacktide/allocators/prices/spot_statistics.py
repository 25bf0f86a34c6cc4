"""What an allocator learns of a market from its jobs: how soon waiting jobs get spot, what spot is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from slacktide.allocators.site.job_tables import PoolOffers
from slacktide.allocators.view import FleetView, SiteView
from slacktide.core.arrays import Bools, Floats

MEMORY_HOURS = 48.0  # for how long waits count, roughly; one service per hour of waiting is always mixed in
RENT_MEMORY_HOURS = 24.0
LOSS_HOURS = 168.0  # how many hours of a pool's past the losses of spot are counted in
PRIOR_LOSS_GPUS, PRIOR_HELD_GPUS = 1.0, 50.0


@dataclass(slots=True)
class WaitStatistics:
    """How soon jobs that wait for spot get some: services over hours of waiting; the past counts less."""

    served: float = 1.0
    hours: float = 1.0
    waiting: list[int] = field(default_factory=list)
    """The jobs that held no spot when it was last looked, by number."""

    @property
    def rate(self) -> float:
        """Services per hour of waiting."""
        return self.served / self.hours

    def see(self, ids: list[int], on_spot: Bools, hours: float) -> None:
        """Take in which of the jobs hold spot now, `hours` after the last call."""
        kept = math.exp(-hours / MEMORY_HOURS)
        now = {job for job, holds in zip(ids, on_spot.tolist(), strict=True) if holds}
        self.served = self.served * kept + (1.0 - kept) + len(now.intersection(self.waiting))
        self.hours = self.hours * kept + (1.0 - kept) + hours * len(self.waiting)
        self.waiting = [job for job in ids if job not in now]


@dataclass(slots=True)
class SpotStatistics:
    """Waits, rents and prices of late; updated once per slot, however many decisions there are in it."""

    open: WaitStatistics = field(default_factory=WaitStatistics)  # of jobs without a deadline
    due: WaitStatistics = field(default_factory=WaitStatistics)  # of jobs with one
    rent_usd: list[float] = field(default_factory=list)
    """[pool]: what spot was worth above its price, the recent mean."""
    last_rent_usd: list[float] = field(default_factory=list)  # [pool]: the same in the last slot
    spot_usd: list[float] = field(default_factory=list)  # [pool]: the recent mean price
    at_hours: float = 0.0

    def look(self, view: FleetView, prices: PoolOffers) -> None:
        """Take in what can be seen at the beginning of a slot."""
        assert view.site is not None
        if not self.spot_usd:
            self.spot_usd = prices.spot_usd.tolist()
            self.rent_usd = [0.0] * len(self.spot_usd)
            self.last_rent_usd = [0.0] * len(self.spot_usd)
        jobs, hours = view.site.jobs, view.now_hours - self.at_hours
        due = np.isfinite(jobs.deadline_hours)
        for waits, rows in ((self.open, ~due), (self.due, due)):
            waits.see(view.jobs.ids[rows].tolist(), jobs.spot_gpus[rows] > 0, hours)
        kept = math.exp(-hours / RENT_MEMORY_HOURS)
        for pool, usd in enumerate(prices.spot_usd.tolist()):
            self.rent_usd[pool] = kept * self.rent_usd[pool] + (1.0 - kept) * self.last_rent_usd[pool]
            self.spot_usd[pool] = kept * self.spot_usd[pool] + (1.0 - kept) * usd
        self.at_hours = view.now_hours

    def remember(self) -> Mapping[str, Any]:
        """Return all of it as JSON values."""
        return asdict(self)

    @classmethod
    def recalled(cls, memory: Mapping[str, Any]) -> SpotStatistics:
        """Return what was written down."""
        return cls(
            **{**memory, "open": WaitStatistics(**memory["open"]), "due": WaitStatistics(**memory["due"])}
        )


def loss_rate(site: SiteView) -> float:
    """Return how often a spot GPU is taken back, per hour, if all of it is held: from the pools' past."""
    lost, held, hours = PRIOR_LOSS_GPUS, PRIOR_HELD_GPUS, site.slot_hours
    for pool in range(len(site.pools)):
        past = site.known.past(pool)
        gpus: Floats = past.spot_gpus[-max(2, int(LOSS_HOURS / past.slot_hours)) :].astype(np.float64)
        lost += float(np.maximum(-np.diff(gpus), 0.0).sum())
        held += float(gpus.sum())
        hours = past.slot_hours
    return lost / held / hours
