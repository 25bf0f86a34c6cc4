"""The journal's entry of a job: all that must be known to run it, also after a crash and on another day."""

from __future__ import annotations

import dataclasses
import json
import math
from datetime import datetime
from typing import Any

from slacktide.app.market import DEFAULT_MARKET, MarketSpec
from slacktide.app.submission import FleetText, Submission, check_runnable
from slacktide.engine.changed_market import check_unchanged
from slacktide.engine.feed import is_feed, open_feed
from slacktide.engine.fleets import DEFAULT_ALLOCATOR, check_member
from slacktide.engine.journal_market import same_market, standing
from slacktide.engine.placement import best_pool, first_slot, placed, whole_spec
from slacktide.errors import InputError
from slacktide.events import SiteOpened, Submitted
from slacktide.jobfile import JobFile
from slacktide.jobfile.fleet import parse_fleet
from slacktide.learn.pool import AUTO
from slacktide.market.base import Market, Pool
from slacktide.market.source import open_market
from slacktide.register import Spec


def entry(
    submission: Submission,
    file: JobFile,
    *,
    job: str,
    at_hours: float,
    now: datetime,
    site: SiteOpened | None = None,
) -> Submitted:
    """Say all that the journal must know to run a job, whose file reads so at this moment.

    `site` is the market of the jobs that are there already. Raises InputError or InfeasibleError when the
    job cannot be run.
    """
    check_runnable(file)
    options = _market_options(submission.market, file.market, site)
    opened = _opened(options)
    check_unchanged(site, opened)
    pool = _pool(submission.market, file, opened, site, at_hours)
    policy: Spec = file.policy if submission.policy is None else submission.policy
    told = Submitted(
        job=job,
        at_hours=at_hours,
        actor="user",
        text=submission.text,
        submitted_utc=now.isoformat(),
        path=file.path,
        policy=json.dumps(policy),
        learning=policy == AUTO,
        market=json.dumps(options),
        pool=pool.name,
        slot_hours=pool.slot_hours,
        start_slot=0,
        key=submission.key,
    )
    if submission.fleet is not None:
        named = dataclasses.replace(told, fleet_class=file.fleet_class or "")
        told = _member(named, submission.fleet, submission.policy)
    elif file.job.deadline_hours == math.inf:
        raise InputError(f"{file.path}: a job without a deadline must be in a fleet; name it with --fleet")
    start = submission.market.start
    if site is not None:
        return placed(told, file.job, pool, start, site)
    return dataclasses.replace(told, start_slot=first_slot(told, file.job, pool, start))


def _opened(options: dict[str, Any]) -> Market:
    return open_feed(**options) if is_feed(options["spec"]) else open_market(**options)


def _pool(
    market: MarketSpec, file: JobFile, opened: Market, site: SiteOpened | None, at_hours: float
) -> Pool:
    """Return the pool that is named, or the one in which jobs like this one were cheapest lately."""
    if market.pool:
        return opened.pool(market.pool)
    if site is None:
        return best_pool(file.job, opened, lambda each: market.start)
    return best_pool(file.job, opened, lambda each: standing(site, each, at_hours).slot)


def _member(told: Submitted, fleet: FleetText, policy: Spec | None) -> Submitted:
    """Make a job one of a fleet, whose allocator decides about all of them; raises InputError."""
    written = parse_fleet(fleet.text, path=fleet.path).policy if policy is None else policy
    member = dataclasses.replace(
        told,
        policy=json.dumps(DEFAULT_ALLOCATOR if written is None else written),
        learning=False,
        fleet=fleet.text,
        fleet_path=fleet.path,
    )
    check_member(member)
    return member


def _market_options(market: MarketSpec, written: str | None, site: SiteOpened | None) -> dict[str, Any]:
    """Return what to open the market with: what is named, else that of the other jobs, else the default."""
    named, options = market.source or written, market.options()
    if site is not None:
        return same_market(site, {**({"spec": whole_spec(named)} if named else {}), **options})
    return {"spec": whole_spec(named or DEFAULT_MARKET), **options}
