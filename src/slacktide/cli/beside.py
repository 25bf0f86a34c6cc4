"""What stands beside a run: the same work all on demand, as money over time."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slacktide.engine.lane import Lane
    from slacktide.report.run_scene import Curve


def on_demand_alone(lane: Lane) -> Curve | None:
    """Return what on demand alone would have spent by when; None when the market does not reach that far.

    Without the greatest cost: the question is what the whole work costs, not where it would be stopped.
    """
    import numpy as np

    from slacktide.backtesting import plain
    from slacktide.errors import SlacktideError
    from slacktide.policy.base import policies
    from slacktide.report.run_scene import Curve

    job = dataclasses.replace(lane.job, max_cost_usd=None)
    try:
        run = plain.run(job, lane.pool, policies.make("on-demand"), start=lane.start_slot)
    except SlacktideError:
        return None
    ends = [slot.slot * lane.terms.slot_hours + slot.happened.held_hours for slot in run.slots]
    return Curve(np.array([0.0, *ends]), np.array([0.0, *(slot.after.cost_usd for slot in run.slots)]))
