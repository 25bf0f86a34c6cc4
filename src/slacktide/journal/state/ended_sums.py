"""Sums over the jobs of a journal that have ended, so that no reader need go through them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from slacktide.journal.state.job_record import JobRecord


class JobSpending(NamedTuple):
    """What jobs of one pool cost, and held."""

    spot_usd: float = 0.0
    on_demand_usd: float = 0.0
    spot_gpu_hours: float = 0.0
    on_demand_gpu_hours: float = 0.0

    def plus(self, other: JobSpending) -> JobSpending:
        """Return both together."""
        return JobSpending(*(one + more for one, more in zip(self, other, strict=True)))


@dataclass(slots=True)
class EndedSums:
    """How many jobs ended how, and what they cost."""

    states: dict[str, int] = field(default_factory=dict)  # how many ended in each state
    pools: dict[str, JobSpending] = field(default_factory=dict)
    """What they spent, by the pool in which they were submitted."""

    def add(self, record: JobRecord) -> None:
        """Count a job that has just ended."""
        self.states[record.status] = self.states.get(record.status, 0) + 1
        pool = record.submitted.pool
        self.pools[pool] = self.pools.get(pool, JobSpending()).plus(spent_by(record))


def spent_by(record: JobRecord) -> JobSpending:
    """Return what one job has spent so far."""
    bill = record.money.bill
    return JobSpending(bill.spot_usd, bill.on_demand_usd, bill.spot_gpu_hours, bill.on_demand_gpu_hours)
