"""What a job will probably cost and when it will be done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from slacktide.core.types import Allocation, Job
from slacktide.results.last_runs import LastRuns


@dataclass(frozen=True, slots=True)
class Range:
    """A quantity that is not known yet: its tenth, fiftieth and ninetieth percentile."""

    p10: float
    p50: float
    p90: float


@dataclass(frozen=True, slots=True)
class Spread:
    """How a set of runs came out."""

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
    futures: Spread
    """Starting now, over futures drawn from the model of the market."""
    history: Spread
    """From recent starts of the real market."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What the job would cost with another deadline or widest width, over the same futures as it is."""

    at: float
    """The deadline in hours, or the widest width in GPUs."""
    mean_cost_usd: float
    p10_cost_usd: float
    p90_cost_usd: float
    more_usd: float
    """By how much its mean is higher than that of the job as it is; negative: it would save that much."""
    more_error_usd: float
    """Standard error of that difference."""


@dataclass(frozen=True, slots=True)
class HeldAt:
    """The GPUs that will probably be held at a time."""

    hours: float
    spot_gpus: float
    on_demand_gpus: float


@dataclass(frozen=True, slots=True)
class CheckpointAdvice:
    """How often a job should save itself, and what that rests on."""

    every_hours: float
    spot_gpus: int
    """The width at which losses were counted: what the plan usually holds."""
    hours_between_losses: float
    """How long that many spot GPUs last in the market's past, on average."""
    takes_hours: float
    """What a checkpoint costs."""
    takes_assumed: bool
    """Whether nobody has said what it costs."""


@dataclass(frozen=True, slots=True)
class WrongWork:
    """How a plan turns out over simulated futures if the work is another than the file says."""

    spread: float
    """How far it may be off: a standard deviation, as a share."""
    cost_usd: Range
    on_time_share: float
    hopeless_share: float
    """Futures in which the work is so much more that even on demand from the start would be late."""


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What will probably happen to a job before anyone pays, and what that rests on."""

    job: Job
    market: str
    pool: str
    policy: str
    """The policy that would run."""
    outlooks: tuple[Outlook, ...]
    """Every policy that was tried, the chosen one first, the clairvoyant last."""
    pools: tuple[tuple[str, float], ...]
    """Every pool that was tried, with the median bill of recent starts under uniform-progress, the chosen one
    first; where there is one alone, with the chosen policy's."""
    first: Allocation
    """What would be held if the job began now, and why."""
    gpus: tuple[HeldAt, ...]
    assumptions: tuple[str, ...]
    clairvoyant_spare_usd: float | None = None
    """As in a comparison: by how much the clairvoyant's plans could be better, on average over futures."""
    checkpoints: CheckpointAdvice | None = None
    """None where no spot would be held, or where none was ever taken."""
    begin_slot: int = 0
    """The slot of its pool in which the job would begin."""
    begin_utc: datetime | None = None
    by_deadline: tuple[CurvePoint, ...] = ()
    by_width: tuple[CurvePoint, ...] = ()
    last_runs: LastRuns | None = None
    """What earlier runs of the same name measured; None where there was none, or nobody looked."""
    wrong_work: WrongWork | None = None
    """None where the file says that its work is right."""
