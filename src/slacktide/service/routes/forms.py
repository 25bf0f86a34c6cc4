"""The types of the API's answers, from which openapi.json is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from slacktide.app.alerts.outbox import HookStatus
from slacktide.app.journal.fleets import FleetPoint, FleetStatus
from slacktide.app.markets.market_now import PoolForecast
from slacktide.app.tokens import Role
from slacktide.results.bill import Bill
from slacktide.results.course import CoursePoint
from slacktide.results.status import JobStatus, MachineStatus


class ErrorBody(TypedDict):
    """What went wrong: its kind, a message, and the exit code of the command line for it."""

    kind: str
    message: str
    exit_code: int


class ErrorAnswer(TypedDict):
    """An error."""

    error: ErrorBody


class JobList(TypedDict):
    """Jobs in the order of their submission."""

    jobs: list[JobStatus]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswer(JobStatus):
    """One job: its row in the list, and more."""

    key: str  # of the request that submitted it; empty if the process of the controller did
    text: str  # the job file, without values of secrets
    home_pool: str
    pools: list[str]  # the pools among which it may move; empty if it stays in one
    class_: str  # under the key `class`
    attempt: int
    failures: int
    restarts: int
    lost_gpu_hours: float
    spot_usd: float
    on_demand_usd: float
    began_hours: float  # on the market's clock
    deadline_kind: str | None  # `hard`, `soft` or `none`; null if its file can no longer be read
    after_deadline: str | None
    work_known: bool | None


class Accepted(TypedDict):
    """The key of a request to run a job, and the job's id once it is accepted."""

    key: str
    job: str | None


class Cancelled(TypedDict):
    """Whether a submission was withdrawn; if not, the job was requested to end."""

    job: str
    withdrawn: bool


class Preempted(TypedDict):
    """What was requested."""

    job: str
    gpus: int | None


class LogRow(TypedDict):
    """A line that a worker printed, or a piece of a long one."""

    attempt: int
    rank: int
    line: str
    continued: NotRequired[bool]


class Logs(TypedDict):
    """Lines, the place to continue from, and whether there will be no more."""

    lines: list[LogRow]
    next: str
    over: bool


class EventPage(TypedDict):
    """Events, and the number to continue from; null if these are the last so far."""

    events: list[Mapping[str, Any]]
    next: int | None


class Why(TypedDict):
    """Why a job holds what it holds, in plain sentences."""

    job: str
    why: list[str]


class CourseAnswer(TypedDict):
    """The course of a job so far, in few enough points to be drawn."""

    job: str
    hours: float  # how long it has been running, or ran
    projected_hours: float | None
    """When it would be done at its pace so far; null while too little is done, and after its end."""
    points: list[CoursePoint]
    happenings: list[Mapping[str, Any]]
    """Its last events, as documented, without payments; of equal decisions in a row only the newest. A
    decision also has `because`: the rule behind it, in words."""


class AuditAnswer(TypedDict):
    """The audit of a bill, in which every stretch is priced again."""

    clean: bool
    cost_usd: float
    gaps: list[str]
    wrong: list[str]
    oversold: NotRequired[list[str]]


@dataclass(frozen=True, slots=True)
class CostAnswer(Bill):
    """The bill of a job and its audit; if `text` was requested, also as the command line prints it."""

    saved_share: float | None = None
    cost_over_clairvoyant: float | None = None
    audit: AuditAnswer | None = None
    notes: tuple[str, ...] = ()
    text: str | None = None


class Amounts(TypedDict):
    """What a payer paid."""

    cost_usd: float
    spot_usd: float
    on_demand_usd: float
    spot_gpu_hours: float
    on_demand_gpu_hours: float
    pause_gpu_hours: float
    idle_gpu_hours: float


class JobAmounts(Amounts):
    """What a job paid."""

    job: str
    status: str


class SiteCostAnswer(TypedDict):
    """What every job and the site itself paid, with the audit of all stretches together."""

    jobs: list[JobAmounts]
    site: Amounts | None
    total: Amounts
    audit: AuditAnswer
    machines: Mapping[str, Any] | None
    notes: NotRequired[tuple[str, ...]]
    text: NotRequired[str | None]


class HoldingNow(TypedDict):
    """What a job holds in a pool."""

    job: str
    pool: str
    spot_gpus: int
    on_demand_gpus: int


class MachineList(TypedDict):
    """Machines that are rented, and what jobs hold of them."""

    machines: list[MachineStatus]
    holdings: list[HoldingNow]


class HookList(TypedDict):
    """The state of the hooks for alerts."""

    hooks: list[HookStatus]


class PoolNow(TypedDict):
    """What a pool offers, slot by slot up to now, and what last happened to jobs in it."""

    name: str
    gpu: str
    slot_hours: float
    since_utc: str | None
    spot_usd_per_gpu_hour: list[float]
    on_demand_usd_per_gpu_hour: list[float]
    spot_gpus: list[int]
    on_demand_gpus: list[int] | None
    until_utc: str | None  # up to when a feed has prices; null for a recorded market
    taken_hours_ago: float | None
    """When the market last took spot from a job in this pool; null: never on this clock."""
    taken_gpus: int
    refused_hours_ago: float | None
    """When a job last wanted more spot than there was; null: never on this clock."""
    refused_gpus: int  # how many it wanted


class Markets(TypedDict):
    """The pools of the market that all jobs share."""

    pools: list[PoolNow]
    live: bool  # whether prices come from a feed; otherwise a recorded market is replayed
    feed_trouble: str  # what is wrong with the feed; empty when nothing is


class ForecastAnswer(TypedDict):
    """What a pool will probably offer; null before the first job, when no clock runs."""

    forecast: PoolForecast | None


class Fleets(TypedDict):
    """The fleets of the journal, with their money."""

    fleets: list[FleetStatus]
    file: str | None
    """The name of the server's fleet file; null without one. Its fleet is listed from its first job on."""


class FleetCourseAnswer(TypedDict):
    """The course of a fleet so far, in few enough points to be drawn."""

    fleet: str
    points: list[FleetPoint]


class Waiting(TypedDict):
    """A request that has not been answered yet."""

    key: str
    path: str


class JournalAnswer(TypedDict):
    """The journal itself."""

    id: str
    seq: int  # the number of its last event
    now_hours: float  # the market's clock
    speed: float | None  # how many times as fast as real time it runs; null before it was first set
    in_charge: bool
    backend: str
    unfinished: list[str]
    waiting: list[Waiting]


class Health(TypedDict):
    """Whether all is well: `ok`, or `trouble` with status 503."""

    status: str
    engine_stepped: bool
    lease_held: bool
    disk_writable: bool


class SessionAnswer(TypedDict):
    """The name of the token, and its role."""

    name: str | None
    role: Role | None


class Uploaded(TypedDict):
    """A working folder or a market that the server has kept."""

    sha256: str
