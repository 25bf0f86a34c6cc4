"""The back end without machines: what is held does what the physics says.

It stands under the live engine in tests and dry runs, so that a run can be compared with the
back-test to the cent: both live through a slot by the same function.
"""

from __future__ import annotations

from slacktide import physics
from slacktide.backend.base import Order, Seen
from slacktide.jobfile import JobFile
from slacktide.types import TIME_TOLERANCE_HOURS


class Replay:
    """Live through orders by `physics.advance`; it keeps nothing, so nothing can be lost."""

    def __init__(self) -> None:
        self._terms: dict[str, physics.Terms] = {}

    def enter(self, job: str, terms: physics.Terms, file: JobFile | None) -> None:
        """Remember a job's numbers."""
        self._terms[job] = terms

    def hold(self, order: Order) -> None:
        """Do nothing: an order is all there is."""

    def look(self, order: Order, now_hours: float) -> Seen:
        """Live through the time from the order to now."""
        terms, slot, begin_hours = self._stretch(order, now_hours)
        after, happened = physics.advance(
            terms, order.state, slot, order.quote, order.spot_gpus, order.on_demand_gpus, order.state.pool
        )
        finish = begin_hours + after.finish_hours
        paid = after.cost_usd - order.state.cost_usd
        on_demand = physics.on_demand_usd(terms, order.quote, happened)
        return Seen(
            state=after._replace(finish_hours=finish),
            to_hours=order.from_hours + happened.held_hours if after.ended else now_hours,
            spot_usd=paid - on_demand,
            on_demand_usd=on_demand,
            pause_hours=happened.pause_hours,
            productive_hours=happened.productive_hours,
            gone=True,
        )

    def _stretch(self, order: Order, now_hours: float) -> tuple[physics.Terms, int, float]:
        """Return the terms of this stretch, its slot number in them, and the time at their slot 0."""
        terms = self._terms[order.job]
        whole = (order.slot + 1) * terms.slot_hours
        from_start = abs(order.from_hours - order.slot * terms.slot_hours) < TIME_TOLERANCE_HOURS
        if from_start and now_hours >= whole - TIME_TOLERANCE_HOURS:
            return terms, order.slot, 0.0
        # A part of a slot is a slot of its own length; past the deadline it stays past the deadline.
        late = order.slot >= terms.deadline_slots
        part = terms._replace(slot_hours=now_hours - order.from_hours, deadline_slots=0 if late else 1)
        return part, 0, order.from_hours

    def take(self, job: str, spot_left: int) -> None:
        """Do nothing: the engine has taken them out of the job's state."""

    def stop_hours(self, job: str) -> float:
        """Return 0: nothing has to be stopped, and the physics ends a job when its money ends."""
        return 0.0

    def tick(self) -> None:
        """Do nothing: there is nothing under way."""

    def sweep(self, orders: list[Order]) -> None:
        """Do nothing: there are no workers."""
