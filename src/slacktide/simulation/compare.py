"""Comparison of policies in back-tests: the same job from the same starts, next to the clairvoyant.

A job that stays runs in every pool, and its figures cover the runs in all pools. For a job that may move, all
policies start at the same times. Those that choose pools run over all pools; one that stays runs in every
pool, and the comparison shows its best pool. The clairvoyant is shown twice: over all pools and in its best.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError, shown
from slacktide.core.register import Spec
from slacktide.core.types import Job
from slacktide.journal.events import Sight
from slacktide.market.base import Market, Pool
from slacktide.market.pools.statistics import stock_outs_said
from slacktide.physics.truth import AS_SAID, Truths
from slacktide.policies.base import roams
from slacktide.policies.view import Policy
from slacktide.results.comparison import Comparison, PolicySummary
from slacktide.results.run import CLAIRVOYANT, IN_THE_POOL, OVER_POOLS, AllRuns, Run, column
from slacktide.simulation.parallel.base import HERE, Spread
from slacktide.simulation.plain import check_start, last_start
from slacktide.simulation.pool_options import PoolOptions
from slacktide.simulation.sweep import Part, PoolStarts, Sweep, in_detail, named, run_sweep

Progress = Callable[[int, int], None]  # called with the work done so far and the work in all


@dataclass(frozen=True, slots=True)
class Starts:
    """The slots in which a job starts: `count` of them, evenly spread, or one every `every_hours`."""

    count: int | None = 24
    every_hours: float | None = None

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise InputError(f"starts must be >= 1, got {self.count}")
        if self.every_hours is not None and not (math.isfinite(self.every_hours) and self.every_hours > 0):
            raise InputError(f"starts: the time between two starts must be > 0, got {self.every_hours:g} h")

    def of(self, job: Job, pool: Pool) -> list[int]:
        """Return the starts in this pool that leave the whole deadline inside the market."""
        last = last_start(job, pool)
        if last < 0:
            raise InputError(
                f"pool {shown(pool.name)}: the market must cover the deadline of {job.deadline_hours:g} h, "
                f"got {pool.hours:g} h of it; use a longer market or an earlier deadline"
            )
        if self.every_hours is not None:
            return list(range(0, last + 1, max(1, round(self.every_hours / pool.slot_hours))))
        count = min(self.count or 1, last + 1)
        return [round(start) for start in np.linspace(0, last, count)]


def compare(
    job: Job,
    market: Market | Pool,
    policies: Sequence[Spec | Policy],
    *,
    pool: str | None = None,
    starts: Starts | Sequence[int] | None = None,
    truth: Truths = AS_SAID,
    progress: Progress | None = None,
    spread: Spread = HERE,
) -> Comparison:
    """Run every policy, and the clairvoyant, from every start in every pool (or in one).

    From one start all of them meet the same truth; only the clairvoyant knows it beforehand. `spread` decides
    where runs are done, which does not change their results.
    """
    if isinstance(market, Pool):
        market = Market((market,), source=market.name)
    pools = market.pools if pool is None else (market.pool(pool),)
    makers = named(policies)
    chosen = starts if starts is not None else Starts()
    where = tuple(
        PoolStarts(place, job, tuple(chosen.of(job, place) if isinstance(chosen, Starts) else chosen))
        for place in pools
    )
    sweep = Sweep(job, market, makers, truth, where, sum(len(place.starts) for place in where))
    wanted = [(policy, at) for at in range(len(pools)) for policy in (*makers, None)]
    parts = run_sweep(sweep, wanted, spread, progress)
    middle = _median_run([part for part in parts if part.policy == list(makers)[-1]])
    typical = [part for part in parts if part.pool is not None and pools[part.pool].name == middle.pool]
    spares = [usd for part in parts for usd in part.spare_usd]
    best = _paid([part for part in parts if part.name == CLAIRVOYANT])
    return Comparison(
        job,
        market.source,
        pools,
        (*market.assumptions, *_stock_outs([(place, job.fastest_width) for place in pools])),
        AllRuns([part.runs for part in parts]),
        tuple(
            summarise(name, [part.runs for part in parts if part.name == name], best)
            for name in (*makers, CLAIRVOYANT)
        ),
        tuple(in_detail(sweep, typical, middle.start_slot, spread)),
        float(np.mean(spares)) if spares else None,
        truth,
    )


def compare_over_pools(
    options: PoolOptions,
    market: Market,
    policies: Sequence[Spec | Policy],
    *,
    starts: Starts | Sequence[int] | None = None,
    sight: Sight = "feed",
    truth: Truths = AS_SAID,
    progress: Progress | None = None,
    spread: Spread = HERE,
) -> Comparison:
    """Run every policy, and the clairvoyant, from every start: over all pools, or in each of them.

    Starts are slots of the first of the job's pools.
    """
    makers, job = named(policies), options.job
    chosen = common_starts(options, starts if starts is not None else Starts())
    where = tuple(_pool_starts(options, at, chosen) for at in range(len(options.pools)))
    sweep = Sweep(job, market, makers, truth, where, len(chosen), options, sight)
    covered = [at for at, place in enumerate(where) if _covers(options, place)]
    wanted = [(name, pool) for name in (*makers, None) for pool in _pools_for(sweep, name, covered)]
    rows = _rows(options, run_sweep(sweep, wanted, spread, progress))
    best = [_best(job, rows, name) for name in (*makers, IN_THE_POOL, OVER_POOLS)]
    parts = [row.part for row in best]
    of_policies = [part for part in parts if part.policy is not None]
    moving = [part for part in of_policies if part.pool is None]
    middle = _median_run((moving or of_policies)[-1:])
    ahead = next(place.ahead for place in where if place.pool.name == middle.pool)
    left_out = ", ".join(pool.name for at, pool in enumerate(options.pools) if at not in covered)
    not_recorded = f"{left_out}: not recorded from all starts to their deadlines, so nothing stayed there."
    return Comparison(
        job,
        market.source,
        options.pools,
        (
            *market.assumptions,
            *_stock_outs(options.widths),
            *([not_recorded] if left_out else []),
        ),
        AllRuns([part.runs for part in parts]),
        tuple(row.summary for row in best),
        tuple(in_detail(sweep, parts, middle.start_slot - ahead, spread)),
        None,
        truth,
        sight,
        tuple(row.summary for row in rows if row.part.pool is not None),
    )


def _stock_outs(places: Sequence[tuple[Pool, int]]) -> tuple[str, ...]:
    """Return a sentence on how often on demand was out of stock for jobs of these widths, if it ever was."""
    shares = stock_outs_said(places)
    if not shares:
        return ()
    return (
        f"On-demand GPUs were out of stock ({shares}): then nobody can promise to be on time, and the "
        "clairvoyant, who is not limited by it, may be out of reach.",
    )


def _median_run(parts: Sequence[Part]) -> Run:
    runs = AllRuns([part.runs for part in parts])
    costs = np.concatenate([column(part.runs, "cost_usd") for part in parts])
    # A stable sort, so that of runs with equal bills every machine shows the earliest start.
    return runs[int(np.argsort(costs, kind="stable")[len(costs) // 2])]


# ---------------------------------------------------------------------- starts that pools share


def common_starts(options: PoolOptions, starts: Starts | Sequence[int]) -> list[int]:
    """Return the starts as slots of the first pool, in the time that all pools cover if that is enough."""
    own = options.pools[0]
    if not isinstance(starts, Starts):
        for start in starts:
            check_start(options.job, own, start)
        return list(starts)
    first = max(-options.slots_ahead(pool) for pool in options.pools)
    last = min(len(pool) - options.slots_ahead(pool) for pool in options.pools)
    if last - first < len(own) - last_start(options.job, own):
        return starts.of(options.job, own)
    return [first + slot for slot in starts.of(options.job, own.window(first, last))]


def _pool_starts(options: PoolOptions, at: int, starts: Sequence[int]) -> PoolStarts:
    ahead = options.slots_ahead(options.pools[at])
    slots = tuple(start + ahead for start in starts)
    return PoolStarts(options.pools[at], options.places.jobs[at], slots, ahead)


def _covers(options: PoolOptions, place: PoolStarts) -> bool:
    return min(place.starts) >= 0 and max(place.starts) <= last_start(options.job, place.pool)


def _pools_for(sweep: Sweep, name: str | None, covered: Sequence[int]) -> list[int | None]:
    """Return where a policy runs: over pools, or in each of them; the clairvoyant does both."""
    if name is None:
        return [*covered, None]
    return [None] if roams(sweep.policies[name]) else [*covered]


# ---------------------------------------------------------------------- summaries of runs


MEANS = (
    "utility_usd", "finish_hours", "spot_gpu_hours", "on_demand_gpu_hours", "preemptions", "moves", "move_usd"
)  # fmt: skip
"""The figures of which a summary has the mean over its runs."""


class SummaryRow(NamedTuple):
    """A part of a comparison, with its summary."""

    part: Part
    summary: PolicySummary


def _rows(options: PoolOptions, parts: Sequence[Part]) -> list[SummaryRow]:
    """Sum up each part by itself; its cost is also given as a multiple of the clairvoyant's over pools."""
    best = _paid([part for part in parts if part.name == OVER_POOLS])
    pools = ["" if part.pool is None else options.pools[part.pool].name for part in parts]
    return [
        SummaryRow(part, dataclasses.replace(summarise(part.name, [part.runs], best), pool=pool))
        for part, pool in zip(parts, pools, strict=True)
    ]


def _paid(parts: Sequence[Part]) -> float:
    bills: list[float] = [usd for part in parts for usd in column(part.runs, "cost_usd").tolist()]
    return sum(bills)


def _best(job: Job, rows: Sequence[SummaryRow], name: str) -> SummaryRow:
    """Return a policy's row; for one that stays in a pool, that of its best pool."""
    return max((row for row in rows if row.part.name == name), key=lambda row: _worth(job, row.summary))


def _worth(job: Job, summary: PolicySummary) -> tuple[float, float]:
    """Return what pools are ranked by: share on time, then low cost; with a soft deadline, mean utility."""
    if not job.hard and job.value_usd > 0:
        return (summary.mean_utility_usd, 0.0)
    return (summary.on_time_share, -summary.mean_cost_usd)


def summarise(name: str, parts: Sequence[Sequence[Run]], yardstick_usd: float) -> PolicySummary:
    """Sum up the runs of one policy; `yardstick_usd` is what the clairvoyant paid for all of them."""

    def all_of(figure: str) -> Floats:
        return np.concatenate([column(runs, figure) for runs in parts])

    costs = all_of("cost_usd")
    paid = sum(costs.tolist())
    p10, p50, p90 = np.percentile(costs, (10, 50, 90))
    means = {f"mean_{figure}": float(np.mean(all_of(figure))) for figure in MEANS}
    return PolicySummary(
        policy=name,
        mean_cost_usd=paid / len(costs),
        on_time_share=float(np.mean(all_of("on_time"))),
        cost_over_clairvoyant=paid / yardstick_usd if yardstick_usd > 0 else (1.0 if paid <= 0 else math.inf),
        p10_cost_usd=float(p10),
        p50_cost_usd=float(p50),
        p90_cost_usd=float(p90),
        **means,  # type: ignore[arg-type]
    )
