"""The one way in which it is decided what jobs hold: what may be known, and what is wanted.

A `Policy` decides about one job, an `Allocator` about all jobs of a run at once; `allocate.each` makes an
allocator of policies. Neither knows a simulator, an engine or a clock: whoever runs them hands them views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from slacktide.arrays import Floats, Ints
from slacktide.budget.fleet import Fleet
from slacktide.errors import InputError, UnknownNameError, shown
from slacktide.market.tape import Past
from slacktide.pace import KNOWN, Pace
from slacktide.site.kinds import Kinds, Lives
from slacktide.site.moment import Moment, PoolView
from slacktide.site.spot import Spot
from slacktide.types import (
    TIME_TOLERANCE_HOURS,
    UNLIMITED_GPUS,
    Allocation,
    Job,
    JobState,
    Quote,
    Reason,
    Sighting,
)


class Known(Protocol):
    """What a view asks when a policy wants to know more than the present."""

    def past(self, pool: int) -> Past: ...
    def forecast(self, pool: int) -> Sequence[Quote]: ...
    def sightings(self, pool: int) -> Sequence[Sighting]: ...


class Places(NamedTuple):
    """A job that may be in any of the pools of its view; entries are in their order."""

    jobs: tuple[Job, ...]
    """The job as it is in each pool: its widths there, and how fast it is."""
    move_hours: Floats
    """[from, to]: how long its checkpoint is on its way."""
    move_usd: Floats
    """[from, to]: what that costs."""
    gpus: tuple[str, ...] = ()
    """The GPU type in each pool, empty where it is not known; () where none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a policy may know when it decides about one slot: the present, the past, and a forecast."""

    job: Job
    id: str = ""
    """The job's name in its run; the name of its file where it runs alone."""
    state: JobState
    """What is held and done; spot the market has just taken away is already gone from it."""
    now_hours: float
    """Hours since the job began."""
    next_hours: float
    """When it will be asked again whatever happens: the slot's end."""
    slot: int
    """Slots since the job began."""
    slot_hours: float
    pools: Sequence[PoolView]
    """All pools of the market at this moment."""
    pool: int = 0
    """Which of them the job is in."""
    memory: tuple[float, ...] = ()
    """What this policy put into its last allocation's memory; empty in the first slot."""
    pace: Pace = KNOWN
    """What is believed of the job's speed; `job` is what its file says, `policy.base.sight` has both."""
    known: Known | None = None
    """What `past` and `forecast` ask; None in a view made by hand that has neither."""
    places: Places | None = None
    """Where the job may be; None: only in the pool that it is in."""

    @property
    def quote(self) -> Quote:
        """What the job's own pool offers now; on-demand GPUs that it holds there are among those offered."""
        return self.pools[self.pool].quote.keeping(self.state.on_demand_gpus)

    @property
    def notice_hours(self) -> float | None:
        """In this time spot goes that the job holds, as it was warned; None: it was not warned."""
        return self.pools[self.pool].notice_hours

    @property
    def hours(self) -> float:
        """Hours until it will be asked again; kept whole, because `next - now` differs in the last bits."""
        hours = self.next_hours - self.now_hours
        return self.slot_hours if abs(hours - self.slot_hours) <= TIME_TOLERANCE_HOURS else hours

    @property
    def hours_left(self) -> float:
        """Hours until the deadline; negative when it has passed."""
        return self.job.deadline_hours - self.now_hours

    @property
    def work_left_gpu_hours(self) -> float:
        """Work still to be done, in GPU-hours of the reference GPU."""
        return self.job.work_gpu_hours - self.state.progress_gpu_hours

    def past(self, pool: int | None = None) -> Past:
        """Return what a pool, else the job's own, has quoted so far, the present slot last."""
        if self.known is None:
            raise InputError("a view must be made from a market's tapes to have a past, got one made by hand")
        return self.known.past(self.pool if pool is None else pool)

    def forecast(self, pool: int | None = None) -> Sequence[Quote]:
        """Return the run's forecast of a pool, else of the job's own, the next slot first."""
        return () if self.known is None else self.known.forecast(self.pool if pool is None else pool)

    def sightings(self, pool: int) -> Sequence[Sighting]:
        """Return what was seen of a pool since its past ended, in order; nothing where all is recorded."""
        return () if self.known is None else self.known.sightings(pool)

    def allowed_width(self, gpus: int) -> int:
        """Return the greatest width the job may have within this many GPUs; 0 if there is none."""
        return max((width for width in self.job.widths if width <= gpus), default=0)


@runtime_checkable
class Policy(Protocol):
    """Decides, slot by slot, what one job holds. No I/O, no clock, no future, no memory."""

    def decide(self, view: View) -> Allocation:
        """Return what to hold until the next slot, and why; the same view always gets the same answer."""
        ...


def look(
    job: Job,
    moment: Moment,
    state: JobState,
    slot: int,
    slot_hours: float,
    memory: tuple[float, ...] = (),
    name: str = "",
    pace: Pace = KNOWN,
    places: Places | None = None,
) -> View:
    """Return what a policy may know in a slot of a job that stands at this moment of the market."""
    return View(
        job=job,
        id=name or job.name,
        state=state,
        now_hours=slot * slot_hours,
        next_hours=(slot + 1) * slot_hours,
        slot=slot,
        slot_hours=slot_hours,
        pools=moment,
        pool=moment.own,
        memory=memory,
        pace=pace,
        known=moment,
        places=places,
    )


def stays_in(wish: Allocation, pool: str, job: str) -> None:
    """Raise InputError unless a wish of a job that may not move is for the pool that it is in."""
    if wish.pool not in (None, pool):
        raise InputError(
            f"job {shown(job)}: an allocation must stay in the job's pool, {shown(pool)}, got "
            f"{shown(wish.pool)}; this job may not move, so leave the pool out"
        )


def goes_where_it_may(wish: Allocation, pools: Sequence[str], job: str) -> None:
    """Raise UnknownNameError unless all that is wished for is in pools that the job may use."""
    for each in wish.wishes:
        if each.pool is not None and each.pool not in pools:
            raise UnknownNameError("pool", each.pool, pools, place=f"job {shown(job)}: ")


class Columns(NamedTuple):
    """The jobs that are present, one entry of each array for each, in the order in which they were submitted.

    The arrays are read-only and good only until the decision is made: who remembers must copy.
    """

    ids: Ints
    """The run's own number of each job, ascending; facts name jobs by it."""
    kind: Ints
    """Which class of the fleet each is of; where there is no fleet, each is of its own."""
    number: Ints
    """How many jobs of its kind came before this one."""
    phase: Ints
    """Which of its phases each is in."""
    submitted_hours: Floats
    spot_gpus: Ints
    on_demand_gpus: Ints
    pause_hours: Floats
    """Hours without progress still to come."""
    progress_gpu_hours: Floats
    """Work done so far, over all phases."""
    work_gpu_hours: Floats | None
    """All its work; only for allocators that declare `needs_sizes`."""

    @property
    def gpus(self) -> Ints:
        """The width that each holds; 0 for a job that waits."""
        width: Ints = self.spot_gpus + self.on_demand_gpus
        return width


class Rows(Protocol):
    """What a fleet view asks when somebody wants to read about one job."""

    def name(self, place: int) -> str:
        """Return the name of the job at a place of the columns."""
        ...

    def view(self, place: int, spot: Spot) -> View:
        """Return its view; what others hold by this account is gone from what it is offered."""
        ...


class Money(NamedTuple):
    """What a fleet may spend in the present period of its budget, and what it has."""

    budget_usd: float = np.inf
    spent_usd: float = 0.0
    """In this period, up to this moment."""
    usd_per_hour: float = np.inf
    """The budget on average over time."""
    since_hours: float = 0.0
    """When the period began, on the clock of the run."""
    until_hours: float = np.inf
    """When it ends; infinite where money comes back as time passes."""
    ever_usd: float = 0.0
    """All that was spent since the run began."""

    @property
    def left_usd(self) -> float:
        """What has not been spent."""
        return self.budget_usd - self.spent_usd


class SiteView(NamedTuple):
    """A market that all jobs of a fleet share, and its money: for allocators that rent spot or keep a budget.

    Arrays are read-only and good only until the decision is made.
    """

    slot: int
    """Slots of the market since the run began."""
    slot_hours: float
    next_hours: float
    """When the market changes next, on the clock of the run: it will be asked again then."""
    pools: tuple[PoolView, ...]
    """What each pool offers to all jobs together, what they hold included."""
    kinds: Kinds
    jobs: Lives
    """One row for each job, in the order of `FleetView.jobs`; `kind` is a row of `kinds`."""
    money: Money
    known: Known
    """Asked for the past of each pool."""
    on_demand_gpus: int = UNLIMITED_GPUS
    """How many on-demand GPUs all jobs together may hold at a time, in all pools."""


class Refusal(NamedTuple):
    """Why a job cannot be promised, and the nearest that can."""

    why: str
    deadline_hours: float | None = None
    """From submission: the earliest deadline that could be promised."""
    budget_usd: float | None = None
    """The budget of a period with which it could be promised as it is."""
    gpus: int | None = None
    """The width that it would have to be allowed."""


class FleetView(NamedTuple):
    """All jobs that an allocator decides about, at one moment.

    Columns are for those who compute, rows for those who read.
    """

    now_hours: float
    """Hours since the run began."""
    fleet: Fleet | None
    """The classes that the jobs are of; None where each is of its own kind."""
    jobs: Columns
    due: Sequence[int]
    """Places of the jobs that a policy for one job is asked about now: all of them at a slot's border, inside
    a slot those that something happened to."""
    ready_gpus: int
    """GPUs of the nodes that can be used now."""
    rented_gpus: int
    """GPUs that are paid for: those of the nodes on their way included."""
    spent_gpu_hours: float
    """GPU-hours that were paid for since the run began."""
    spot: Spot
    """Who holds spot, of all jobs of the site; whoever moves it on must copy it."""
    shown: Rows
    site: SiteView | None = None
    """The market and the money that the jobs share; None where all is on demand, at one price."""

    def row(self, place: int, spot: Spot | None = None) -> View:
        """Return the view of the job at a place, beside what others hold: now, or by another account."""
        return self.shown.view(place, self.spot if spot is None else spot)

    def rows(self) -> Iterator[View]:
        """Yield one view for each job, made on the way."""
        return (self.row(place) for place in range(len(self.jobs.ids)))

    def allowed(self, wanted: Ints | int) -> Ints:
        """Return for each job the widest width it may have that is no wider than wanted, or its narrowest."""
        if self.fleet is None:
            raise InputError("allowed widths must be looked up in a fleet, got jobs of none; read their rows")
        stages = self.fleet.stages
        stage = self.stage
        narrower = stages.narrower[stage, np.clip(wanted, 0, stages.narrower.shape[1] - 1)]
        return np.where(np.asarray(wanted) > 0, np.maximum(narrower, stages.least[stage]), 0)

    @property
    def stage(self) -> Ints:
        """The row of each job's phase in the tables of the fleet."""
        assert self.fleet is not None
        stage: Ints = self.fleet.stages.first[self.jobs.kind] + self.jobs.phase
        return stage


class Wanted(NamedTuple):
    """A decision about all jobs as columns, in the order of `FleetView.jobs`; 0 and 0 let a job wait."""

    on_demand_gpus: Ints
    spot_gpus: Ints | None = None
    """None: no spot for anybody."""
    rule: str = ""
    """Why; the allocator's name where it says nothing."""
    pool: Ints | None = None
    """Which of the site's pools each is to be in; None: where it is."""
    why: Callable[[int], Reason] | None = None
    """Says for the job at a place why it has what it has; asked only by whoever tells it."""


Decision: TypeAlias = Mapping[str, Allocation] | Wanted
"""Either form. A job that a mapping does not name keeps what it holds, so a mapping costs what changes."""


@runtime_checkable
class Allocator(Protocol):
    """Decides what all jobs of a run hold; asked whenever something happened that it may want to answer.

    That is: a slot's border, an arrival, the end of a phase or job, a loss, a node that is ready, and the
    time at which it asked to be woken.
    """

    def decide(self, view: FleetView) -> Decision:
        """Return what jobs hold from now on: of those that change, by their places, or of all, as columns."""
        ...


@runtime_checkable
class Sizing(Allocator, Protocol):
    """An allocator that also says how many GPUs to keep rented, whether jobs use them or not."""

    def rent_gpus(self, view: FleetView) -> int:
        """Return the size of the cluster; asked before each decision."""
        ...


class Arrived(NamedTuple):
    """A job came."""

    now_hours: float
    id: int
    kind: int


class Progressed(NamedTuple):
    """A job did some work at one width in one phase; pauses are not counted in the hours."""

    now_hours: float
    id: int
    kind: int
    phase: int
    gpus: int
    hours: float
    work_gpu_hours: float


class Finished(NamedTuple):
    """A job is done."""

    now_hours: float
    id: int
    kind: int


Fact: TypeAlias = Arrived | Progressed | Finished


@runtime_checkable
class Learning(Allocator, Protocol):
    """An allocator that remembers what happened; the same facts and views again make it the same."""

    @property
    def wake_hours(self) -> float:
        """When it wants to be told of all progress and asked again, at the latest."""
        ...

    def learn(self, fact: Fact) -> None:
        """Take in what happened; told before it is asked again."""
        ...


class OldMemory(InputError):
    """What was written down is of an earlier form: whoever runs the allocator tells it all facts again."""


@runtime_checkable
class Remembering(Allocator, Protocol):
    """An allocator that can write down all that it knows; whoever learns must be able to.

    A new one of the same allocator and fleet that recalls it decides the same from then on, to the last bit.
    """

    def remember(self) -> Mapping[str, Any]:
        """Return all that it knows as JSON values, sharing nothing with it."""
        ...

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Know what was written down, and nothing else; raises OldMemory for what it cannot read any more."""
        ...


@runtime_checkable
class Admitting(Allocator, Protocol):
    """An allocator that makes promises: it is asked before a job is taken in."""

    def admit(self, view: FleetView) -> Refusal | None:
        """Return None, or why the last job of the view, which is not taken in yet, cannot be promised."""
        ...


BUDGET_SHORT = "budget-short"
"""The rule of decisions about a job whose rescue, which was promised, the budget does not cover any more."""


class Standing(NamedTuple):
    """What an allocator that watches money says of itself after a decision."""

    reserved_usd: float = 0.0
    """What is kept for admitted deadlines, should all spot be gone."""
    usd_per_job_hour: float = np.nan
    """What it thinks an hour of a job's waiting is worth now."""
    scarcity_usd_per_gpu_hour: tuple[float, ...] = ()
    """What spot is worth above its price, in each pool."""


@runtime_checkable
class Pricing(Allocator, Protocol):
    """An allocator that can say by which prices it decides."""

    @property
    def standing(self) -> Standing:
        """What it decided by last."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """An allocator that works something out for a fleet first, or starts to remember."""

    def begin(self, fleet: Fleet) -> Allocator:
        """Return what decides in one run; an allocator on a market may be given None for the classes."""
        ...


AnyAllocator: TypeAlias = Allocator | Prepared


def begin(allocator: AnyAllocator, fleet: Fleet | None) -> Allocator:
    """Return what decides in one run of an allocator; only one on a market can do without classes."""
    if not isinstance(allocator, Prepared):
        return allocator
    if fleet is None and not needs_market(allocator):
        raise InputError("this allocator must be given the classes of a fleet, got jobs without any")
    return allocator.begin(fleet)  # type: ignore[arg-type]


def needs_sizes(allocator: AnyAllocator) -> bool:
    """Whether an allocator declares that it must know how much work each job has left."""
    return bool(getattr(allocator, "needs_sizes", False))


def needs_market(allocator: AnyAllocator) -> bool:
    """Whether an allocator declares that it must be shown a market: it rents spot, or watches dollars."""
    return bool(getattr(allocator, "needs_market", False))


def keeps_deadlines(allocator: AnyAllocator) -> bool:
    """Whether an allocator declares that it meets each hard deadline that on demand from the start meets."""
    return bool(getattr(allocator, "keeps_deadlines", False))
