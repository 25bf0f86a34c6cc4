"""A back end without machines, for dry runs and tests: it reports every order as fulfilled, and no progress.

The engine then estimates progress, as it does for a script that reports nothing. A run can therefore be
compared with the back-test to the cent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slacktide.backends.base import BackendPlace, BackendStatus, LaunchSpec, Log, backends
from slacktide.core.types import Order


@backends.register
@dataclass(slots=True)
class Replay:
    """A dry run: nothing is started, and jobs do what their file says they would."""

    place: BackendPlace = field(default_factory=BackendPlace)
    _orders: dict[str, Order] = field(default_factory=dict, init=False)

    def enter(self, launch: LaunchSpec) -> None:
        """Do nothing: there is nothing to start."""

    def hold(self, order: Order) -> None:
        """Remember the order, unless it is older than the one that is held."""
        if order.attempt >= self._orders.get(order.job, order).attempt:
            self._orders[order.job] = order

    def look(self, jobs: Sequence[str]) -> Mapping[str, BackendStatus]:
        """Report that each order is fulfilled."""
        return {job: self._facts(self._orders.get(job)) for job in jobs}

    def take(self, job: str, spot_left: int, notice_s: float) -> None:
        """Hold less spot from now on."""
        if job in self._orders:
            order = self._orders[job]
            self._orders[job] = order._replace(spot_gpus=min(order.spot_gpus, spot_left))

    def stop_hours(self, job: str) -> float:
        """Return 0: nothing has to be stopped."""
        return 0.0

    def logs(self, job: str) -> Sequence[Log]:
        """Return nothing: there are no workers that print."""
        return ()

    def sweep(self, orders: Sequence[Order]) -> None:
        """Hold these orders and no others."""
        self._orders = {order.job: order for order in orders}

    def close(self) -> None:
        """Do nothing."""

    def _facts(self, order: Order | None) -> BackendStatus:
        if order is None:
            return BackendStatus(gone=True)
        if order.ending or self.place.now_hours() >= order.until_hours:
            return BackendStatus(order.attempt, order.pool, gone=True)
        return BackendStatus(
            order.attempt, order.pool, order.spot_gpus, order.on_demand_gpus, gone=order.gpus == 0
        )
