"""The outlook of a job in one word, computed from what it holds and what could still save it."""

from __future__ import annotations

from slacktide import physics
from slacktide.backend.base import Order
from slacktide.events import Health
from slacktide.types import TIME_TOLERANCE_HOURS


def health(terms: physics.Terms, order: Order) -> tuple[Health, str]:
    """Return on-time, at-risk or late for a job that holds an order's GPUs, and why.

    Late: not even the fastest on-demand width from now on would meet the deadline. At-risk: it would,
    but what is held would not, and less than a slot and a restart are left until it must begin.
    """
    limit = terms.deadline_hours + TIME_TOLERANCE_HOURS
    width = physics.rescue_width(terms, order.state, order.slot)
    begun = order.slot * terms.slot_hours
    late_by = order.from_hours - begun
    rescue = physics.on_demand_finish(terms, order.state, order.slot, width) + late_by
    as_held = _finish_as_held(terms, order)
    if min(rescue, as_held) > limit:
        return "late", f"the earliest end is hour {min(rescue, as_held):.2f}, the deadline {limit:.2f}"
    if as_held <= limit:
        return "on-time", f"what is held would be done at hour {as_held:.2f}"
    spare = physics.latest_start(terms, order.state.checkpointed_gpu_hours) - order.from_hours
    if spare > terms.slot_hours + terms.restart_hours:
        return "on-time", f"on demand need not begin for {spare:.2f} h"
    return "at-risk", f"on demand must begin within {max(spare, 0.0):.2f} h"


def _finish_as_held(terms: physics.Terms, order: Order) -> float:
    """Return when the work is done if what is held stays."""
    if order.gpus == 0:
        return float("inf")
    pause = physics.pause_after(terms, order.state, order.spot_gpus, order.on_demand_gpus, order.state.pool)
    left = terms.work_gpu_hours - order.state.progress_gpu_hours
    return float(order.from_hours + pause + left / terms.rate[order.gpus])
