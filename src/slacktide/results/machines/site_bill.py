"""What a whole journal cost: every job's part, the site's own, and all of it together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from slacktide.physics.ledger import Audit, StretchSums
from slacktide.results.machines.machine_use import MachineCosts


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
