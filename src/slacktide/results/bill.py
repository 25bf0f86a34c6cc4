"""The bill of a job that was carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from slacktide.physics.ledger import Audit


@dataclass(frozen=True, slots=True)
class Bill:
    """What a job cost, to the cent, and what it might have."""

    job: str
    status: str
    cost_usd: float
    spot_usd: float
    on_demand_usd: float
    spot_gpu_hours: float
    on_demand_gpu_hours: float
    work_gpu_hours: float
    done_gpu_hours: float
    finish_hours: float  # infinite when the work was not done
    deadline_hours: float
    on_time: bool
    preemptions: int
    restarts: int
    failures: int
    lost_gpu_hours: float
    """Work that had to be done again: as the job's own reports measured it, else as physics expects it."""
    on_demand_alone_usd: float | None
    """What the same work would have cost all on demand; None when the market does not reach that far."""
    clairvoyant_usd: float | None  # what one who knew the market would have paid
    progress_estimated: bool = False
    """Whether work done and lost are estimates, from time and width: the job reported no progress."""
    clairvoyant_spare_usd: float | None = None
    """How much less the best plan could have cost at the most; None where the plan is the best."""
    measured_work_gpu_hours: float | None = None
    """All its work as its pace was measured to be; None where nothing was measured."""
    market_gone: bool = False
    """Whether the market cannot be read any more, so that what others would have paid is not known."""
    pools: tuple[str, ...] = ()
    """The pools in which it was, one after the other, for a job that may move; empty for one that stays."""
    moves: int = 0  # how often it moved
    move_usd: float = 0.0  # what it cost to take its checkpoint along; part of `cost_usd`


class JobCost(NamedTuple):
    """The bill of a job with its audit."""

    bill: Bill
    audit: Audit
    notes: tuple[str, ...] = ()  # what users should know of its market, where that is not as it was
