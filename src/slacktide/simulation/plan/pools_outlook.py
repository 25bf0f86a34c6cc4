"""What a job that may move will probably cost, where it would be, and what moving may save."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.journal.events import Sight
from slacktide.market.base import Market
from slacktide.market.pools.statistics import stock_outs_said
from slacktide.policies.base import policies as register
from slacktide.policies.pools.roams import roams
from slacktide.policies.view import Policy
from slacktide.results.pools_plan import PoolAhead, PoolsOutlook, PoolsPlan, Saving
from slacktide.results.run import OVER_POOLS, Run, SlotRecord
from slacktide.results.runs import column
from slacktide.simulation import batch, compare, plain
from slacktide.simulation.compare import Progress, label
from slacktide.simulation.plain import Setting, follow, run_over_pools
from slacktide.simulation.plan.outlook import AFTER, spread, standard_error
from slacktide.simulation.plan.pool_futures import PoolFutures, pool_futures
from slacktide.simulation.pool_options import PoolOptions
from slacktide.solvers.pools.optimum import optimum

FUTURES, FUTURES_OF_WIDTHS = 12, 6
"""Futures for a gang, and for a job of several widths, whose clairvoyant takes a second or two for each."""
RANKER = "uniform-progress"
"""The quick policy by which pools to stay in are ranked; the others are tried in the best of them."""
BEST_POOLS = 2


class _Part(NamedTuple):
    """Runs of one policy over all futures, in one pool or over all."""

    policy: str
    pool: int | None
    runs: Sequence[Run]


def look_ahead_over_pools(
    ground: PoolOptions,
    market: Market,
    chosen: Policy,
    others: Sequence[Policy],
    *,
    begin_slot: int,
    sight: Sight = "feed",
    progress: Progress | None = None,
) -> PoolsPlan:
    """Plan a job that may move with a policy, others beside it; all pools of the ground end with now."""
    report = progress or (lambda done, total: None)
    paths = FUTURES if all(len(job.widths) == 1 for job in ground.places.jobs) else FUTURES_OF_WIDTHS
    futures = pool_futures(ground, paths=paths)
    steps = len(others) + 3
    ranked = _staying(ground, futures, register.make(RANKER), range(len(ground.pools)))
    report(1, steps)
    best = sorted(range(len(ranked)), key=lambda at: _cost(ranked[at]))[:BEST_POOLS]
    tried = {label(policy): policy for policy in (chosen, *others)}
    parts = []
    for done, policy in enumerate(tried.values()):
        found = (
            [_moving(futures, policy, sight)] if roams(policy) else _staying(ground, futures, policy, best)
        )
        parts.append(min(found, key=_cost))
        report(done + 2, steps)
    parts.append(_Part(OVER_POOLS, None, [_best(future, futures.start) for future in futures.grounds]))
    report(steps, steps)
    first = _first(ground, futures, chosen, parts[0])
    return _plan(ground, market, futures, parts, ranked, first, begin_slot)


def _cost(part: _Part) -> tuple[float, float]:
    return -float(np.mean(column(part.runs, "on_time"))), float(np.mean(column(part.runs, "cost_usd")))


def _moving(futures: PoolFutures, policy: Policy, sight: Sight) -> _Part:
    """Run a policy over all pools of each future."""
    acting = compare.guarded(policy, futures.grounds[0].job)
    runs = [run_over_pools(future, acting, start=futures.start, sight=sight) for future in futures.grounds]
    return _Part(label(policy), None, runs)


def _staying(ground: PoolOptions, futures: PoolFutures, policy: Policy, pools: Sequence[int]) -> list[_Part]:
    """Run a policy in some pools of each future, in each by itself."""
    parts = []
    for at in pools:
        job, drawn = ground.places.jobs[at], [future.pools[at] for future in futures.grounds]
        past = tuple(pool for pool in ground.pools if pool is not ground.pools[at])
        start = len(drawn[0]) - (len(futures.grounds[0].pools[0]) - futures.start)
        acting, setting = compare.guarded(policy, job), Setting(neighbours=past)
        parts.append(_Part(label(policy), at, batch.run_futures(job, drawn, acting, start, setting=setting)))
    return parts


def _first(ground: PoolOptions, futures: PoolFutures, policy: Policy, part: _Part) -> SlotRecord:
    """Return what a policy does in the first slot, which is the same in all futures."""
    if part.pool is None:
        return part.runs[0].slots[0]
    job, place = ground.places.jobs[part.pool], futures.grounds[0].pools[part.pool]
    start = len(place) - (len(futures.grounds[0].pools[0]) - futures.start)
    return plain.run(job, place, compare.guarded(policy, job), start=start).slots[0]


def _best(future: PoolOptions, start: int) -> Run:
    jobs, hours, usd, _ = future.places
    return follow(future, optimum(jobs, future.pools, start, hours, usd), start=start, name=OVER_POOLS)


# ---------------------------------------------------------------------- the plan


def _plan(
    ground: PoolOptions,
    market: Market,
    futures: PoolFutures,
    parts: Sequence[_Part],
    ranked: Sequence[_Part],
    first: SlotRecord,
    begin_slot: int,
) -> PoolsPlan:
    mine, chosen = next(part for part in parts if part.pool is None), parts[0]
    held = _held(ground, futures, mine.runs)
    place = ground.pools[0]
    return PoolsPlan(
        job=ground.job,
        market=market.source,
        policy=chosen.policy,
        first=first.wanted,
        start_pool=first.lived.stretch.pool,
        start_gpus=(first.spot_gpus, first.on_demand_gpus),
        outlooks=tuple(_outlook(ground, part) for part in parts),
        pools=tuple(_ahead(ground, at, ranked[at], held) for at in range(len(ground.pools))),
        saving=_saving(ground, parts),
        held=tuple((name, tuple(shares.tolist())) for name, shares in held.items()),
        slot_hours=place.slot_hours,
        assumptions=_assumptions(ground, market, futures),
        begin_slot=begin_slot,
        begin_utc=place.time(len(place) - 1),
    )


def _outlook(ground: PoolOptions, part: _Part) -> PoolsOutlook:
    where = "" if part.pool is None else ground.pools[part.pool].name
    moves, usd = (float(np.mean(column(part.runs, name))) for name in ("moves", "move_usd"))
    return PoolsOutlook(part.policy, where, spread(part.runs), moves, usd)


def _ahead(ground: PoolOptions, at: int, stay: _Part, held: Mapping[str, Floats]) -> PoolAhead:
    quote, name = ground.pools[at].quote(len(ground.pools[at]) - 1), ground.pools[at].name
    late, usd = _cost(stay)
    total = sum(float(shares.sum()) for shares in held.values())
    share = float(held[name].sum()) / total if total > 0 else 0.0
    stays = usd if late <= -1.0 else None
    return PoolAhead(name, quote.spot_gpus, quote.spot_usd_per_gpu_hour, stays, share)


def _held(ground: PoolOptions, futures: PoolFutures, runs: Sequence[Run]) -> dict[str, Floats]:
    """Return for each pool the share of futures in which GPUs are held there, by slot until the deadline."""
    slot_hours = ground.pools[0].slot_hours
    slots = math.ceil(ground.job.deadline_hours / slot_hours - 1e-6)
    held = {pool.name: np.zeros(slots) for pool in ground.pools}
    for one in runs:
        for record in one.slots[:slots]:
            stretch = record.lived.stretch
            if stretch.gpus:
                held[stretch.pool][record.slot] += stretch.held_hours / slot_hours / len(runs)
    return held


def _saving(ground: PoolOptions, parts: Sequence[_Part]) -> Saving | None:
    """Compare the best that moves with the best that stays, future by future."""
    able = [part for part in parts if part.policy != OVER_POOLS]
    moved, stayed = (
        [part for part in able if part.pool is None],
        [part for part in able if part.pool is not None],
    )
    if not moved or not stayed:
        return None
    first, other = min(moved, key=_cost), min(stayed, key=_cost)
    less = column(other.runs, "cost_usd") - column(first.runs, "cost_usd")
    moving = float(np.mean(column(first.runs, "moves") > 0))
    assert other.pool is not None
    name = ground.pools[other.pool].name
    return Saving(float(np.mean(less)), standard_error(less), other.policy, name, moving)


def _assumptions(ground: PoolOptions, market: Market, futures: PoolFutures) -> tuple[str, ...]:
    job, pools = ground.job, len(ground.pools)
    size = f"{job.checkpoint_gb:g} GB" if job.checkpoint_gb else "0 GB, because its file does not say `size:`"
    words = [
        f"{len(futures.grounds)} futures were run: few, because a run over pools takes up to two seconds",
        futures.assumption,
        f"a job is in one of {pools} pools at a time, and a move carries its checkpoint of {size}",
        f"after workers are added there is no progress for {job.restart_hours * 60:g} min, which is paid for",
        "what every pool offers is known when it decides, and on-demand GPUs are always available"
        + _ran_out(ground),
        AFTER[job.after_deadline],
    ]
    if job.hard:
        words.append("the deadline is hard: every policy runs behind the deadline guard")
    return (*words, *market.assumptions)


def _ran_out(ground: PoolOptions) -> str:
    """Say how often on demand was out of stock before the start, where that is recorded."""
    places = zip(ground.pools, ground.places.jobs, strict=True)
    told = stock_outs_said([(pool, job.fastest_width) for pool, job in places])
    return f"; before the start there were {told}" if told else ""
