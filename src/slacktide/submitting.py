"""Handing a job in: all that the journal must know to run it, also after a crash and on another day."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from slacktide.backtesting import plain
from slacktide.backtesting.compare import guarded
from slacktide.backtesting.plain import last_start
from slacktide.engine.feed import SCHEME, feed_path, is_feed, open_feed
from slacktide.engine.streams import DEFAULT_STREAM_POLICY, check_member
from slacktide.errors import InputError
from slacktide.events import Submitted
from slacktide.jobfile.reading import parse_job
from slacktide.jobfile.redact import without_secrets
from slacktide.jobfile.tree import read_text
from slacktide.learn.pool import AUTO
from slacktide.market.base import Market, Pool
from slacktide.market.source import open_market
from slacktide.policy.base import policies
from slacktide.register import Spec
from slacktide.service import DEFAULT_MARKET, check_feasible
from slacktide.solve.slotted import deadline_slots
from slacktide.types import Job

ROOM_SHARE = 0.25
"""How much of a job's time a replayed market should still have after its deadline, where it has a choice."""
RECENT_STARTS = 8
MOST_POOLS = 64


def submission(
    text: str, path: str, given: Mapping[str, Any], *, job_id: str, at_hours: float, now: datetime
) -> Submitted:
    """Say all that the journal must know to run a job file, also after a crash and on another day.

    `given` may hold market, pool, slot_hours, gaps, spot_usd, on_demand_usd, policy and start; with
    fleet, the path of a fleet file, the job is one of its stream. Raises InputError or InfeasibleError when
    the job cannot be run.
    """
    file = parse_job(text, path=path, now=now)
    check_feasible(file.job)
    if file.run is None:
        raise InputError(f"{path}: a job must say what to run, got no 'run'; write 'run: python train.py'")
    market = _market_options(given, file.market)
    live = is_feed(market["spec"])
    opened = open_feed(**market) if live else open_market(**market)
    named, start = given.get("pool"), given.get("start")
    pool = opened.pool(named) if named else best_pool(file.job, opened, start)
    policy: Spec = given.get("policy") or file.policy
    submitted = Submitted(
        job=job_id,
        at_hours=at_hours,
        actor="user",
        text=without_secrets(text),
        submitted_utc=now.isoformat(),
        path=str(Path(path).absolute()),
        policy=json.dumps(policy),
        learning=policy == AUTO,
        market=json.dumps(market),
        pool=pool.name,
        slot_hours=pool.slot_hours,
        start_slot=0,
        envs=_taken_over(file.envs),
    )
    if given.get("fleet"):
        return _member_of(submitted, given)
    if file.job.deadline_hours == math.inf:
        raise InputError(f"{path}: a job without a deadline must be one of a stream; give its --fleet")
    # A feed is at its present: its last row. A trace is replayed from some slot of its past.
    begin = len(pool) - 1 if live else start_of(file.job, pool, start)
    return dataclasses.replace(submitted, start_slot=begin)


def _member_of(submitted: Submitted, given: Mapping[str, Any]) -> Submitted:
    """Make a job one of a stream, whose policy decides about all of them; raises InputError."""
    member = dataclasses.replace(
        submitted,
        policy=json.dumps(given.get("policy") or DEFAULT_STREAM_POLICY),
        learning=False,
        start_slot=given.get("start") or 0,
        fleet=read_text(given["fleet"]),
        fleet_path=str(Path(given["fleet"]).absolute()),
    )
    check_member(member)
    return member


def _market_options(given: Mapping[str, Any], written: str | None) -> dict[str, Any]:
    spec = given.get("market") or written or DEFAULT_MARKET
    if is_feed(spec):
        spec = SCHEME + str(Path(feed_path(spec)).absolute())
    elif not spec.startswith("synthetic"):
        spec = str(Path(spec).absolute())
    names = ("slot_hours", "gaps", "spot_usd", "on_demand_usd")
    return {"spec": spec, **{name: given[name] for name in names if given.get(name) is not None}}


def start_of(job: Job, pool: Pool, start: int | None) -> int:
    """Return the slot of a replayed market at which a job begins: as late as leaves it room, or as asked.

    Late, so that the past is long. Raises InputError when the market does not reach to the deadline.
    """
    last = last_start(job, pool)
    if start is not None:
        if not 0 <= start <= last:
            raise InputError(
                f"start must leave {job.deadline_hours:g} h of market, so lie in 0..{last}, got {start}; "
                "use a longer market or a nearer deadline"
            )
        return start
    if last < 0:
        raise InputError(
            f"pool {pool.name!r}: the market must cover the deadline of {job.deadline_hours:g} h, got "
            f"{pool.hours:g} h of it; use a longer market or a nearer deadline"
        )
    room = round(ROOM_SHARE * job.deadline_hours / pool.slot_hours)
    return max(0, last - room) if last >= 2 * room else last


def best_pool(job: Job, market: Market, start: int | None) -> Pool:
    """Return the pool in which jobs like this one were cheapest from recent starts before its own.

    The first pool where no past reaches that far.
    """
    if math.isinf(job.deadline_hours):
        return market.pools[0]
    costs: dict[str, float] = {}
    for pool in market.pools[:MOST_POOLS]:
        last = last_start(job, pool) if start is None else start
        ended = last - deadline_slots(job, pool.slot_hours)
        if ended < 0:
            continue
        policy = guarded(policies.make("uniform-progress"), job)
        past = sorted({round(slot) for slot in np.linspace(ended // 2, ended, RECENT_STARTS)})
        costs[pool.name] = float(
            np.mean([plain.run(job, pool, policy, start=slot).cost_usd for slot in past])
        )
    return market.pool(min(costs, key=lambda name: costs[name])) if costs else market.pools[0]


def _taken_over(envs: Mapping[str, str | None]) -> dict[str, str]:
    """Return the variables that are to be as they are where the job is handed in."""
    found = {name: os.environ.get(name) for name, value in envs.items() if value is None}
    for name, value in found.items():
        if value is None:
            raise InputError(
                f"variable {name} must be set here or given a value in the job file, got neither"
            )
    return {name: value for name, value in found.items() if value is not None}
