"""Chooses the pool and the slot of its market in which a submitted job begins."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from slacktide.core.errors import InputError
from slacktide.core.types import TIME_TOLERANCE_HOURS, Job
from slacktide.engine.job.journal_market import ANOTHER, MarketPosition, standing
from slacktide.journal.events import SiteOpened, Submitted
from slacktide.market.base import Market, Pool
from slacktide.market.spec import FEED, absolute, feed_path, is_feed
from slacktide.policies.base import policies
from slacktide.simulation import plain
from slacktide.simulation.plain import guarded, last_start
from slacktide.solvers.slotted import deadline_slots

ROOM_SHARE = 0.25
"""How much of a replayed market to leave after a job's deadline if possible, as a share of its time."""
RECENT_STARTS = 8
MOST_POOLS = 64


def first_slot(submitted: Submitted, job: Job, pool: Pool, start: int | None, *, shared: bool = False) -> int:
    """Return the slot of the market at which the journal's first job begins; `shared`: others will follow."""
    # A feed is joined at its present, the last row. A trace is replayed from some slot of its past.
    if on_feed(submitted):
        _check_no_start(start)
        return len(pool) - 1
    if submitted.fleet:
        return start or 0
    return start_of(job, pool, wanted_slot(job, pool, start, shared=shared))


def placed(submitted: Submitted, job: Job, pool: Pool, start: int | None, site: SiteOpened) -> Submitted:
    """Return a submission with the slot that the market of the other jobs has reached at its hour.

    Raises InputError if the market does not reach to its deadline, or another start is requested.
    """
    if on_feed(submitted):
        _check_no_start(start)
    began, _ = standing(site, pool, site.at_hours)
    if start not in (None, began):
        raise InputError(
            f"start must stay {began}, where the market of this journal began, got {start}; leave it out, or "
            f"{ANOTHER}"
        )
    hours, may_end_before = submitted.at_hours, submitted.fleet or on_feed(submitted)
    at = standing(site, pool, hours) if may_end_before else stand(job, pool, site, hours)
    return dataclasses.replace(submitted, start_slot=at.slot, origin_hours=at.origin_hours)


def stand(job: Job, pool: Pool, site: SiteOpened, hours: float) -> MarketPosition:
    """Return a job's position at an hour of the clock; raises InputError if the market ends too soon."""
    at = standing(site, pool, hours)
    left_hours = at.origin_hours + (len(pool) - at.slot) * pool.slot_hours - hours
    if at.slot < 0 or left_hours < job.deadline_hours - TIME_TOLERANCE_HOURS:
        raise InputError(
            f"pool {pool.name!r}: this journal's market must cover the deadline of {job.deadline_hours:g} h, "
            f"got {max(0.0, left_hours):g} h of it from now on; use an earlier deadline, or {ANOTHER}"
        )
    return at


def _check_no_start(start: int | None) -> None:
    if start is not None:
        raise InputError(f"start must be left out: a feed is joined at its last row, got {start}")


def on_feed(submitted: Submitted) -> bool:
    """Whether a job's market is still being written."""
    return is_feed(json.loads(submitted.market)["spec"])


def whole_spec(spec: str) -> str:
    """Return a market spec with absolute paths, a feed's too, so that it means the same in any folder."""
    return FEED + str(Path(feed_path(spec)).absolute()) if is_feed(spec) else absolute(spec)


def start_of(job: Job, pool: Pool, start: int | None) -> int:
    """Return the slot of a replayed market at which a job begins: `start`, or as late as leaves ROOM_SHARE.

    Late, so that the past is long. Raises InputError when the market does not reach to the deadline.
    """
    last = last_start(job, pool)
    if last < 0:
        raise InputError(
            f"pool {pool.name!r}: the market must cover the deadline of {job.deadline_hours:g} h, got "
            f"{pool.hours:g} h of it; use a longer market or an earlier deadline"
        )
    if start is None:
        room = round(ROOM_SHARE * job.deadline_hours / pool.slot_hours)
        return max(0, last - room) if last >= 2 * room else last
    if not 0 <= start <= last:
        raise InputError(
            f"start must leave {job.deadline_hours:g} h of market, so lie in 0..{last}, got {start}; "
            "use a longer market or an earlier deadline"
        )
    return start


def wanted_slot(job: Job, pool: Pool, start: int | None, *, shared: bool) -> int | None:
    """Return the slot at which the first job should begin; None: as late as leaves ROOM_SHARE.

    If other jobs will follow and no slot is requested, it is the middle of the market, so that it lasts for
    them, or earlier if the job needs more than half of it.
    """
    if start is not None or not shared:
        return start
    return max(0, min(len(pool) // 2, last_start(job, pool)))


def cheapest(market: Market, bills: Mapping[str, Sequence[float]]) -> Pool:
    """Return the pool of the lowest mean bill, or the first one where nothing is known of any."""
    return market.pool(min(bills, key=lambda name: float(np.mean(bills[name])))) if bills else market.pools[0]


def pool_bills(
    job_in: Callable[[Pool], Job], market: Market, start: Callable[[Pool], int | None]
) -> dict[str, list[float]]:
    """Return what jobs like this one cost in each pool from recent starts before its own, where known.

    `job_in` returns the job as it is in a pool, `start` its slot there or None for the latest possible one.
    They are run by a simple policy, which is fast and ranks the pools as others do.
    """
    if math.isinf(job_in(market.pools[0]).deadline_hours) or len(market.pools) == 1:
        return {}
    bills: dict[str, list[float]] = {}
    for pool in market.pools[:MOST_POOLS]:
        job, begins = job_in(pool), start(pool)
        last = last_start(job, pool) if begins is None else min(begins, len(pool))
        ended = last - deadline_slots(job, pool.slot_hours)
        if ended < 0:
            continue
        policy = guarded(policies.make("uniform-progress"), job)
        past = sorted({round(slot) for slot in np.linspace(ended // 2, ended, RECENT_STARTS)})
        bills[pool.name] = [plain.run(job, pool, policy, start=slot).cost_usd for slot in past]
    return bills
