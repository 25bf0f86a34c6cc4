"""What jobs used of rented machines, and how soon they reported: folds over a journal's records."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from slacktide.journal.events import ClockSet, Decided, Lived, PaceRevised, Record, Rented, Returned
from slacktide.physics.ledger import Stretch
from slacktide.results.machines.machine_use import MachineUse

KEPT_HOURS = 24.0
"""How long a ticket that was closed is remembered: a stretch is written at its end, and none lasts a day."""


@dataclass(slots=True)
class _Rent:
    """The machine of a ticket, on the market's clock."""

    pool: str
    capacity: str
    gpus: int
    from_hours: float
    to_hours: float = math.inf


@dataclass(slots=True)
class _Fold:
    speed: float = 1.0
    rents: dict[str, _Rent] = field(default_factory=dict)
    used: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    pools: dict[str, str] = field(default_factory=dict)  # the pool that each job was last to be in
    starts: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Of each job, how many starts of workers were measured, and their hours together."""
    first: dict[str, list[float]] = field(default_factory=dict)

    def apply(self, record: Record) -> None:
        match record.event:
            case ClockSet() as event:
                self._set_clock(event.speed)
            case Rented() as event:
                rent = _Rent(event.pool, event.capacity, event.gpus, event.at_hours)
                self.rents[event.ticket] = rent
            case Returned() as event if event.ticket in self.rents:
                self.rents[event.ticket].to_hours = event.at_hours
                self._forget(event.at_hours)
            case Decided() as event:
                self.pools[event.job] = event.pool
            case Lived() as event:
                self._lived(event.priced.stretch)
            case PaceRevised() as event:
                self._revised(event)

    def _set_clock(self, speed: float) -> None:
        self.speed = speed
        self.rents = {name: rent for name, rent in self.rents.items() if math.isinf(rent.to_hours)}
        for rent in self.rents.values():
            rent.from_hours = -math.inf

    def _forget(self, now_hours: float) -> None:
        old = [name for name, rent in self.rents.items() if rent.to_hours < now_hours - KEPT_HOURS]
        for name in old:
            del self.rents[name]

    def _lived(self, one: Stretch) -> None:
        for capacity, gpus in (("spot", one.spot_gpus), ("on-demand", one.on_demand_gpus)):
            held = min(gpus, self._there(one, capacity)) * one.held_hours / self.speed
            if held > 0.0:
                self.used.setdefault((one.pool, capacity), []).append(held)

    def _there(self, one: Stretch, capacity: str) -> int:
        """Return how many GPUs were rented of a kind during a stretch, in its pool."""
        return sum(
            rent.gpus
            for rent in self.rents.values()
            if (rent.pool, rent.capacity) == (one.pool, capacity)
            and rent.from_hours < one.to_hours
            and rent.to_hours > one.from_hours
        )

    def _revised(self, event: PaceRevised) -> None:
        """Take one start more out of the mean that the engine keeps of them."""
        count, hours = event.pace.restarts, event.pace.restarts * event.pace.restart_hours
        counted, before = self.starts.get(event.job, (0.0, 0.0))
        self.starts[event.job] = count, hours
        pool = self.pools.get(event.job, "")
        if count == counted + 1.0 and any(rent.pool == pool for rent in self.rents.values()):
            self.first.setdefault(pool, []).append((hours - before) / self.speed)


def machine_use(records: Iterable[Record]) -> MachineUse:
    """Add up what jobs held of rented machines, and when their workers first reported.

    Only what was held in a pool while machines of that kind were rented there counts, and never more than
    they had: jobs of the same journal that ran elsewhere used none of them. Hours are real ones, by the speed
    of the market's clock. Times to first progress are those that the engine measures as restarts, so there
    are none of fleets, nor of jobs whose file says that their work is certain.
    """
    fold = _Fold()
    for record in records:
        fold.apply(record)
    return MachineUse(
        {key: math.fsum(hours) for key, hours in fold.used.items()},
        {pool: tuple(hours) for pool, hours in fold.first.items()},
    )
