"""What jobs made of rented machines: how much of them they held, and how soon they got going."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slacktide.results.machines.machine_bill import MachineBill, MachineGroup, Spread, spread_of


@dataclass(frozen=True, slots=True)
class MachineUse:
    """What jobs held of what was rented, by pool and kind, and the times to first progress, by pool."""

    used_gpu_hours: Mapping[tuple[str, str], float] = field(default_factory=dict)
    first_progress_hours: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """From the order of a set of workers to their first report, in hours of the wall clock."""

    def first_progress(self, pool: str = "") -> Spread:
        """Return how long workers took in a pool, or in all, from their order to their first report."""
        found = self.first_progress_hours
        pools = (pool,) if pool else tuple(found)
        return spread_of(hours for name in pools for hours in found.get(name, ()))


@dataclass(frozen=True, slots=True)
class MachineCosts:
    """The bill of machines, and what jobs used of them."""

    bill: MachineBill
    use: MachineUse

    def used_gpu_hours(self, group: MachineGroup) -> float:
        """Return how many GPU-hours of a group jobs held."""
        used = self.use.used_gpu_hours
        return used.get((group.pool, group.capacity), 0.0) if group.pool else sum(used.values())

    def idle_gpu_hours(self, group: MachineGroup) -> float:
        """Return how many GPU-hours of a group were paid for and held by no job, booting included."""
        return group.gpu_hours - self.used_gpu_hours(group)

    def used_share(self, group: MachineGroup) -> float | None:
        """Return the share of a group that jobs held; None where nothing was paid for."""
        return self.used_gpu_hours(group) / group.gpu_hours if group.gpu_hours > 0.0 else None
