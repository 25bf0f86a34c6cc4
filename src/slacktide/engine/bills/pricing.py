"""How the stretches of a job are priced again: by its tariff, at the market's quotes or at the journal's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from slacktide.core.errors import SlacktideError
from slacktide.core.quotes import Quote
from slacktide.core.types import Job
from slacktide.engine.job.changed_market import was_changed
from slacktide.engine.job.job_context import market_of
from slacktide.engine.job.usable_pools import quote_in
from slacktide.files.job import parse_job
from slacktide.journal.events import ClockSet, Record, SiteOpened, Submitted
from slacktide.market.base import Market
from slacktide.physics.tariff import Tariff, tariff_of

BY_THE_JOURNAL = "the audit uses the quotes in the journal"


class BillPricing(NamedTuple):
    """What an audit needs to know of a job, whether its market is still there or not."""

    job: Job
    tariff: Tariff
    quote: Callable[[str, int], Quote] | None
    """What a pool of the market quoted in a slot; None where the quotes in the journal count: for a feed,
    whose rows may come after their slot was decided about, and where the market is another now, or gone."""
    note: str = ""  # what must be said of the market; empty while it is as it was


def pricing_of(submitted: Submitted, site: SiteOpened | None) -> BillPricing:
    """Say how a job is priced that was submitted on a site; none in journals of before."""
    now = datetime.fromisoformat(submitted.submitted_utc)
    job = parse_job(submitted.text, path=submitted.path, now=now).job
    tariff = tariff_of(job.billing, submitted.slot_hours)
    try:
        if was_changed(site):
            return BillPricing(job, tariff, None, _changed(submitted))
        market = market_of(submitted.market)
        return BillPricing(job, tariff, None if market is None else _quotes(market, submitted.pool))
    except SlacktideError as error:
        return BillPricing(job, tariff, None, f"{error}; {BY_THE_JOURNAL}")


def _quotes(market: Market, home: str) -> Callable[[str, int], Quote]:
    """Return what says the quotes of all pools, by slots of one of them."""
    return lambda pool, slot: quote_in(market.pool(pool), market.pool(home), slot)


def sites_of(records: Iterable[Record]) -> dict[str, SiteOpened | None]:
    """Return the site on which each job was submitted; none for those of before."""
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
