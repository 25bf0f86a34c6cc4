"""Bills and audits, of a job and of a whole journal, and the picture of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from slacktide.app.listing import policy_of
from slacktide.engine.bill import audit
from slacktide.engine.bill import bill as job_bill
from slacktide.engine.lane import Lane
from slacktide.engine.result import run_result, yardsticks
from slacktide.engine.site_bill import site_audit
from slacktide.engine.world import Track, World
from slacktide.events import Event, Kept, Lived, Record
from slacktide.ledger import Audit, bill
from slacktide.results.bill import Bill
from slacktide.results.run import RunResult
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


class RunTold(NamedTuple):
    """A run as pictures and pages need it."""

    runs: tuple[RunResult, ...]
    """The job's own, then those that stand beside it, as far as the market reaches."""
    events: tuple[Event, ...]


def run_told(track: Track, lane: Lane, events: Iterable[Event]) -> RunTold:
    """Return a job's run from its journal; raises InputError when nothing was run yet."""
    kept = tuple(events)
    run = run_result(kept, lane.job, lane.pool, policy_of(track))
    return RunTold((run, *yardsticks(lane)), kept)


__all__ = ["JobCost", "RunTold", "job_bill", "job_cost", "run_told", "site_cost"]
