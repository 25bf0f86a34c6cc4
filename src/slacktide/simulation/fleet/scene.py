"""What a fleet is simulated on: its jobs, the market that they share, and its money."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from slacktide.allocators.site.job_tables import JobTables, Kinds, PoolOffers, kinds_of
from slacktide.budget.allowance import Allowance
from slacktide.budget.classes import Member
from slacktide.budget.fleet import Fleet
from slacktide.core.arrays import Floats, Ints, empty_columns
from slacktide.core.errors import InputError
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.core.types import Job
from slacktide.market.base import Market, Pool
from slacktide.policies.view import Places
from slacktide.simulation.pool_options import PoolOptions

ANY_GPU = "GPU"


@dataclass(frozen=True, eq=False)
class FleetScene:
    """The jobs of a fleet in the order of their submission, on a market, from one of its slots on.

    Slots are those of the market's first pool. Raises InputError when there is no job, or where a job can
    run in none of the pools.
    """

    market: Market
    members: tuple[Member, ...]
    allowance: Allowance = field(default_factory=Allowance)
    start: int = 0
    """The slot of the first pool in which the run begins; what lies before is known as the past."""
    again: bool = False  # whether the market is repeated after its end; otherwise only on demand is left then
    gpu: str = ANY_GPU  # the GPU type of jobs that name none
    fleet: Fleet | None = None
    """The classes of the fleet, where it has any, in the order in which their first jobs come."""
    on_demand_gpus: int = UNLIMITED_GPUS  # how many on-demand GPUs all jobs may hold at a time

    def __post_init__(self) -> None:
        if not self.members:
            raise InputError("a fleet must have at least one job to be simulated, got none")
        hours = [one.submitted_hours for one in self.members]
        if min(hours) < 0 or any(later < before for before, later in pairwise(hours)):
            raise InputError("jobs of a fleet must come in the order of their submission, from hour 0 on")
        if not 0 <= self.start < len(self.pools[0]):
            raise InputError(f"the first slot must be in 0..{len(self.pools[0]) - 1}, got {self.start}")

    @property
    def pools(self) -> tuple[Pool, ...]:
        return self.market.pools

    @property
    def slot_hours(self) -> float:
        return self.pools[0].slot_hours

    @property
    def hours(self) -> float:
        """The time over which jobs come."""
        return self.members[-1].submitted_hours

    @cached_property
    def templates(self) -> tuple[Job, ...]:
        """The kinds of jobs, each once."""
        return tuple({id(one.template): one.template for one in self.members}.values())

    @cached_property
    def where(self) -> list[tuple[Places, list[int]]]:
        """Where jobs of each kind may be, and which of the site's pools these are."""
        names = [pool.name for pool in self.pools]
        options = [PoolOptions.of(one, self.gpu, self.market) for one in self.templates]
        return [(one.places, [names.index(name) for name in one.names]) for one in options]

    @cached_property
    def kinds(self) -> Kinds:
        places, pools = zip(*self.where, strict=True)
        return kinds_of(places, pools, len(self.pools))

    @cached_property
    def _own_places(self) -> dict[int, Places]:
        return {}

    def places(self, number: int) -> Places:
        """Return a job as it is in each of its pools, with its own work and deadline."""
        if number not in self._own_places:
            job = self.members[number].job
            self._own_places[number] = PoolOptions.of(job, self.gpu, self.market).places
        return self._own_places[number]

    @cached_property
    def quotes(self) -> PoolOffers:
        """What is offered from the start on, by [slot, pool]; one round of a market that is repeated."""
        slots = len(self.pools[0]) if self.again else len(self.pools[0]) - self.start
        columns = [_columns(pool, self.pools[0], self.start, slots, self.again) for pool in self.pools]
        return PoolOffers(
            *(np.ascontiguousarray(np.stack(column, axis=1)) for column in zip(*columns, strict=True))
        )

    def offers(self, slot: int) -> PoolOffers:
        """Return what is offered in a slot; after the market's end only on demand, at its last price."""
        slots = len(self.quotes.spot_usd)
        row = slot % slots if self.again else min(slot, slots - 1)
        offers = PoolOffers(*(column[row] for column in self.quotes))
        if self.again or slot < slots:
            return offers
        none = np.zeros_like(offers.spot_gpus)
        return offers._replace(spot_gpus=none, on_demand_gpus=none + UNLIMITED_GPUS)

    def job_tables(self) -> JobTables:
        number = {id(job): place for place, job in enumerate(self.templates)}
        kind = np.array([number[id(one.template)] for one in self.members], dtype=np.int64)
        work = np.array([one.work for one in self.members])
        submitted = np.array([one.submitted_hours for one in self.members])
        return empty_columns(JobTables, len(work))._replace(
            kind=kind,
            safe_kind=kind,
            said_kind=kind,
            measure_gpus=np.zeros((len(work), len(self.pools)), dtype=np.int64),
            ends_gpu_hours=np.ascontiguousarray(self.kinds.phase_share[kind] * work[:, None]),
            submitted_hours=submitted,
            deadline_hours=submitted + np.array([one.due_hours for one in self.members]),
            worthless_hours=submitted + np.array([one.worthless_hours for one in self.members]),
            value_usd=np.array([one.value for one in self.members]),
            weight=np.array([one.weight for one in self.members]),
            patience_hours=np.array([one.patience_hours for one in self.members]),
            pool=np.argmax(self.kinds.fastest > 0, axis=1)[kind],  # the first one that it may be in
            idle_since_hours=submitted.copy(),
            spot_until_hours=submitted.copy(),
        )


def _columns(
    pool: Pool, home: Pool, start: int, slots: int, again: bool
) -> tuple[Floats, Floats, Ints, Ints]:
    """Return what a pool offers in each of some slots of the first pool."""
    hours = (home.start - pool.start).total_seconds() / 3600.0 + (start + np.arange(slots)) * home.slot_hours
    at = np.floor(hours / pool.slot_hours + 1e-9).astype(np.int64)
    if again:
        at %= len(pool)
    there = (at >= 0) & (at < len(pool))
    at = np.clip(at, 0, len(pool) - 1)
    return (
        pool.spot_usd_per_gpu_hour[at],
        pool.on_demand_usd_per_gpu_hour[at],
        np.where(there, pool.spot_gpus[at], 0),
        np.where(there, pool.stock(0, len(pool))[at], UNLIMITED_GPUS),
    )
