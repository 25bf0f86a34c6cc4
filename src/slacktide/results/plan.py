"""What a job will probably cost and when it will be done."""

from __future__ import annotations

from dataclasses import dataclass

from slacktide.types import Allocation, Job


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


@dataclass(frozen=True, slots=True)
class Outlook:
    """What one policy would probably do for a job."""

    policy: str
    futures: Spread
    """Starting now, over futures drawn from the model of the market."""
    history: Spread
    """From recent starts of the real market."""


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
    """Every pool that was tried, with the chosen policy's median bill from recent starts, cheapest first."""
    first: Allocation
    """What would be held if the job began now, and why."""
    gpus: tuple[HeldAt, ...]
    assumptions: tuple[str, ...]
    clairvoyant_spare_usd: float | None = None
    """As in a comparison: by how much the clairvoyant's plans could be better, on average over futures."""
    checkpoints: CheckpointAdvice | None = None
    """None where no spot would be held, or where none was ever taken."""
