"""What stands beside a run: the same work all on demand, as money over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slacktide.engine.lane import Lane
    from slacktide.report.run_scene import Curve


def on_demand_alone(lane: Lane) -> Curve | None:
    """Return what on demand alone would have spent by when; None when the market does not reach that far."""
    import numpy as np

    from slacktide.engine.bill import on_demand_alone as whole_run
    from slacktide.report.run_scene import Curve

    run = whole_run(lane)
    if run is None:
        return None
    ends = [slot.slot * lane.slot_hours + slot.lived.stretch.held_hours for slot in run.slots]
    return Curve(np.array([0.0, *ends]), np.array([0.0, *(slot.after.cost_usd for slot in run.slots)]))
