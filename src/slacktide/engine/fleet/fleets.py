"""The fleets of a journal at work: one allocator decides about all jobs of a fleet at once.

An allocator that learns receives the facts of the journal's events, in their order, and writes down what
it knows with every decision. A new engine begins with what was written down last and adds what came
later, so it knows the same.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import dropwhile

import numpy as np

from slacktide.allocators.base import allocators
from slacktide.allocators.site.job_tables import Kinds, kinds_of
from slacktide.allocators.site.spot import Spot
from slacktide.allocators.view import (
    Allocator,
    AnyAllocator,
    Arrived,
    Fact,
    Finished,
    Learning,
    OldMemory,
    Progressed,
    Remembering,
    Sizing,
    begin,
    needs_market,
)
from slacktide.budget.allowance import Allowance
from slacktide.budget.classes import JobTemplate
from slacktide.budget.fleet import Fleet
from slacktide.core.errors import InputError, UnknownNameError
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.core.types import Phase
from slacktide.engine.job.job_context import JobContext
from slacktide.engine.job.journal_market import hours_since, open_written, own_slot
from slacktide.files.fleet.fleet import FleetFile, parse_fleet
from slacktide.files.job import parse_job
from slacktide.journal.events import ClockSet, Ended, Lived, Record, Submitted
from slacktide.journal.state.fleet_record import FleetRecord
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.journal.store.base import Store
from slacktide.market.base import Market
from slacktide.market.live.feed import Feed
from slacktide.market.tape import MarketView
from slacktide.physics import progress as physics
from slacktide.policies.view import Places
from slacktide.simulation.playback import Playback, Setting

DEFAULT_ALLOCATOR = "fixed-width"
MARKET_ALLOCATOR = "shadow-prices"  # the usual one of a fleet that names a market


@dataclass(slots=True)
class LiveFleet:
    """One fleet with its allocator, as it runs."""

    fleet: Fleet | None  # none where the fleet has no classes: then it is on a market
    allocator: Allocator
    name: str  # the allocator's
    classes: dict[str, int]
    decided_hours: float = -np.inf  # when the allocator decided last, on the market's clock
    decided_about: tuple[str, ...] | None = None
    """The jobs that were present then; None where that is unknown, so that it decides again."""
    decided_orders: dict[str, tuple[int, int]] | None = None
    """What each job was to hold then, of spot and on demand; None where that is unknown."""
    market: FleetMarket | None = None
    """The market of jobs that rent spot or have a budget of money; None: everything is on demand."""
    allowance: Allowance = field(default_factory=Allowance)
    """What may be spent in each period, on the clock of the fleet."""
    on_demand_gpus: int = UNLIMITED_GPUS  # how many on-demand GPUs its jobs may hold at a time; on a market
    templates: Mapping[str, JobTemplate] = field(default_factory=dict)
    """The job templates of the classes by name, for jobs on a market."""

    def renewed_hours(self, fleet: FleetRecord, now_hours: float) -> float:
        """Return when money was last renewed, on the market's clock; minus infinity if it always is."""
        if self.allowance.renewal == "rolling":
            return -np.inf
        return fleet.origin_hours + self.allowance.period(now_hours - fleet.origin_hours).since_hours

    @property
    def owns_machines(self) -> bool:
        """Whether the fleet rents machines of its own, instead of single GPUs for the jobs that hold them."""
        fleet = self.fleet
        if fleet is None or self.market is not None:
            return False
        plain = (fleet.node_gpus, fleet.provisioning_hours, fleet.idle_grace_hours) == (1, 0.0, 0.0)
        return not plain or isinstance(self.allocator, Sizing)

    @property
    def wake_hours(self) -> float:
        """When the allocator wants to decide again, on its own clock."""
        return self.allocator.wake_hours if isinstance(self.allocator, Learning) else np.inf

    def kind(self, record: JobRecord) -> int:
        """Return the number of a job's class; one without a class, on a market, has the last number."""
        named = class_of(record.submitted)
        return self.classes[named] if self.market is None else self.classes.get(named, len(self.classes))

    def phase(self, record: JobRecord, progress_gpu_hours: float, terms: physics.Terms) -> int:
        """Return the phase that a job is in; if its phases are not those of its class, by its share done."""
        if self.fleet is None or self.market is not None:
            return physics.phase_of(terms, progress_gpu_hours)
        first, last = self.fleet.stages.first[self.kind(record) :][:2]
        if len(terms.phase_ends_gpu_hours) == last - first:
            return physics.phase_of(terms, progress_gpu_hours)
        shares = np.cumsum(self.fleet.stages.work_gpu_hours[first:last])
        done = progress_gpu_hours / terms.work_gpu_hours
        return int(min(np.searchsorted(shares / shares[-1], done, side="right"), last - first - 1))


class LiveFleets:
    """All fleets of a journal; each is opened when it is first needed."""

    def __init__(
        self,
        store: Store,
        state: JournalState,
        terms_of: Callable[[JobRecord], physics.Terms],
        open_fleet: Callable[[Submitted], LiveFleet],
    ) -> None:
        self._store, self._state, self._terms_of, self._open = store, state, terms_of, open_fleet
        self._runs: dict[str, LiveFleet] = {}

    def run(self, fleet: FleetRecord) -> LiveFleet:
        """Return a fleet as it runs; its allocator has learned everything in the journal."""
        if fleet.key not in self._runs:
            run = self._runs[fleet.key] = self._open(fleet.first)
            unknown = self._recall(fleet, run)
            if isinstance(run.allocator, Learning):
                self._teach(fleet, run, unknown)
        return self._runs[fleet.key]

    def _recall(self, fleet: FleetRecord, run: LiveFleet) -> Iterable[Record]:
        """Let an allocator recall what was written down last; return the records that are not in it.

        If an earlier version wrote it in a form that is no longer read, these are all records of the fleet.
        """
        recalls = isinstance(run.allocator, Remembering) and bool(fleet.memory)
        if isinstance(run.allocator, Remembering) and recalls:
            try:
                run.allocator.recall(json.loads(fleet.memory))
            except OldMemory:
                return dropwhile(lambda record: record.event.job != fleet.first.job, self._store.read())
        if run.market is not None or recalls:
            run.decided_hours, run.decided_about = fleet.decided_hours, fleet.decided_about
        return self._store.read(after=fleet.memory_seq)

    def of(self, job: JobRecord) -> LiveFleet | None:
        """Return the fleet of a job as it runs; None for a job by itself."""
        fleet = self._state.fleets.get(job.fleet)
        return None if fleet is None else self.run(fleet)

    def shares_market(self, job: JobRecord) -> bool:
        """Whether a job is of a fleet on a market."""
        run = self.of(job)
        return run is not None and run.market is not None

    def quota_left(self, job: JobRecord, spot: Spot) -> int:
        """Return how many on-demand GPUs the other jobs of its fleet leave to a job."""
        run = self.of(job)
        if run is None or run.on_demand_gpus >= UNLIMITED_GPUS:
            return UNLIMITED_GPUS
        others = (one for one in self._state.fleets[job.fleet].present if one != job.job)
        return max(0, run.on_demand_gpus - spot.on_demand_of(others))

    def forget(self, key: str) -> None:
        """Forget a fleet whose first job was refused."""
        self._runs.pop(key, None)

    def apply(self, record: Record) -> None:
        """Apply an event of the journal, after the state has applied it."""
        if isinstance(record.event, ClockSet):
            self._runs.clear()  # fleets are of one clock
        job = self._state.jobs.get(record.event.job)
        fleet = None if job is None else self._state.fleets.get(job.fleet)
        if fleet is None or fleet.key not in self._runs:
            return
        run = self._runs[fleet.key]
        if isinstance(run.allocator, Learning):
            self._teach(fleet, run, (record,))

    def _teach(self, fleet: FleetRecord, run: LiveFleet, records: Iterable[Record]) -> None:
        assert isinstance(run.allocator, Learning)
        for record in records:
            if record.seq > self._state.seq:
                return
            job = self._state.jobs.get(record.event.job)
            if job is not None and job.fleet == fleet.key:
                for fact in self._facts(fleet, run, job, record):
                    run.allocator.learn(fact)

    def _facts(self, fleet: FleetRecord, run: LiveFleet, job: JobRecord, record: Record) -> Iterator[Fact]:
        """Yield what an event of a job teaches an allocator."""
        event, kind = record.event, run.kind(job)
        hours = event.at_hours - fleet.began_hours
        if isinstance(event, Submitted):
            yield Arrived(hours, job.number, kind)
        elif isinstance(event, Lived):
            one = event.priced.stretch
            if one.gained_gpu_hours > 0 and one.productive_hours > 0:
                # The middle of the stretch: both its ends may be the border of a phase, but for rounding.
                middle = event.state.progress_gpu_hours - one.gained_gpu_hours / 2
                phase = run.phase(job, middle, self._terms_of(job))
                yield Progressed(
                    hours, job.number, kind, phase, one.gpus, one.productive_hours, one.gained_gpu_hours
                )
        elif isinstance(event, Ended):
            yield Finished(hours, job.number, kind)


def open_fleet(submitted: Submitted) -> LiveFleet:
    """Return the fleet that a job is of, its allocator at the beginning; raises InputError."""
    file = parse_fleet(submitted.fleet, path=submitted.fleet_path)
    made = allocators.make(json.loads(submitted.policy))
    fleet = file.fleet
    names = {one.name: index for index, one in enumerate(file.classes)}
    run = LiveFleet(fleet, begin(made, fleet), allocators.name_of(made), names)
    if shares_market(file, made):
        run.market = fleet_market(submitted)
        run.allowance = dataclasses.replace(file.allowance or Allowance(), start=run.market.start)
        run.on_demand_gpus = file.on_demand_gpus
        run.templates = {one.name: one for one in file.templates}
    return run


def shares_market(file: FleetFile, allocator: AnyAllocator) -> bool:
    """Whether the jobs of a fleet share a market of spot and on-demand GPUs, and its money."""
    return needs_market(allocator) or file.market is not None


def check_member(submitted: Submitted) -> None:
    """Raise InputError unless this job can be one of its fleet."""
    run = open_fleet(submitted)
    named = class_of(submitted)
    if not named and run.market is not None:
        return
    if not named:
        raise InputError(
            f"{submitted.path}: a job of a fleet must name its class, got none; write 'class: NAME'"
        )
    if named not in run.classes:
        raise UnknownNameError("a class", named, run.classes, place=f"{submitted.path}: ")


def class_of(submitted: Submitted) -> str:
    """Return the class that a job names; in older journals only its file says so."""
    if submitted.fleet_class:
        return submitted.fleet_class
    return parse_job(submitted.text, path=submitted.path).fleet_class or ""


class FleetMarket:
    """All pools of a market from a slot of the first of them on; hours and slots are counted from there."""

    def __init__(self, market: Market, start_slot: int = 0, feed: Feed | None = None) -> None:
        self._pools, self._start_slot, self._feed = market.pools, start_slot, feed
        first, *others = market.pools
        known = Setting(neighbours=tuple(others))
        self._playback = None if feed is not None else Playback(first, start_slot, known)
        self.names = tuple(pool.name for pool in market.pools)
        self.tables = KindTables(self.names)
        """The kinds of jobs that are on it."""
        self.slot_hours = first.slot_hours

    @property
    def start(self) -> datetime:
        """The market's time at which the clock of the fleet stood at 0."""
        return self._pools[0].time(self._start_slot)

    def slot(self, hours: float) -> int:
        """Return the slot that a time falls in."""
        return math.floor(hours / self.slot_hours + 1e-9)

    def hours(self, now_hours: float, origin_hours: float) -> float:
        """Return a moment of the market clock on that of the fleet, which began at `origin_hours`."""
        return hours_since(now_hours, origin_hours, self.slot_hours)

    def at(self, slot: int) -> MarketView:
        """Return the market as it is in a slot."""
        if self._feed is not None:
            return self._feed.among(self.names, self._start_slot + slot, self._start_slot, 0)
        assert self._playback is not None
        return self._playback.at(slot)


def fleet_market(first: Submitted) -> FleetMarket:
    """Open the market of a fleet where its first job stood; raises InputError or FileError."""
    market, feed = open_written(first.market)
    start = own_slot(market.pools[0], market.pool(first.pool), first.start_slot)
    return FleetMarket(market, start, feed)


SHARE_DIGITS = 9  # phases that are the same share of the work up to this many digits are the same
SPARE_KINDS = 32
"""Once more kinds than this are left over from jobs that are gone, the tables are rebuilt without them."""


class KindTables:
    """The kinds of jobs that a fleet has, rebuilt only when a job of a new kind comes."""

    def __init__(self, pools: Sequence[str]) -> None:
        self._pools = tuple(pools)
        self._rows: dict[Hashable, int] = {}
        self._places: list[tuple[Places, list[int]]] = []
        self._kinds: Kinds | None = None
        self._shapes: dict[str, Hashable] = {}

    def of(self, contexts: Sequence[tuple[str, JobContext]]) -> tuple[Kinds, list[int]]:
        """Return the tables, and which row of them each of these jobs is; a job is named with its context."""
        self._shapes = {job: self._shapes.get(job) or _shape(context) for job, context in contexts}
        if len(self._rows) > len(set(self._shapes.values())) + SPARE_KINDS:
            self._rows, self._places, self._kinds = {}, [], None
        for job, context in contexts:
            if self._shapes[job] not in self._rows:
                self._rows[self._shapes[job]] = len(self._rows)
                self._places.append((context.pools.places, self.where(context)))
                self._kinds = None
        if self._kinds is None:
            places, where = zip(*self._places, strict=True)
            self._kinds = kinds_of(places, where, len(self._pools))
        return self._kinds, [self._rows[self._shapes[job]] for job, _ in contexts]

    def where(self, context: JobContext) -> list[int]:
        """Return which of the fleet's pools are those that a job may use, in the job's own order."""
        return [self._pools.index(name) for name in context.pool_names]


def _shape(context: JobContext) -> Hashable:
    """Return a job without its amount of work, deadline and value: equal ones are of one kind."""
    job = context.job
    shares = [round(part.work_gpu_hours / job.work_gpu_hours, SHARE_DIGITS) for part in job.parts]
    phases = tuple(Phase(share, part.speedup) for share, part in zip(shares, job.parts, strict=True))
    alike = dataclasses.replace(
        job,
        name="",
        phases=phases,
        deadline_hours=math.inf,
        worthless_after_hours=None,
        value_usd=0.0,
        max_cost_usd=None,
        work_spread=0.0,
    )
    return alike, context.pool_names
