"""The back end of local processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from slacktide.backends.base import backends
from slacktide.backends.local.processes import LocalProcesses
from slacktide.backends.workers.launch import Kind
from slacktide.backends.workers.worker_backend import WorkerBackend, Workers
from slacktide.core.types import Order


@backends.register
@dataclass(slots=True)
class Local(WorkerBackend):
    """Processes of this machine, one for each GPU; those that the market takes are killed."""

    _processes: LocalProcesses = field(init=False)

    def __post_init__(self) -> None:
        self._processes = LocalProcesses(self.place.folder, self.place.owner)

    @property
    def workers(self) -> Workers:
        """Who holds the workers."""
        return self._processes

    def hold_workers(self, order: Order, kinds: tuple[Kind, ...], not_before: float) -> None:
        """Have workers of these kinds, in the order of their ranks, started from this time on."""
        self._processes.hold(order.job, order.attempt, kinds, not_before, pool=order.pool)
