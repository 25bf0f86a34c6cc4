"""The journal's entry for a submitted job: all that is needed to run it, also after a crash or days later."""

from __future__ import annotations

import dataclasses
import json
import math
from datetime import datetime
from typing import Any

from slacktide.app.jobs.feasible import OVER_POOLS
from slacktide.app.jobs.submission import FleetText, Submission, check_runnable
from slacktide.app.markets.market import DEFAULT_MARKET, MarketSpec
from slacktide.core.errors import InputError
from slacktide.core.register import Spec
from slacktide.core.types import Job
from slacktide.engine.fleet.fleets import check_member, market_named
from slacktide.engine.job.changed_market import check_unchanged
from slacktide.engine.job.journal_market import same_market, standing
from slacktide.engine.job.placement import best_pool, first_slot, placed, wanted_slot, whole_spec
from slacktide.engine.job.usable_pools import job_in, usable
from slacktide.files.job import JobFile, read_job_file
from slacktide.journal.events import SiteOpened, Submitted
from slacktide.market.base import Market, Pool
from slacktide.market.live.feed import open_feed
from slacktide.market.pools.places import places_of
from slacktide.market.source import open_market
from slacktide.market.spec import absolute, is_feed
from slacktide.policies.base import policies
from slacktide.policies.pools.roams import roams
from slacktide.policies.selection.policy_set import AUTO


def journal_entry(
    submission: Submission,
    file: JobFile,
    *,
    job: str,
    at_hours: float,
    now: datetime,
    site: SiteOpened | None = None,
) -> Submitted:
    """Return what the journal must hold to run a job, with its file as it reads at this moment.

    `site` is the market of the journal's other jobs. Raises InputError or InfeasibleError when the job
    cannot be run.
    """
    check_runnable(file)
    options = _market_options(submission.market, _market_written(submission, file), site)
    opened = _opened(options)
    check_unchanged(site, opened)
    policy = _policy(submission, file, opened)
    pools = _pools(submission, file, opened, policy)
    pool = opened.pool(pools[0]) if pools else _pool(submission.market, file, opened, site, at_hours)
    made = Submitted(
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
        pools=pools,
        sight=submission.sight if pools and submission.fleet is None else "feed",
    )
    if submission.fleet is not None:
        named = dataclasses.replace(made, fleet_class=file.fleet_class or "")
        made = _member(named, submission.fleet, submission.policy)
    elif file.job.deadline_hours == math.inf:
        raise InputError(f"{file.path}: a job without a deadline must be in a fleet; name it with --fleet")
    start, shared = submission.market.start, submission.market.shared
    if site is not None:
        return placed(made, file.job, pool, start, site)
    return dataclasses.replace(made, start_slot=first_slot(made, file.job, pool, start, shared=shared))


def _opened(options: dict[str, Any]) -> Market:
    return open_feed(**options) if is_feed(options["spec"]) else open_market(**options)


def may_move(path: str, policy: Spec | None, market: MarketSpec) -> bool:
    """Whether the job of a file may move, if its market has several pools that it may use."""
    file = read_job_file(path)
    spec = file.policy if policy is None else policy
    roaming = bool(file.job.pools) if spec == AUTO else roams(policies.make(spec))
    return market.pool is None and roaming


def _policy(submission: Submission, file: JobFile, market: Market) -> Spec:
    """Return the policy of a job: the submission's, else its file's.

    Where the choice is left to the learner, whose policies stay in one pool, a job that names several pools
    of its market has the one that moves.
    """
    policy: Spec = file.policy if submission.policy is None else submission.policy
    free = policy == AUTO and file.job.pools and submission.market.pool is None and submission.fleet is None
    return OVER_POOLS if free and len(usable(file.job, file.gpu, market)) > 1 else policy


def _pools(submission: Submission, file: JobFile, market: Market, policy: Spec) -> tuple[str, ...]:
    """Return the pools among which a job may move; none for one that stays in its pool.

    It may where its policy moves jobs, or its fleet shares a market, no pool was named for it, and it may use
    several.
    """
    if submission.market.pool:
        return ()
    if submission.fleet is not None:
        roaming = submission.fleet.shares_market(submission.policy)
    else:
        roaming = policy != AUTO and roams(policies.make(policy))
    names = usable(file.job, file.gpu, market) if roaming else ()
    return names if len(names) > 1 else ()


def _market_written(submission: Submission, file: JobFile) -> str | None:
    """Return the market that files name: that of a fleet is the market of all its jobs."""
    fleet = None if submission.fleet is None else market_named(submission.fleet.parsed())
    return file.market if fleet is None else fleet


def _pool(
    market: MarketSpec, file: JobFile, opened: Market, site: SiteOpened | None, at_hours: float
) -> Pool:
    """Return the pool that is named, or the one in which jobs like this one were cheapest lately."""
    if market.pool:
        return opened.pool(market.pool)
    if file.job.pools:  # only those that the job may use, as it is in each of them
        places = places_of(file.job, file.gpu, opened)
        opened = dataclasses.replace(opened, pools=tuple(opened.pool(place.pool) for place in places))

    def job_in_pool(pool: Pool) -> Job:
        return job_in(file.job, file.gpu, opened, pool.name) if file.job.pools else file.job

    def stands(pool: Pool) -> int | None:
        if site is not None:
            return standing(site, pool, at_hours).slot
        return wanted_slot(job_in_pool(pool), pool, market.start, shared=market.shared)

    return best_pool(job_in_pool, opened, stands)


def _member(entry: Submitted, fleet: FleetText, policy: Spec | None) -> Submitted:
    """Make a job one of a fleet, whose allocator decides about all of them; raises InputError."""
    member = dataclasses.replace(
        entry,
        policy=json.dumps(fleet.allocator(policy)),
        learning=False,
        fleet=fleet.text,
        fleet_path=fleet.path,
    )
    check_member(member)
    return member


def _market_options(market: MarketSpec, written: str | None, site: SiteOpened | None) -> dict[str, Any]:
    """Return how to open the market: the named one, else that of the other jobs, else the default."""
    named, options = market.source or written, market.options()
    if site is not None:
        return same_market(site, {**({"spec": whole_spec(absolute(named))} if named else {}), **options})
    return {"spec": whole_spec(absolute(named or market.usual or DEFAULT_MARKET)), **options}
