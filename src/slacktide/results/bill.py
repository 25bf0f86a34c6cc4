"""Bills: of a job that was carried out, of a whole journal, and in parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from slacktide.physics.ledger import Audit, StretchSums
from slacktide.results.machine_bill import MachineCosts


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


@dataclass(frozen=True, slots=True)
class BillPart:
    """What one owner, class, month or job cost."""

    names: tuple[str, ...]
    """Which part it is, in the order of the keys that the bill is divided by; empty: of no job."""
    bill: StretchSums


@dataclass(frozen=True, slots=True)
class PayerBill:
    """What one payer paid."""

    payer: str  # the job's id; empty for the site itself, which pays for machines that no job holds
    status: str  # the job's; empty for the site
    bill: StretchSums


@dataclass(frozen=True, slots=True)
class SiteBill:
    """What all payers of a journal paid, priced a second time."""

    payers: tuple[PayerBill, ...]
    """The jobs in the order they came; the site last, where it paid for anything."""
    total: StretchSums
    audit: Audit


class SiteCost(NamedTuple):
    """The bill of a whole journal with its audit."""

    bill: SiteBill
    notes: tuple[str, ...] = ()  # what users should know of its markets, where they are not as they were
    machines: MachineCosts | None = None  # the bill of machines that were rented; None where none ever were
