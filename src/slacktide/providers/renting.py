"""What a back end needs to rent machines by itself: from whom, by which rules, and which kinds there are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from slacktide.core.errors import shown
from slacktide.journal.events import Capacity
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import Provider, Rules


class Need(NamedTuple):
    """GPUs that a job is to have."""

    kind: Capacity
    pool: str
    gpus: int


class Renting(NamedTuple):
    """A provider, the rules for it, and the kinds of machines that may be rented."""

    provider: Provider
    rules: Rules
    specs: tuple[MachineKind, ...]

    def pool(self, name: str) -> str:
        """Return the pool that a job's pool means: the one of that name, or the only one that there is."""
        pools = list(dict.fromkeys(spec.pool for spec in self.specs))
        return pools[0] if len(pools) == 1 else name

    def wanted(self, gpus: Iterable[Need]) -> Mapping[MachineKind, int]:
        """Return how many machines are needed, on demand first; what none can give is left out."""
        sums: dict[tuple[Capacity, str], int] = {}
        for need in gpus:
            sums[need[:2]] = sums.get(need[:2], 0) + need.gpus
        want: dict[MachineKind, int] = {}
        for (kind, pool), count in sorted(sums.items()):
            spec = self._spec(kind, pool)
            if spec is not None and count > 0:
                want[spec] = math.ceil(count / spec.gpus)
        return want

    def most(self, kind: Capacity, pool: str) -> float:
        """Return how many GPUs of a kind could be rented in a pool at the most."""
        spec = self._spec(kind, pool)
        if spec is None:
            return 0.0
        price = self.rules.price(spec)
        machines = self.rules.max_machines
        if price > 0.0 and math.isfinite(self.rules.max_usd_per_hour):
            machines = min(machines, math.floor(self.rules.max_usd_per_hour / price + 1e-9))
        return machines * spec.gpus

    def lacking(self, gpus: Iterable[Need]) -> str:
        """Say what no machine of the file can give; empty where all can be given."""
        for need in gpus:
            if need.gpus and self._spec(need.kind, need.pool) is None:
                offers = ", ".join(f"{spec.kind} in {shown(spec.pool)}" for spec in self.specs)
                return (
                    f"the machines file must offer {need.kind} machines in pool {shown(need.pool)}, got only "
                    f"{offers}; add it there, or choose another pool of the market"
                )
        return ""

    def _spec(self, kind: Capacity, pool: str) -> MachineKind | None:
        return next((spec for spec in self.specs if (spec.kind, spec.pool) == (kind, pool)), None)
