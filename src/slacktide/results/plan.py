"""The result of a plan: what a job will probably cost, when it will be done, and on what that is based."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from slacktide.core.types import Allocation, Job


@dataclass(frozen=True, slots=True)
class WidthMeasured:
    """How fast a run was on one width."""

    gpus: int
    hours: float  # productive hours that were measured on it
    speed_ratio: float  # how many times as fast as its file said


@dataclass(frozen=True, slots=True)
class LastRun:
    """What one run measured: the work of its job, on one reference GPU, and its speed by width."""

    job: str  # its name in the journal
    ended_utc: datetime
    work_gpu_hours: float
    work_spread_share: float  # how far that may be off: a standard deviation, as a share
    file_work_gpu_hours: float  # what its file said
    widths: tuple[WidthMeasured, ...]


@dataclass(frozen=True, slots=True)
class LastRuns:
    """The earlier runs under a job's name that succeeded and were measured."""

    runs: int
    mean_work_gpu_hours: float
    last: LastRun


@dataclass(frozen=True, slots=True)
class Range:
    """A quantity that is not known yet: its tenth, fiftieth and ninetieth percentile."""

    p10: float
    p50: float
    p90: float


@dataclass(frozen=True, slots=True)
class Outcomes:
    """A summary of the runs of one policy, over futures or past starts."""

    runs: int
    cost_usd: Range
    finish_hours: Range
    on_time_share: float
    mean_cost_usd: float
    mean_spot_gpu_hours: float
    mean_on_demand_gpu_hours: float
    mean_preemptions: float
    mean_cost_error_usd: float = 0.0
    """Standard error of the mean cost, as if the runs were independent of each other."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What one policy would probably do for a job."""

    policy: str
    futures: Outcomes  # starting now, over simulated futures of the market
    history: Outcomes | None = None
    """From recent starts of the real market; None for a job that may move, which is not run from those."""
    pool: str = ""
    """The pool that a policy stays in, where the job may move; empty: it moves, or there is one pool."""
    mean_moves: float = 0.0
    mean_move_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class PoolBill:
    """What a job would have paid if it stayed in a pool; a run chooses its pool by this."""

    pool: str
    history_p50_cost_usd: float
    """The median over recent starts, under uniform-progress; where there is one pool, under the policy."""


@dataclass(frozen=True, slots=True)
class PoolAhead:
    """One of the pools among which a job may move: its offer, and how the job would use it."""

    pool: str
    spot_gpus: int  # what it offers now
    spot_usd: float  # what spot costs there now, per GPU-hour
    stay_usd: float | None
    """What staying there would cost on average under uniform-progress; None: it would not be in time."""
    held_share: float  # the share of its time with GPUs that the job would spend there, if it moves


@dataclass(frozen=True, slots=True)
class MovingSaving:
    """What moving may save compared with staying in one pool, over the same futures."""

    mean_usd: float  # negative: it would cost that much more
    error_usd: float  # standard error of that mean
    policy: str  # the best policy that stays
    pool: str
    moving_share: float  # futures in which the job would move at least once


@dataclass(frozen=True, slots=True)
class Moving:
    """The part of a plan that only a job that may move among pools has."""

    pools: tuple[PoolAhead, ...]
    saving: MovingSaving | None  # none where no policy that moves, or none that stays, was tried
    held: tuple[tuple[str, tuple[float, ...]], ...]
    """For each pool, the share of futures in which GPUs are held there, by slot until the deadline."""
    slot_hours: float


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What the job would cost with another deadline or widest width, over the same futures as it is."""

    at: float  # the deadline in hours, or the widest width in GPUs
    mean_cost_usd: float
    p10_cost_usd: float
    p90_cost_usd: float
    more_usd: float
    """By how much its mean is higher than that of the job as it is; negative: it would save that much."""
    more_error_usd: float  # standard error of that difference


@dataclass(frozen=True, slots=True)
class HeldAt:
    """The GPUs that will probably be held at a time."""

    hours: float
    spot_gpus: float
    on_demand_gpus: float


@dataclass(frozen=True, slots=True)
class CheckpointAdvice:
    """How often a job should write a checkpoint, and what that is based on."""

    every_hours: float
    spot_gpus: int  # the width at which losses were counted: what the plan usually holds
    hours_between_losses: float  # how long that many spot GPUs last in the market's past, on average
    takes_hours: float  # how long it takes to write a checkpoint
    takes_assumed: bool  # whether that is our assumption, because the job file does not say it


@dataclass(frozen=True, slots=True)
class WrongWork:
    """How a plan turns out over simulated futures if the work differs from what the file says."""

    spread: float  # how far it may be off: a standard deviation, as a share
    cost_usd: Range
    on_time_share: float
    hopeless_share: float  # futures with more work than even on demand from the start can do in time


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What will probably happen to a job, in one pool or moving among several, and what that is based on."""

    job: Job
    market: str
    pool: str  # the pool that was planned for; of a job that may move, where it would begin, or wait
    policy: str  # the policy that would run
    outlooks: tuple[Outlook, ...]  # every policy that was tried, the chosen one first, the clairvoyant last
    pools: tuple[PoolBill, ...]  # every pool that was tried, the chosen one first; () for a job that may move
    first: Allocation  # what the policy would try to hold first, and why
    first_gpus: tuple[int, int]  # the spot and on-demand GPUs that it would hold then, in `pool`
    gpus: tuple[HeldAt, ...]
    assumptions: tuple[str, ...]
    moving: Moving | None = None  # none for a job that stays in one pool
    clairvoyant_spare_usd: float | None = None
    """As in a comparison: by how much the clairvoyant's plans could be better, on average over futures."""
    checkpoints: CheckpointAdvice | None = None
    """None where no spot would be held, where none was ever taken, or where the job may move."""
    begin_slot: int = 0
    """The slot of its pool in which the job would begin; of a job that may move, of its first pool."""
    begin_utc: datetime | None = None
    by_deadline: tuple[CurvePoint, ...] = ()
    by_width: tuple[CurvePoint, ...] = ()
    last_runs: LastRuns | None = None
    """What earlier runs of the same name measured; None where there was none, or no journal was read."""
    wrong_work: WrongWork | None = None  # none where the file says that its work is exact
