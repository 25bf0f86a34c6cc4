"""What a job that may move among pools will probably cost, where it would be, and what moving may save."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from slacktide.core.types import Allocation, Job
from slacktide.results.plan import Spread


@dataclass(frozen=True, slots=True)
class PoolsOutlook:
    """What one policy would probably do over drawn futures."""

    policy: str
    pool: str
    """The pool that it stays in; empty: it moves."""
    futures: Spread
    mean_moves: float = 0.0
    mean_move_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class PoolAhead:
    """One pool as a plan sees it."""

    pool: str
    spot_gpus: int
    """What it offers now."""
    spot_usd: float
    """What spot costs there now, per GPU-hour."""
    stay_usd: float | None
    """What staying there would cost on average under uniform-progress; None: it would not be in time."""
    held_share: float
    """The share of its time with GPUs that the job would spend there, if it moves."""


@dataclass(frozen=True, slots=True)
class Saving:
    """What moving may save against staying in one pool, over the same futures."""

    mean_usd: float
    """Negative: it would cost that much more."""
    error_usd: float
    """Standard error of that mean."""
    policy: str
    """The best that stays."""
    pool: str
    moving_share: float
    """Futures in which the job would move at least once."""


@dataclass(frozen=True, slots=True)
class PoolsPlan:
    """What will probably happen to a job that may move, before anyone pays, and what that rests on."""

    job: Job
    market: str
    policy: str
    """The policy that would run."""
    first: Allocation
    """What it would try to hold first, and why."""
    start_pool: str
    """Where it would begin; of a job that waits, where it would wait."""
    start_gpus: tuple[int, int]
    """The spot and on-demand GPUs that it would hold there."""
    outlooks: tuple[PoolsOutlook, ...]
    """The chosen policy first, those that stay in their best pool, the clairvoyant over pools last."""
    pools: tuple[PoolAhead, ...]
    saving: Saving | None
    """None where nothing that moves, or nothing that stays, was tried."""
    held: tuple[tuple[str, tuple[float, ...]], ...]
    """For each pool, the share of futures in which GPUs are held there, by slot until the deadline."""
    slot_hours: float
    assumptions: tuple[str, ...]
    begin_slot: int
    begin_utc: datetime
