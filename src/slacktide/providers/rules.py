"""What a reconciler goes by, what it is given at each step, and what it returns."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from slacktide.journal.events import Capacity
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What may be rented, at which price, and how patiently; hours are of the clock that steps are given."""

    usd_per_hour: Mapping[tuple[Capacity, str], float] = field(default_factory=dict)
    """What a machine costs, by kind and pool; one without a price counts as the most expensive."""
    max_machines: float = math.inf
    max_usd_per_hour: float = math.inf
    join_within_hours: float = 0.25
    """A machine that was listed, and is not ready after so long, is given back."""
    listed_within_hours: float = 5.0 / 60.0
    """How late a provider's list may be: before that, nothing is concluded from what is not in it."""
    leaked_after_hours: float = 10.0 / 60.0
    """A machine that no open ticket explains is ended; if it still runs after so long, it has leaked."""
    first_wait_hours: float = 0.5 / 60.0
    longest_wait_hours: float = 10.0 / 60.0
    """Between two tries of what failed, or could not be had."""

    def price(self, spec: MachineKind) -> float:
        """Return what a machine costs in an hour; without a price of its own, the most that any costs."""
        return self.usd_per_hour.get((spec.kind, spec.pool), max(self.usd_per_hour.values(), default=0.0))


class Use(NamedTuple):
    """What is known of the machines in addition to what their provider lists, by their tickets."""

    ready: Collection[str] | None = None
    """Those that have joined; None: a machine is ready when its provider says that it is up."""
    unfit: Mapping[str, str] = {}
    """Those that are to be given back whatever is wanted, and why."""
    busy: Collection[str] = ()
    """Those that are in use and are not given back, however few are wanted."""
    first: Sequence[str] = ()
    """Those that go first when there are too many; of the others the newest go first."""


class Stock(NamedTuple):
    """What there is, as of a step."""

    machines: Mapping[str, Machine] = {}
    """Those that are alive, by their open tickets."""
    full: tuple[MachineKind, ...] = ()
    """Requested in this step, and not to be had: there is no capacity."""
    trouble: str = ""
    """What keeps it from renting or ending what it should, in a sentence; empty when nothing does."""
    listed: bool = True
    """Whether the provider answered; if not, nothing is known of what there is."""
    gone: frozenset[str] = frozenset()
    """Tickets whose machine has ended, by the provider's own word."""
    strays: int = 0
    """Machines that no open ticket explains and that have not gone: they are being ended."""
