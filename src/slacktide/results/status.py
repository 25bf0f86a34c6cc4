"""The present state of jobs, rented machines and a local cluster, for lists and the live view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slacktide.core.quotes import Quote
from slacktide.core.types import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """One job of a journal, as of its last event."""

    name: str
    policy: str
    status: str
    health: str
    hours: float  # how long it has been under way, or was
    spot_gpus: int
    on_demand_gpus: int
    progress_gpu_hours: float
    cost_usd: float
    preemptions: int
    submitted_utc: str
    work_gpu_hours: float
    deadline_hours: float | None  # none for a job without a deadline
    progress_estimated: bool = False
    """Whether progress is estimated from time and width, because the job reports none."""
    blocked: str | None = None  # what keeps it from continuing; None when nothing does
    pool: str | None = None  # where a job that may move is, or is to be; None for one that stays in its pool
    moves: int = 0  # how often it moved
    owner: str = ""  # the owner that its file names; empty: none
    job_class: str = ""  # its class in a fleet; empty: none


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a job stands at a moment, as the live view shows it."""

    name: str
    job: Job
    policy: str
    pool: str
    status: str
    health: str
    hours: float  # since the job began, on the market's clock
    quotes: Sequence[Quote]  # what the market offered in the last slots, the present one last
    spot_gpus: int = 0
    on_demand_gpus: int = 0
    progress_gpu_hours: float = 0.0
    estimated: bool = False  # whether progress is estimated from time and width, because the job reports none
    spot_usd: float = 0.0
    on_demand_usd: float = 0.0
    on_demand_alone_usd: float | None = None  # what the whole work would cost all on demand
    metrics: Mapping[str, float] = field(default_factory=dict)
    projected_hours: float | None = None
    """When the job will be done at its pace so far; None while that is not known."""
    projected_usd: float | None = None  # what it will have cost by then
    may_move: bool = False  # whether it may move to another pool
    move_usd: float = 0.0  # what moves have cost, in addition to its GPUs

    @property
    def share(self) -> float:
        """The share of the work done."""
        return self.progress_gpu_hours / self.job.work_gpu_hours

    @property
    def line_share(self) -> float:
        """The share of the work that the straight line to the deadline requires by now."""
        return self.job.line_gpu_hours(self.hours) / self.job.work_gpu_hours

    @property
    def cost_usd(self) -> float:
        return self.spot_usd + self.on_demand_usd + self.move_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStatus:
    """One ticket or one machine, as its provider and the journal report it."""

    owner: str  # the id of the journal that it was rented for
    ticket: str
    machine: str | None  # what its provider calls it; None while none is listed for its ticket
    capacity: str
    pool: str
    gpus: int
    state: str  # `starting`, `up`, `ending`, or `asked` for a ticket without a machine
    orphan: bool  # whether no open ticket explains it
    joined: bool | None  # whether it is ready for use; None where no journal says
    address: str | None
    since_utc: str | None  # since when it is paid for; of a ticket without a machine, when it was opened
    hours: float
    usd_per_hour: float
    cost_usd: float  # what it has cost so far, at that price
    why: str | None = None  # why it ended, as its provider says


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """A node of a local cluster."""

    name: str
    id: str  # as Ray calls it
    capacity: str  # `spot` or `on-demand`
    gpus: int
    alive: bool
    workers: int  # how many workers of jobs run on it


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """A local cluster."""

    up: bool  # whether it can be used; if not, `slacktide cluster down` clears what is left of it
    address: str
    token_path: str  # the file with the token that lets clients in
    nodes: tuple[NodeStatus, ...]
