"""The audit of a journal: every stretch priced again, at the market's quotes or at the journal's."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import NamedTuple

from slacktide.core.errors import SlacktideError
from slacktide.core.quotes import Quote
from slacktide.core.types import TIME_TOLERANCE_HOURS, Job
from slacktide.engine.job.job_context import JobContext
from slacktide.engine.job.journal_market import open_written, quote_in, was_changed
from slacktide.files.job import submitted_file
from slacktide.journal.events import ClockSet, Decided, Held, Kept, Lived, Record, SiteOpened, Submitted
from slacktide.journal.state.journal_state import BEING_STOPPED, UNSEEN_SLOT, JobRecord
from slacktide.market.spec import is_feed
from slacktide.physics import ledger
from slacktide.physics.ledger import Audit, Priced
from slacktide.physics.tariff import BY_THE_SECOND, Tariff, tariff_of

BY_THE_JOURNAL = "the audit uses the quotes in the journal"


class BillPricing(NamedTuple):
    """What an audit needs to know of a job, whether its market is still there or not."""

    job: Job
    tariff: Tariff
    quote: Callable[[str, int], Quote] | None
    """Returns what a pool quoted in a slot; None to use the quotes in the journal: for a feed, whose rows may
    come after their slot was decided about, and for a market that has changed or is gone."""
    note: str = ""  # what the audit must say about the market; empty if it is unchanged


def pricing_of(submitted: Submitted, site: SiteOpened | None) -> BillPricing:
    """Return how a job is priced; `site` is None in older journals."""
    job = submitted_file(submitted).job
    tariff = tariff_of(job.billing, submitted.slot_hours)
    try:
        if was_changed(site):
            return BillPricing(job, tariff, None, _changed(submitted))
        growing = is_feed(json.loads(submitted.market)["spec"])
        return BillPricing(job, tariff, None if growing else _quotes(submitted))
    except SlacktideError as error:
        return BillPricing(job, tariff, None, f"{error}; {BY_THE_JOURNAL}")


def _quotes(submitted: Submitted) -> Callable[[str, int], Quote]:
    """Return how to look up the quotes of a recorded market's pools, by slots of the job's own."""
    market, _ = open_written(submitted.market)
    return lambda pool, slot: quote_in(market.pool(pool), market.pool(submitted.pool), slot)


def sites_of(records: Iterable[Record]) -> dict[str, SiteOpened | None]:
    """Return the site on which each job was submitted; None in older journals."""
    site: SiteOpened | None = None
    sites: dict[str, SiteOpened | None] = {}
    for record in records:
        match record.event:
            case ClockSet():
                site = None
            case SiteOpened():
                site = record.event
            case Submitted():
                sites[record.event.job] = site
    return sites


def _changed(submitted: Submitted) -> str:
    spec = json.loads(submitted.market)["spec"]
    return (
        f"{spec}: the market was changed since {submitted.job} was submitted; "
        f"{BY_THE_JOURNAL}, on demand alone and the clairvoyant are of the market as it is now"
    )


def audit(record: JobRecord, context: JobContext, records: Iterable[Record]) -> Audit:
    """Price every stretch of a job again at its market's quotes, or for a feed at the journal's."""
    quote = None if context.feed is not None else lambda pool, slot: context.named(pool).quote(slot)
    return job_audit(record.job, BillPricing(context.job, context.tariff, quote), records)


def job_audit(job: str, pricing: BillPricing, records: Iterable[Record]) -> Audit:
    """Price every stretch of one job again, and check that they join without gap or overlap."""
    return site_audit({job: pricing}, (record for record in records if record.event.job == job))


NOT_CHOSEN = (UNSEEN_SLOT, BEING_STOPPED)  # reasons of what was held although no policy chose to hold it then


class _Reported(NamedTuple):
    seq: int
    event: Lived | Kept
    clock: int  # how often the clock had been set: hours of two clocks do not lie on one line
    shared: bool
    """Whether its slot was seen and decided, on a market that all jobs shared: only there can spot be sold
    twice."""


def site_audit(pricing: Mapping[str, BillPricing], records: Iterable[Record]) -> Audit:
    """Price every stretch of a journal again, and check that no spot GPU was sold twice.

    `pricing` has the tariff and quotes of each job. Slots that no step saw, and workers that are being
    stopped, are priced as they were held, and do not count as oversold.
    """
    reported = list(_reported(records))
    found = [
        _clock_audit(list(group), pricing) for _, group in itertools.groupby(reported, attrgetter("clock"))
    ]
    return Audit(
        sum(part.cost_usd for part in found),
        (*(gap for part in found for gap in part.gaps), *_gaps(reported)),
        tuple(wrong for part in found for wrong in part.wrong),
        tuple(moment for part in found for moment in part.oversold),
    )


def _clock_audit(reported: list[_Reported], pricing: Mapping[str, BillPricing]) -> Audit:
    stretches = [_at_market(stretch.event, pricing) for stretch in reported]
    again = ledger.audit(
        stretches,
        lambda payer: pricing[payer].tariff if payer in pricing else BY_THE_SECOND,
        name=lambda number: f"event {reported[number].seq}",
    )
    shared = [priced.stretch for stretch, priced in zip(reported, stretches, strict=True) if stretch.shared]
    return dataclasses.replace(again, oversold=tuple(ledger.oversold(shared)))


def _at_market(event: Lived | Kept, pricing: Mapping[str, BillPricing]) -> Priced:
    """Return a stretch with the market's own quote of its slot, where the market can still be read."""
    quote = pricing[event.job].quote if event.job in pricing else None
    if quote is None:
        return event.priced
    stretch = event.priced.stretch
    return event.priced._replace(stretch=stretch._replace(quote=quote(stretch.pool, stretch.slot)))


def _reported(records: Iterable[Record]) -> Iterator[_Reported]:
    clock, shared = 0, False
    chosen: dict[str, Decided] = {}
    older: dict[str, bool] = {}
    for seq, _, event in records:
        match event:
            case ClockSet():
                clock, shared = clock + 1, False
            case SiteOpened():
                shared = True
            case Decided():
                chosen[event.job] = event
            case Held() if event.job in chosen:
                older[event.job] = event.attempt < chosen[event.job].attempt
            case Lived():
                yield _Reported(seq, event, clock, shared and _is_chosen(event.job, chosen, older))
            case Kept():
                yield _Reported(seq, event, clock, shared)


def _is_chosen(job: str, chosen: Mapping[str, Decided], older: Mapping[str, bool]) -> bool:
    """Whether a policy chose what a job holds: not in slots that no step saw, nor while workers stop."""
    return (job not in chosen or chosen[job].why not in NOT_CHOSEN) and not older.get(job, False)


def _gaps(reported: list[_Reported]) -> Iterator[str]:
    """Yield where time is missing between two stretches of a job though GPUs were held."""
    lived = [(stretch.seq, stretch.event) for stretch in reported if isinstance(stretch.event, Lived)]
    by_job = sorted(lived, key=lambda stretch: stretch[1].job)  # stable, so each job's stay in order
    for (_, before), (seq, after) in itertools.pairwise(by_job):
        ended, begins = before.priced.stretch.to_hours, after.priced.stretch.from_hours
        missing = before.job == after.job and begins > ended + TIME_TOLERANCE_HOURS
        if missing and before.state.gpus > 0:
            yield f"event {seq}: begins at {begins:.6f} h, the last ended at {ended:.6f} h"
