"""Bills and audits, of a job and of a whole journal, and the picture of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from slacktide.app.journal.listing import policy_of, status_of
from slacktide.core.errors import SlacktideError
from slacktide.engine.bills.bill import as_measured, audit_at, own_bill
from slacktide.engine.bills.bill import bill as job_bill
from slacktide.engine.bills.machine_bill import machine_bill
from slacktide.engine.bills.machine_use import machine_use
from slacktide.engine.bills.pricing import BillPricing, pricing_of, sites_of
from slacktide.engine.bills.result import run_result, yardsticks
from slacktide.engine.bills.site_bill import site_audit
from slacktide.engine.job.job_context import JobContext
from slacktide.journal.events import Event, Kept, Lived, Record, SiteOpened
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.physics.ledger import Audit, bill
from slacktide.results.bill import Bill
from slacktide.results.machines.machine_use import MachineCosts
from slacktide.results.machines.site_bill import PayerBill, SiteBill
from slacktide.results.run import RunResult


class JobCost(NamedTuple):
    """The bill of a job, and a second look at it."""

    bill: Bill
    audit: Audit
    notes: tuple[str, ...] = ()
    """What must be said of its market, where that is not as it was."""


class SiteCost(NamedTuple):
    """The bill of a whole journal with its audit."""

    bill: SiteBill
    notes: tuple[str, ...] = ()
    """What must be said of its markets, where they are not as they were."""
    machines: MachineCosts | None = None
    """The bill of machines that were rented; None where none ever were."""


def billed(record: JobRecord, state: JournalState, context: JobContext, *, in_charge: bool) -> Bill:
    """Draw up the bill of a job beside what others would have paid."""
    status = status_of(record, state, in_charge=in_charge)
    return dataclasses.replace(job_bill(record, context), status=status)


def job_cost(
    record: JobRecord,
    state: JournalState,
    context: Callable[[JobRecord], JobContext],
    site: SiteOpened | None,
    records: Iterable[Record],
    *,
    in_charge: bool,
) -> JobCost:
    """Draw up the bill of a job beside what others would have paid, and price every stretch again.

    Where its market is gone, nobody can say what others would have paid.
    """
    pricing = pricing_of(record.submitted, site)
    checked = audit_at(record, pricing.tariff, pricing.quote, records)
    notes = (pricing.note,) if pricing.note else ()
    try:
        return JobCost(billed(record, state, context(record), in_charge=in_charge), checked, notes)
    except SlacktideError as error:
        status = status_of(record, state, in_charge=in_charge)
        alone = dataclasses.replace(own_bill(record, pricing.job), status=status, market_gone=True)
        return JobCost(alone, checked, notes or (str(error),))


def site_cost(state: JournalState, records: Iterable[Record], *, in_charge: bool) -> SiteCost:
    """Add up what every job and the machines that none used cost, and audit all stretches together."""
    told = list(records)
    own = [record.event.priced for record in told if isinstance(record.event, Kept)]
    lived = [record.event.priced for record in told if isinstance(record.event, Lived)]
    payers = [
        PayerBill(job_record.job, status_of(job_record, state, in_charge=in_charge), job_record.money.bill)
        for job_record in state.jobs.values()
    ]
    if own:
        payers.append(PayerBill("", "", bill(own)))
    pricing = _pricing(state, told)
    found = SiteBill(tuple(payers), bill([*lived, *own]), site_audit(pricing, told))
    notes = tuple(dict.fromkeys(one.note for one in pricing.values() if one.note))
    return SiteCost(found, notes, machine_costs(told))


def machine_costs(told: Iterable[Record], until_utc: datetime | None = None) -> MachineCosts | None:
    """Draw up the bill of rented machines until now, beside what jobs used; None where none were rented."""
    records = list(told)
    bill_of_all = machine_bill(records, until_utc or datetime.now(UTC))
    return MachineCosts(bill_of_all, machine_use(records)) if bill_of_all.lines else None


def _pricing(state: JournalState, told: Iterable[Record]) -> dict[str, BillPricing]:
    sites = sites_of(told)
    return {record.job: pricing_of(record.submitted, sites.get(record.job)) for record in state.jobs.values()}


class RunTold(NamedTuple):
    """A run as pictures and pages need it."""

    runs: tuple[RunResult, ...]
    """The job's own, then those that stand beside it, as far as the market reaches."""
    events: tuple[Event, ...]


def run_told(record: JobRecord, context: JobContext, events: Iterable[Event]) -> RunTold:
    """Return a job's run from its journal; raises InputError when nothing was run yet."""
    kept = tuple(events)
    run = run_result(kept, context.job, context.at(0).pool, policy_of(record))
    return RunTold((run, *yardsticks(context, as_measured(record, context.job))), kept)


__all__ = ["JobCost", "RunTold", "SiteCost", "billed", "job_cost", "machine_costs", "run_told", "site_cost"]
