"""Bills and audits of a job or a whole journal, bills divided by owner or month, and runs for pictures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from slacktide.app.journal.listing import RecordedEvent, class_of, owner_of, policy_of, status_of
from slacktide.core.errors import BackendError, SlacktideError, UnknownNameError
from slacktide.engine.bills.audit import job_audit, pricing_of, site_audit, sites_of
from slacktide.engine.bills.bill import as_measured, own_bill, run_result, yardsticks
from slacktide.engine.bills.bill import bill as job_bill
from slacktide.engine.bills.machines import machine_bill, machine_use
from slacktide.engine.job.job_context import JobContext
from slacktide.journal.events import ClockSet, Event, Kept, Lived, Record, SiteOpened, Submitted
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.physics.ledger import CENT_USD, Priced, StretchSums, added, bill
from slacktide.results.bill import BillPart, JobCost, PayerBill, SiteBill, SiteCost
from slacktide.results.machine_bill import MachineCosts
from slacktide.results.run import RunResult

KEYS = ("owner", "class", "month", "job")  # what a bill may be divided by


def job_cost(
    record: JobRecord,
    status: str,
    context: Callable[[JobRecord], JobContext],
    site: SiteOpened | None,
    records: Iterable[Record],
) -> JobCost:
    """Return the bill of a job with its audit, in which every stretch is priced again.

    If its market is gone, the bill lacks what other ways to run the job would have cost.
    """
    pricing = pricing_of(record.submitted, site)
    checked = job_audit(record.job, pricing, records)
    notes = (pricing.note,) if pricing.note else ()
    try:
        whole = dataclasses.replace(job_bill(record, context(record)), status=status)
        return JobCost(whole, checked, notes)
    except SlacktideError as error:
        alone = dataclasses.replace(own_bill(record, pricing.job), status=status, market_gone=True)
        return JobCost(alone, checked, notes or (str(error),))


def site_cost(state: JournalState, records: Iterable[Record], *, in_charge: bool) -> SiteCost:
    """Add up the costs of all jobs and of machines that no job used, and audit all stretches together."""
    records = list(records)
    own = [record.event.priced for record in records if isinstance(record.event, Kept)]
    lived = [record.event.priced for record in records if isinstance(record.event, Lived)]
    payers = [
        PayerBill(job_record.job, status_of(job_record, state, in_charge=in_charge), job_record.money.bill)
        for job_record in state.jobs.values()
    ]
    if own:
        payers.append(PayerBill("", "", bill(own)))
    sites, jobs = sites_of(records), state.jobs.values()
    pricing = {job.job: pricing_of(job.submitted, sites.get(job.job)) for job in jobs}
    whole = SiteBill(tuple(payers), bill([*lived, *own]), site_audit(pricing, records))
    notes = tuple(dict.fromkeys(price.note for price in pricing.values() if price.note))
    return SiteCost(whole, notes, machine_costs(records))


def machine_costs(records: Iterable[Record]) -> MachineCosts | None:
    """Return the bill of rented machines until now, next to what jobs used; None if none were rented."""
    records = list(records)
    bill_of_all = machine_bill(records, datetime.now(UTC))
    return MachineCosts(bill_of_all, machine_use(records)) if bill_of_all.lines else None


class RecordedRun(NamedTuple):
    """A run from the journal, as pictures and pages need it."""

    runs: tuple[RunResult, ...]  # the job's own, then those to compare it with, as far as the market reaches
    events: tuple[Event, ...]


def recorded_run(record: JobRecord, context: JobContext, events: Iterable[Event]) -> RecordedRun:
    """Return a job's run from its journal; raises InputError when nothing was run yet."""
    kept = tuple(events)
    run = run_result(kept, context.job, context.at(0).pool, policy_of(record))
    return RecordedRun((run, *yardsticks(context, as_measured(record, context.job))), kept)


def parse_keys(text: str) -> tuple[str, ...]:
    """Read by which keys to divide a bill: one, or several with commas; raises UnknownNameError."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in KEYS:
            raise UnknownNameError("a part of a bill", name, KEYS)
    return names


def bill_parts(events: Iterable[RecordedEvent], by: tuple[str, ...]) -> list[BillPart]:
    """Add up the costs of each part of a journal, sorted by the parts' names.

    A stretch belongs to the month (UTC) in which it began, on the market's clock. Stretches of machines that
    no job used have no owner, class or job.
    """
    sums: dict[tuple[str, ...], StretchSums] = {}
    for priced, submitted, month in _stretches(events):
        names = {
            "owner": "" if submitted is None else owner_of(submitted),
            "class": "" if submitted is None else class_of(submitted),
            "month": month,
            "job": priced.stretch.payer,
        }
        part = tuple(names[key] for key in by)
        sums[part] = added(sums.get(part, StretchSums()), priced)
    return [BillPart(part, sums[part]) for part in sorted(sums)]


def check_sum(parts: Iterable[BillPart], cost_usd: float) -> None:
    """Raise BackendError unless the parts add up to the whole bill, to the cent."""
    total = sum(part.bill.cost_usd for part in parts)
    if abs(total - cost_usd) >= CENT_USD:
        raise BackendError(
            f"the parts of a bill must add up to it, got {total:.2f} of {cost_usd:.2f} USD; "
            "the journal may have grown in between: run the command again"
        )


def _stretches(events: Iterable[RecordedEvent]) -> Iterator[tuple[Priced, Submitted | None, str]]:
    epoch: datetime | None = None
    for recorded in events:
        event = recorded.record.event
        if isinstance(event, ClockSet):
            epoch = datetime.fromisoformat(event.epoch_utc).astimezone(UTC)
        elif isinstance(event, Lived | Kept):
            # In a journal without a clock it is the month in which the stretch was written down.
            hours = timedelta(hours=event.priced.stretch.from_hours)
            moment = recorded.record.time_utc.astimezone(UTC) if epoch is None else epoch + hours
            yield event.priced, recorded.submitted if isinstance(event, Lived) else None, f"{moment:%Y-%m}"
