"""What a job that may move will probably cost, where it would be, and what moving may save."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.journal.events import Sight
from slacktide.market.base import Market
from slacktide.policies.base import policies as register
from slacktide.policies.pools.roams import roams
from slacktide.policies.view import Policy
from slacktide.results.plan import JobPlan, Moving, MovingSaving, Outlook, PoolAhead
from slacktide.results.run import OVER_POOLS, Run
from slacktide.results.runs import column
from slacktide.simulation.compare import Progress
from slacktide.simulation.plain import follow
from slacktide.simulation.plan import assumptions
from slacktide.simulation.plan.curves import against_deadline, against_width
from slacktide.simulation.plan.outcomes import held_over_time, outcomes, standard_error
from slacktide.simulation.plan.pool_futures import PoolFutures, pool_futures
from slacktide.simulation.plan.variants import OverPools
from slacktide.simulation.plan.wrong_work import if_work_is_wrong
from slacktide.simulation.policy_runs import label
from slacktide.simulation.pool_options import PoolOptions
from slacktide.solvers.pools.optimum import optimum

FUTURES, FUTURES_OF_WIDTHS = 12, 6
"""Futures for a gang, and for a job of several widths, whose clairvoyant takes a second or two for each."""
RANKER = "uniform-progress"
"""The quick policy by which pools to stay in are ranked; the others are tried in the best of them."""
BEST_POOLS = 2


class Tried(NamedTuple):
    """Runs of one policy over all futures, in one pool or over all."""

    policy: str
    pool: str
    """The pool in which it stays; empty: it moves."""
    runs: Sequence[Run]

    @property
    def cost(self) -> tuple[float, float]:
        """What it is ranked by: being in time first, then money."""
        on_time, usd = (float(np.mean(column(self.runs, name))) for name in ("on_time", "cost_usd"))
        return -on_time, usd

    def outlook(self) -> Outlook:
        """Sum it up."""
        moves, usd = (float(np.mean(column(self.runs, name))) for name in ("moves", "move_usd"))
        return Outlook(self.policy, outcomes(self.runs), None, self.pool, moves, usd)


def look_ahead_over_pools(
    ground: PoolOptions,
    market: Market,
    chosen: Policy,
    others: Sequence[Policy],
    *,
    begin_slot: int,
    sight: Sight = "feed",
    progress: Progress | None = None,
) -> JobPlan:
    """Plan a job that may move, with a policy and others to compare; all pools of the ground end now."""
    report, steps = progress or (lambda done, total: None), len(others) + 4
    paths = FUTURES if all(len(job.widths) == 1 for job in ground.places.jobs) else FUTURES_OF_WIDTHS
    here, futures = OverPools(ground, paths, sight), pool_futures(ground, paths=paths)
    ranked = _staying(here, futures, register.make(RANKER), [pool.name for pool in ground.pools])
    report(1, steps)
    best = [one.pool for one in sorted(ranked, key=lambda one: one.cost)[:BEST_POOLS]]
    tried = list[Tried]()
    for done, policy in enumerate({label(one): one for one in (chosen, *others)}.values()):
        if roams(policy):
            tried.append(Tried(label(policy), "", here.run(futures, policy)))
        else:
            tried.append(min(_staying(here, futures, policy, best), key=lambda one: one.cost))
        report(done + 2, steps)
    tried.append(Tried(OVER_POOLS, "", [_best(future, futures.start) for future in futures.grounds]))
    report(steps - 1, steps)
    mine = here._replace(stays_in=tried[0].pool)
    shown = mine.run_slots(futures, chosen) if mine.stays_in else tried[0].runs
    first = shown[0].slots[0]  # the first slot is the present, and the same in all futures
    made = JobPlan(
        job=ground.job,
        market=market.source,
        pool=first.lived.stretch.pool,
        policy=tried[0].policy,
        outlooks=tuple(one.outlook() for one in tried),
        pools=(),
        first=first.wanted,
        first_gpus=(first.spot_gpus, first.on_demand_gpus),
        gpus=held_over_time(ground.job, ground.pools[0].slot_hours, shown),
        assumptions=assumptions.over_pools(ground, market, futures),
        moving=_moving(ground, tried, ranked),
        begin_slot=begin_slot,
        begin_utc=ground.pools[0].time(len(ground.pools[0]) - 1),
        by_deadline=against_deadline(mine, chosen),
        by_width=against_width(mine, chosen),
        wrong_work=if_work_is_wrong(mine.jobs, paths, lambda truths: mine.run(futures, chosen, truths)),
    )
    report(steps, steps)
    return made


def _staying(here: OverPools, futures: PoolFutures, policy: Policy, pools: Sequence[str]) -> list[Tried]:
    """Run a policy in some pools of each future, in each by itself."""
    return [Tried(label(policy), name, here._replace(stays_in=name).run(futures, policy)) for name in pools]


def _best(future: PoolOptions, start: int) -> Run:
    jobs, hours, usd, _ = future.places
    return follow(future, optimum(jobs, future.pools, start, hours, usd), start=start, name=OVER_POOLS)


def _moving(ground: PoolOptions, tried: Sequence[Tried], stays: Sequence[Tried]) -> Moving:
    """Return where the first policy that moves would be, and what moving may save."""
    mine = next(one for one in tried if not one.pool)
    held = _held(ground, mine.runs)
    return Moving(
        pools=tuple(_ahead(ground, at, stay, held) for at, stay in enumerate(stays)),
        saving=_saving(tried),
        held=tuple((name, tuple(shares.tolist())) for name, shares in held.items()),
        slot_hours=ground.pools[0].slot_hours,
    )


def _ahead(ground: PoolOptions, at: int, stay: Tried, held: Mapping[str, Floats]) -> PoolAhead:
    pool = ground.pools[at]
    quote, (late, usd) = pool.quote(len(pool) - 1), stay.cost
    total = sum(float(shares.sum()) for shares in held.values())
    share = float(held[pool.name].sum()) / total if total > 0 else 0.0
    stays = usd if late <= -1.0 else None
    return PoolAhead(pool.name, quote.spot_gpus, quote.spot_usd_per_gpu_hour, stays, share)


def _held(ground: PoolOptions, runs: Sequence[Run]) -> dict[str, Floats]:
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


def _saving(tried: Sequence[Tried]) -> MovingSaving | None:
    """Compare the best that moves with the best that stays, future by future."""
    able = [one for one in tried if one.policy != OVER_POOLS]
    moved, stayed = [one for one in able if not one.pool], [one for one in able if one.pool]
    if not moved or not stayed:
        return None
    first, other = min(moved, key=lambda one: one.cost), min(stayed, key=lambda one: one.cost)
    less = column(other.runs, "cost_usd") - column(first.runs, "cost_usd")
    moving = float(np.mean(column(first.runs, "moves") > 0))
    return MovingSaving(float(np.mean(less)), standard_error(less), other.policy, other.pool, moving)
