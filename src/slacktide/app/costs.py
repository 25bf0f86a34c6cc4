"""Bills and audits, of a job and of a whole journal, and the picture of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from slacktide.app.listing import policy_of
from slacktide.engine.bill import audit, on_demand_alone
from slacktide.engine.bill import bill as job_bill
from slacktide.engine.lane import Lane
from slacktide.engine.site_bill import site_audit
from slacktide.engine.world import Track, World
from slacktide.events import Event, Kept, Lived, Record
from slacktide.ledger import Audit, bill
from slacktide.report.run_scene import Curve, RunScene, run_scene
from slacktide.results.bill import Bill
from slacktide.results.site_bill import PayerBill, SiteBill


class JobCost(NamedTuple):
    """The bill of a job, and a second look at it."""

    bill: Bill
    audit: Audit


def job_cost(track: Track, lane: Lane, records: Iterable[Record]) -> JobCost:
    """Draw up the bill of a job beside what others would have paid, and price every stretch again."""
    return JobCost(job_bill(track, lane), audit(track, lane, records))


def site_cost(world: World, records: Iterable[Record]) -> SiteBill:
    """Add up what every job and the machines that none used cost, and audit all stretches together."""
    told = list(records)
    own = [record.event.priced for record in told if isinstance(record.event, Kept)]
    lived = [record.event.priced for record in told if isinstance(record.event, Lived)]
    payers = [PayerBill(track.job, track.status, track.bill) for track in world.jobs.values()]
    if own:
        payers.append(PayerBill("", "", bill(own)))
    return SiteBill(tuple(payers), bill([*lived, *own]), site_audit(world, told))


def scene_of(track: Track, lane: Lane, events: Iterable[Event], drawn: Bill) -> RunScene:
    """Set the scene of a job's run from its journal; raises InputError when nothing was run yet."""
    return run_scene(
        lane.job,
        lane.pool,
        lane.start_slot,
        events,
        name=track.job,
        policy=policy_of(track),
        began_hours=track.began_hours,
        alone=alone_curve(lane),
        clairvoyant_usd=drawn.clairvoyant_usd,
    )


def alone_curve(lane: Lane) -> Curve | None:
    """Return what on demand alone would have spent by when; None when the market does not reach that far."""
    run = on_demand_alone(lane)
    if run is None:
        return None
    ends = [slot.slot * lane.slot_hours + slot.lived.stretch.held_hours for slot in run.slots]
    return Curve(np.array([0.0, *ends]), np.array([0.0, *(slot.after.cost_usd for slot in run.slots)]))


__all__ = ["JobCost", "alone_curve", "job_bill", "job_cost", "scene_of", "site_cost"]
