"""What an allocator is shown of all jobs of a run at once, and what it answers with.

The simulator or the engine passes it a `FleetView`. `allocators.each` makes an allocator of policies for one
job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from slacktide.allocators.site.job_tables import JobTables, Kinds
from slacktide.allocators.site.spot import Spot
from slacktide.budget.fleet import Fleet
from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InputError
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.core.types import Allocation, Reason, Refusal
from slacktide.market.tape import PoolView
from slacktide.policies.view import Known, View


class JobColumns(NamedTuple):
    """The jobs that are present: each array has one entry for each, in the order of their submission.

    The arrays are read-only and valid only until the decision is made: an allocator that keeps them must copy
    them.
    """

    ids: Ints
    """The run's own number of each job, ascending; facts name jobs by it."""
    kind: Ints
    """The number of each job's class in the fleet; without a fleet, each job has a number of its own."""
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


class RowReader(Protocol):
    """Where a fleet view finds one job's view, for allocators that read rows."""

    def name(self, place: int) -> str:
        """Return the name of the job at a place of the columns."""
        ...

    def view(self, place: int, spot: Spot) -> View:
        """Return its view; what other jobs hold according to `spot` is not offered to it."""
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

    Arrays are read-only and valid only until the decision is made.
    """

    slot: int
    """Slots of the market since the run began."""
    slot_hours: float
    next_hours: float
    """When the market changes next, on the clock of the run: the next decision at a border is then."""
    pools: tuple[PoolView, ...]
    """What each pool offers to all jobs together, what they hold included."""
    kinds: Kinds
    jobs: JobTables
    """One row for each job, in the order of `FleetView.jobs`; `kind` is a row of `kinds`."""
    money: Money
    known: Known
    """Has the past of each pool."""
    on_demand_gpus: int = UNLIMITED_GPUS
    """How many on-demand GPUs all jobs together may hold at a time, in all pools."""


class FleetView(NamedTuple):
    """All jobs that an allocator decides about, at one moment.

    Allocators that compute with arrays read `jobs`, the columns; those that decide job by job read `row`.
    """

    now_hours: float
    """Hours since the run began."""
    fleet: Fleet | None
    """The classes that the jobs are of; None where each is of its own kind."""
    jobs: JobColumns
    due: Sequence[int]
    """Places of the jobs that a policy for one job decides about now: all of them at a slot's border, inside
    a slot those that something happened to."""
    ready_gpus: int
    """GPUs of the nodes that can be used now."""
    rented_gpus: int
    """GPUs that are paid for: those of the nodes on their way included."""
    spent_gpu_hours: float
    """GPU-hours that were paid for since the run began."""
    spot: Spot
    """Who holds spot, of all jobs of the site; copy it before changing it."""
    shown: RowReader
    site: SiteView | None = None
    """The market and the money that the jobs share; None where all is on demand, at one price."""

    def row(self, place: int, spot: Spot | None = None) -> View:
        """Return the view of the job at a place; `spot` says what others hold, None as they do now."""
        return self.shown.view(place, self.spot if spot is None else spot)

    def rows(self) -> Iterator[View]:
        """Yield the view of each job; each is made only when it is reached."""
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
    """None: no spot for any job."""
    rule: str = ""
    """Why, the same for all jobs; empty: the allocator's name is reported."""
    pool: Ints | None = None
    """Which of the site's pools each is to be in; None: where it is."""
    why: Callable[[int], Reason] | None = None
    """Says for the job at a place why it has what it has; called only where reasons are reported."""


Decision: TypeAlias = Mapping[str, Allocation] | Wanted
"""Either form; a mapping is by job name. A job that it does not name keeps what it holds."""


@runtime_checkable
class Allocator(Protocol):
    """Decides what all jobs of a run hold, whenever something happened that it may want to answer.

    That is: a slot's border, an arrival, the end of a phase or job, a loss, a node that is ready, and the
    time at which it wants to be woken.
    """

    def decide(self, view: FleetView) -> Decision:
        """Return what jobs hold from now on: a mapping by name of those that change, or columns of all."""
        ...


@runtime_checkable
class Sizing(Allocator, Protocol):
    """An allocator that also says how many GPUs to keep rented, whether jobs use them or not."""

    def rent_gpus(self, view: FleetView) -> int:
        """Return the size of the cluster; called before each decision."""
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
    """An allocator that learns from what happened; the same facts and views bring it to the same state."""

    @property
    def wake_hours(self) -> float:
        """When it wants a report of all progress and to decide again, at the latest."""
        ...

    def learn(self, fact: Fact) -> None:
        """Take in what happened; called before the next decision."""
        ...


class OldMemory(InputError):
    """Raised for a memory that another version wrote: the allocator must be given all facts again."""


@runtime_checkable
class Remembering(Allocator, Protocol):
    """An allocator that can save all that it knows; one that learns must be able to.

    A new allocator with the same parameters and fleet that recalls it makes exactly the same decisions.
    """

    def remember(self) -> Mapping[str, Any]:
        """Return all that it knows as JSON values, sharing nothing with it."""
        ...

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Replace all that it knows by a memory; raises OldMemory for a form that it can no longer read."""
        ...


@runtime_checkable
class Admitting(Allocator, Protocol):
    """An allocator that makes promises: it decides whether a job is taken in."""

    def admit(self, view: FleetView) -> Refusal | None:
        """Return None, or why the last job of the view, which is not taken in yet, cannot be promised."""
        ...


BUDGET_SHORT = "budget-short"
"""The rule of decisions about a job whose promised rescue the budget no longer covers."""


class Standing(NamedTuple):
    """The reserve and the prices by which an allocator made its last decision."""

    reserved_usd: float = 0.0
    """Money kept to rescue admitted deadlines if all spot disappears."""
    usd_per_job_hour: float = np.nan
    """The price of an hour that a job waits."""
    scarcity_usd_per_gpu_hour: tuple[float, ...] = ()
    """What spot is worth above its price, in each pool."""


@runtime_checkable
class Pricing(Allocator, Protocol):
    """An allocator that can report the prices by which it decides."""

    @property
    def standing(self) -> Standing:
        """Those of its last decision."""
        ...


@runtime_checkable
class PreparedAllocator(Protocol):
    """An allocator that must compute something for a fleet, or set up a memory, before each run."""

    def begin(self, fleet: Fleet) -> Allocator:
        """Return what decides in one run; an allocator on a market may be given None for the classes."""
        ...


AnyAllocator: TypeAlias = Allocator | PreparedAllocator


def begin(allocator: AnyAllocator, fleet: Fleet | None) -> Allocator:
    """Return what decides in one run of an allocator; only one on a market can do without classes."""
    if not isinstance(allocator, PreparedAllocator):
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
