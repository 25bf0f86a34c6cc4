"""One job of a journal, folded from its events: what each of them changes, and nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from slacktide.core.quotes import Quote, Sighting
from slacktide.core.types import JobState, Order, Wish
from slacktide.core.units import MAX_GPUS
from slacktide.journal import events
from slacktide.journal.events import Decided, Event, Lived, Preempted, Submitted
from slacktide.physics.ledger import Stretch, StretchSums, added
from slacktide.physics.pace import Pace
from slacktide.physics.tariff import Meter, Tariff, price

METERING = Tariff(whole_slots=True, slot_hours=1.0)
"""A tariff that keeps the most that was held in a slot, whatever the job's own tariff is."""


class Begun(NamedTuple):
    """The beginning of a stretch that is not over yet."""

    slot: int
    from_hours: float
    quote: Quote


class Station(NamedTuple):
    """A pool to which a job's workers were ordered."""

    attempt: int  # the first set of workers that was ordered there
    pool: str


class Holding(NamedTuple):
    """What is really held, and so paid for."""

    spot_gpus: int = 0
    on_demand_gpus: int = 0

    @property
    def gpus(self) -> int:
        """Both together."""
        return self.spot_gpus + self.on_demand_gpus


NOTHING = Holding()
UNSEEN_SLOT = "unseen"  # why a job holds in a slot what it held before: there was no step in that slot
BEING_STOPPED = "stopping"  # why a job holds workers that are to end, whatever the market offers meanwhile


@dataclass(slots=True)
class HoldingRecord:
    """What a job is to hold and really holds; all hours are on the market's clock."""

    begun: Begun | None = None
    """The open stretch; None before the first decision and after all workers are gone."""
    order: Order | None = None  # what it is to hold now; None when no stretch is open
    held: Holding | None = None  # what it really holds; None in a dry run, where every order is held at once
    held_attempt: int = 0  # the set of workers that it really holds, or held last
    attempt: int = 0
    attempt_hours: float = 0.0  # when its present set of workers was ordered
    starts: int = 0  # sets of workers that were started
    preemptions: int = 0
    spot_added_hours: float = 0.0  # when spot was last added, in the pool that it is in
    spot_until_hours: float = 0.0  # when it last held spot; if it never has, when it was submitted
    idle_since_hours: float = math.inf
    """Since when it has held nothing, by the stretches that are over; infinite if it holds something."""
    stations: tuple[Station, ...] = ()  # where its workers were ordered to, one after the other
    left_pool: int = 0  # the pool in which it was when its present set of workers was ordered
    moves: int = 0  # how often its workers came to another pool
    wishes_left: tuple[Wish, ...] = ()
    """What is to be tried next where the spot that is ordered does not come."""
    sightings: dict[str, tuple[Sighting, ...]] = field(default_factory=dict)
    """What holding spot, losing it and trying for it showed of each pool, for a job that is shown nothing
    else."""


@dataclass(slots=True)
class ProgressRecord:
    """How far a job is, how fast it is believed to be, and what work was lost."""

    state: JobState = field(default_factory=JobState)  # the job where its open stretch begins, or at its end
    pace: Pace | None = None  # what is believed of its speed; None while nothing was measured
    health: events.Health = "on-time"
    blocked: str = ""  # what keeps it from going on; empty when nothing does
    memory: tuple[float, ...] = ()  # what its policy keeps from one decision to the next
    learned: bool = False
    lost_gpu_hours: float = 0.0
    """Work that was lost, as it was measured where the job reports, else as physics expects it."""
    expected_lost_gpu_hours: float = 0.0  # the part of it that is not measured yet
    reported_gpu_hours: float = 0.0
    """The most that the job reported to have done, since it last went on with new workers."""
    unreported: bool = False  # whether its workers have not reported yet from how much work they go on
    estimated: bool = False
    """Whether its progress is an estimate: workers are real, and have never reported any."""
    failures: int = 0
    failures_in_row: int = 0
    safe_at_failure_gpu_hours: float = -1.0
    losses_in_row: int = 0
    safe_at_loss_gpu_hours: float = -1.0


@dataclass(slots=True)
class MoneyRecord:
    """What a job has cost."""

    meter: Meter = field(default_factory=Meter)  # the most that it held in the slot that was last paid
    bill: StretchSums = field(default_factory=StretchSums)


@dataclass(slots=True)
class RequestRecord:
    """What users requested of a job, and whether its workers are being stopped for good."""

    cancelled: bool = False  # whether a user requested that it be ended
    preemption: events.PreemptionAsked | None = None
    ending: events.Ending | None = None
    ending_why: str = ""  # why its workers are being stopped for good, if they are
    released: bool = False


@dataclass(slots=True)
class JobRecord:
    """One job as far as the journal knows it; all hours are on the market's clock."""

    job: str
    submitted: Submitted
    began_hours: float  # when it was submitted
    ended: events.Ended | None = None
    fleet: str = ""  # the fleet that it is of; empty for a job by itself
    number: int = 0  # how many jobs of its fleet came before it
    number_of_class: int = 0  # ... and how many of its class
    holding: HoldingRecord = field(default_factory=HoldingRecord)
    progress: ProgressRecord = field(default_factory=ProgressRecord)
    money: MoneyRecord = field(default_factory=MoneyRecord)
    requests: RequestRecord = field(default_factory=RequestRecord)

    @classmethod
    def of(cls, event: Submitted) -> Self:
        """Return a job to which nothing has happened yet."""
        hours = event.at_hours
        holding = HoldingRecord(spot_until_hours=hours, idle_since_hours=hours)
        return cls(event.job, event, hours, holding=holding)

    @property
    def begun(self) -> Begun:
        """The stretch that is open; only to be read while there is one."""
        assert self.holding.begun is not None
        return self.holding.begun

    @property
    def order(self) -> Order:
        """What it is to hold; only to be read while a stretch is open."""
        assert self.holding.order is not None
        return self.holding.order

    def most(self, order: Order) -> Holding:
        """Return, for spot and on demand, what is ordered or, if that is more, what it still holds."""
        held = self.holding.held or NOTHING
        return Holding(max(order.spot_gpus, held.spot_gpus), max(order.on_demand_gpus, held.on_demand_gpus))

    @property
    def held_pool(self) -> str:
        """The pool of the set of workers that it really holds, or held last."""
        stations = self.holding.stations
        attempt = self.holding.held_attempt
        found = [station for station in stations if station.attempt <= attempt] or stations[:1]
        return found[-1].pool if found else self.submitted.pool

    @property
    def paid_pool(self) -> str:
        """The pool of what is paid for: that of an older set until that has gone, else of the order."""
        if self.holding.held is not None and self.holding.held.gpus:
            return self.held_pool
        return self.submitted.pool if self.holding.order is None else self.holding.order.pool

    @property
    def active(self) -> bool:
        """Whether anything can still happen to it."""
        return self.ended is None

    @property
    def restarts(self) -> int:
        """How often its workers were started again."""
        return max(0, self.holding.starts - 1)

    @property
    def status(self) -> str:
        """The state in the words users see."""
        if self.ended is not None:
            return self.ended.status
        if self.requests.ending is not None:
            return "cancelling"
        if self.holding.order is None or self.holding.order.gpus == 0:
            return "pending" if self.holding.starts == 0 else "recovering"
        fresh = self.progress.state.progress_gpu_hours <= 0
        if self.holding.held is not None and self.holding.held.gpus == 0:  # its machines have not come yet
            return "starting" if fresh else "recovering"
        return "starting" if fresh and self.progress.state.pause_hours > 0 else "running"


def apply(record: JobRecord, event: Event) -> None:
    """Apply one more event of a job."""
    holding, progress, requests = record.holding, record.progress, record.requests
    match event:
        case Decided():
            _decided(record, event)
        case Lived():
            _lived(record, event)
        case Preempted():
            _preempted(record, event)
        case events.Lost():
            _lose(progress, event.lost_gpu_hours, event.checkpointed_gpu_hours)
            moved = event.checkpointed_gpu_hours > progress.safe_at_loss_gpu_hours + 1e-9
            progress.losses_in_row = 1 if moved else progress.losses_in_row + 1
            progress.safe_at_loss_gpu_hours = event.checkpointed_gpu_hours
        case events.WorkerFailed() | events.Stalled():
            _lose(progress, event.lost_gpu_hours, event.checkpointed_gpu_hours)
            moved = event.checkpointed_gpu_hours > progress.safe_at_failure_gpu_hours + 1e-9
            progress.failures += 1
            progress.failures_in_row = 1 if moved else progress.failures_in_row + 1
            progress.safe_at_failure_gpu_hours = event.checkpointed_gpu_hours
        case events.Restarted() if holding.order is not None:
            _new_attempt(record, event.attempt, event.at_hours, progress.state.pool)
            holding.order = holding.order._replace(attempt=event.attempt, delay_s=event.delay_s)
            holding.starts += 1
        case events.Ended():
            record.ended, progress.blocked = event, ""
            holding.held, holding.order, holding.begun, requests.ending = None, None, None, None
        case events.Released():  # it waits for the next controller
            holding.order, holding.begun, requests.ending, requests.released = None, None, None, True
            # None stays None: in a dry run the back end never says what is held.
            holding.held = None if holding.held is None else NOTHING
        case events.Held():
            holding.held = Holding(event.spot_gpus, event.on_demand_gpus)
            holding.held_attempt = event.attempt
        case events.PreemptionAsked():
            requests.preemption = event
        case events.CancellationAsked():
            requests.cancelled = True
        case _:
            _learn(progress, event)


def _learn(progress: ProgressRecord, event: Event) -> None:
    """Apply what an event says of a job's progress and outlook; other events change nothing."""
    match event:
        case events.Resumed():
            progress.lost_gpu_hours += event.lost_gpu_hours - event.expected_gpu_hours
            progress.reported_gpu_hours, progress.expected_lost_gpu_hours = event.after_gpu_hours, 0.0
            progress.unreported = False
        case events.Blocked() | events.Unblocked():
            progress.blocked = event.why if isinstance(event, events.Blocked) else ""
        case events.HealthChanged():
            progress.health = event.health
        case events.Learned():
            progress.learned = True
        case events.PaceRevised():
            progress.pace = event.pace


def _preempted(record: JobRecord, event: Preempted) -> None:
    see(record, event)
    holding = record.holding
    holding.preemptions += event.spot_left < event.spot_before
    _lose(record.progress, event.lost_gpu_hours)
    record.requests.preemption = None
    if holding.held is not None:
        # What the market took is not held any more, also while its workers are still ending.
        holding.held = holding.held._replace(spot_gpus=min(holding.held.spot_gpus, event.spot_left))


def _decided(record: JobRecord, event: Decided) -> None:
    holding, progress, gpus = record.holding, record.progress, event.spot_gpus + event.on_demand_gpus
    if event.attempt != holding.attempt and gpus > 0:
        holding.starts += 1
    _new_attempt(record, event.attempt, event.at_hours, event.state.pool)
    pools = event.pool, *record.submitted.pools[event.state.pool : event.state.pool + 1]
    if event.spot_gpus > event.state.spot_gpus or (event.spot_gpus and pools[0] != pools[-1]):
        holding.spot_added_hours = event.at_hours
    _lose(progress, event.lost_gpu_hours)
    see(record, event)
    holding.wishes_left = event.instead[event.missed :]
    if gpus > 0 and (not holding.stations or holding.stations[-1].pool != event.pool):
        holding.stations += (Station(event.attempt, event.pool),)
    record.requests.ending = event.ending
    record.requests.ending_why = "" if event.ending is None else event.why
    progress.memory, progress.state = event.memory, event.state
    holding.begun = Begun(event.slot, event.at_hours, event.quote)
    holding.order = Order(
        event.job, event.attempt, event.pool, event.spot_gpus, event.on_demand_gpus, event.until_hours,
        ending=event.ending is not None,
    )  # fmt: skip


def _new_attempt(record: JobRecord, attempt: int, at_hours: float, pool: int) -> None:
    holding = record.holding
    if attempt != holding.attempt:
        holding.attempt, holding.attempt_hours, holding.left_pool = attempt, at_hours, pool
        record.progress.unreported = record.progress.reported_gpu_hours > 0.0


def _lose(progress: ProgressRecord, lost_gpu_hours: float, safe_gpu_hours: float = 0.0) -> None:
    """Count work as lost; both it and the safe work had been done before."""
    progress.lost_gpu_hours += lost_gpu_hours
    progress.expected_lost_gpu_hours += lost_gpu_hours
    if progress.reported_gpu_hours > 0.0:
        progress.reported_gpu_hours = max(progress.reported_gpu_hours, safe_gpu_hours + lost_gpu_hours)


def _lived(record: JobRecord, event: Lived) -> None:
    stretch, holding, progress, money = event.priced.stretch, record.holding, record.progress, record.money
    holding.moves += event.state.pool != progress.state.pool and money.bill.gpu_hours > 0.0
    progress.state = event.state
    progress.estimated = stretch.estimated and holding.held is not None
    if not stretch.estimated:
        progress.reported_gpu_hours = max(progress.reported_gpu_hours, event.state.progress_gpu_hours)
    if holding.begun is not None:  # what is held goes on from here, unless a decision follows
        holding.begun = holding.begun._replace(from_hours=event.at_hours)
    money.bill = added(money.bill, event.priced)
    holding.idle_since_hours, holding.spot_until_hours = without_gpus(record, stretch)
    pools = record.submitted.pools
    pool = pools.index(stretch.pool) if stretch.pool in pools else event.state.pool
    _, money.meter = price(
        METERING, money.meter, stretch.slot, pool, stretch.quote, stretch.spot_gpus, stretch.on_demand_gpus,
        stretch.held_hours, 0.0,
    )  # fmt: skip


def without_gpus(record: JobRecord, stretch: Stretch) -> tuple[float, float]:
    """Return since when a job has held nothing and until when it held spot, after one more stretch."""
    idle_hours = math.inf if stretch.gpus else min(record.holding.idle_since_hours, stretch.from_hours)
    return idle_hours, stretch.to_hours if stretch.spot_gpus else record.holding.spot_until_hours


def see(record: JobRecord, event: Decided | Preempted) -> None:
    """Keep what an event shows of pools, for a job that knows only what it tried."""
    if record.submitted.sight != "tried":
        return
    if isinstance(event, Preempted):
        if event.actor == "market" and record.holding.order is not None:
            _sighted(record, event, record.holding.order.pool, event.spot_left, event.spot_left)
        return
    if event.why == UNSEEN_SLOT:
        return
    here = record.submitted.pools[event.state.pool]
    known = record.holding.sightings.get(here, ())
    if event.state.spot_gpus and not (known and known[-1].at_hours == event.at_hours):
        _sighted(record, event, here, event.state.spot_gpus, MAX_GPUS)
    wishes = (Wish(event.wanted_spot_gpus, event.wanted_on_demand_gpus, event.wanted_pool), *event.instead)
    for place, wish in enumerate(wishes[: event.missed]):
        if place not in event.unstocked:  # those show nothing of spot
            _sighted(record, event, wish.pool or here, 0, wish.spot_gpus - 1)
    for wish in wishes[event.missed : event.missed + 1]:
        if wish.spot_gpus:
            _sighted(record, event, wish.pool or here, wish.spot_gpus, MAX_GPUS)


def _sighted(record: JobRecord, event: Event, pool: str, at_least: int, at_most: int) -> None:
    seen = record.holding.sightings
    seen[pool] = (*seen.get(pool, ()), Sighting(event.at_hours, at_least, at_most))
