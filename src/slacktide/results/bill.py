"""Bills of a live job and of a whole journal, and bills split by owner, class, month or job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from slacktide.physics.ledger import Audit, StretchSums
from slacktide.results.machine_bill import MachineCosts


@dataclass(frozen=True, slots=True)
class Bill:
    """What a live job cost and what it met, and what on demand alone and the clairvoyant would have cost."""

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
    clairvoyant_usd: float | None  # what the clairvoyant would have paid; None when that is not known
    progress_estimated: bool = False
    """Whether work done and lost are estimates, from time and width: the job reported no progress."""
    clairvoyant_spare_usd: float | None = None
    """How much less the best plan could have cost at the most; None where the plan is the best."""
    measured_work_gpu_hours: float | None = None
    """All its work by its measured pace; None where nothing was measured."""
    market_gone: bool = False
    """Whether the market cannot be read any more, so that there is nothing to compare the bill with."""
    pools: tuple[str, ...] = ()
    """The pools that a job that may move was in, in order; empty for a job that stays in its pool."""
    moves: int = 0  # how often it moved
    move_usd: float = 0.0  # what it cost to take its checkpoint along; part of `cost_usd`


class JobCost(NamedTuple):
    """The bill of a job with its audit."""

    bill: Bill
    audit: Audit
    notes: tuple[str, ...] = ()  # what users should know where its market has changed or cannot be read


@dataclass(frozen=True, slots=True)
class BillPart:
    """What one owner, class, month or job cost."""

    names: tuple[str, ...]
    """Which part it is, in the order of the keys that the bill is split by; an empty name: none."""
    bill: StretchSums


@dataclass(frozen=True, slots=True)
class PayerBill:
    """What one payer paid."""

    payer: str  # the job's id; empty for the site itself, which pays for machines that no job holds
    status: str  # the job's; empty for the site
    bill: StretchSums


@dataclass(frozen=True, slots=True)
class SiteBill:
    """What all payers of a journal paid, with the audit that prices it a second time."""

    payers: tuple[PayerBill, ...]
    """The jobs in the order of their submission; the site last, if it paid for anything."""
    total: StretchSums
    audit: Audit


class SiteCost(NamedTuple):
    """The bill of a whole journal with its audit."""

    bill: SiteBill
    notes: tuple[str, ...] = ()  # what users should know where its markets have changed since
    machines: MachineCosts | None = None  # the bill of machines that were rented; None where none ever were
