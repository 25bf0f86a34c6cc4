"""What a job will probably cost and when it will be done: from drawn futures and from recent starts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from slacktide.backtesting import batch, compare, plain
from slacktide.backtesting.compare import Progress, Starts, label
from slacktide.backtesting.plain import Setting
from slacktide.backtesting.scenarios import scenarios
from slacktide.deciding import Policy, look
from slacktide.market.base import Market, Pool
from slacktide.policy.stochastic_horizon import StochasticHorizon
from slacktide.results.plan import HeldAt, JobPlan, Outlook, Range, Spread
from slacktide.results.run import CLAIRVOYANT, Run
from slacktide.types import Allocation, Job, JobState

RECENT_HOURS = 14 * 24.0
"""How far back recent starts reach."""
RECENT_STARTS = 24
POOL_STARTS = 8
"""Starts per pool when the best one is looked for."""
FUTURES = 50
"""Futures that are drawn from the model."""
TRIED_CHECKPOINT_HOURS = 10 / 60
"""The interval that is tried to say what a checkpoint would save a job that has none."""
AFTER = {
    "stop": "a job that is not done at its deadline checkpoints and stops (after_deadline: stop)",
    "finish-cheaply": "work left at the deadline is done on spot while there is some, else on the narrowest "
    "width on demand (after_deadline: finish-cheaply)",
    "finish-fast": "work left at the deadline is done on demand, as fast as can be (after_deadline: "
    "finish-fast)",
}
"""What becomes of work that is left at the deadline, as a plan says it."""
SHOWN_FUTURES = 12
"""Futures that are run slot by slot, to show the GPUs held over time."""


def look_ahead(
    job: Job,
    market: Market,
    policies: Sequence[Policy],
    *,
    pool: str | None,
    progress: Progress | None = None,
) -> JobPlan:
    """Plan a job with the first of these policies, the others beside it, in one pool or in the best one."""
    report = progress or (lambda done, total: None)
    steps = len(policies) + 2
    solved = FUTURES + RECENT_STARTS
    places = market.pools if pool is None else (market.pool(pool),)
    pools = _ranked(job, market, policies[0], places) if len(places) > 1 else ()
    place = market.pool(pools[0][0]) if pools else places[0]
    neighbours = tuple(other for other in market.pools if other is not place)
    drawn, start = scenarios(job, place, neighbours, paths=FUTURES)
    report(1, steps)
    outlooks = []
    for done, policy in enumerate(policies):
        outlooks.append(_outlook(job, market, place, policy, drawn, start))
        report(done + 2, steps)
    # The clairvoyant of a wide job takes longest, and is told by its starts.
    known, spare = _clairvoyant(
        job, place, drawn, start, lambda done: report((steps - 1) * solved + done, steps * solved)
    )
    outlooks.append(known)
    report(steps, steps)
    setting = Setting(neighbours=neighbours)
    return JobPlan(
        job=job,
        market=market.source,
        pool=place.name,
        policy=label(policies[0]),
        outlooks=tuple(outlooks),
        pools=pools or ((place.name, outlooks[0].history.cost_usd.p50),),
        first=_first(job, policies[0], drawn[0], start, setting),
        gpus=_held(job, policies[0], drawn[:SHOWN_FUTURES], start, setting),
        assumptions=(
            *_without_checkpoints(job, policies[0], drawn, start, setting, outlooks[0]),
            *_assumptions(job, market, place, neighbours, outlooks[0]),
        ),
        clairvoyant_spare_usd=spare,
    )


def best_case(job: Job, market: Market, policy: Policy, *, pool: str | None) -> tuple[str, Outlook]:
    """Return the pool that a plan with this policy would choose, and what the clairvoyant would pay there."""
    places = market.pools if pool is None else (market.pool(pool),)
    place = market.pool(_ranked(job, market, policy, places)[0][0]) if len(places) > 1 else places[0]
    neighbours = tuple(other for other in market.pools if other is not place)
    drawn, start = scenarios(job, place, neighbours, paths=FUTURES)
    known, _ = _clairvoyant(job, place, drawn, start, lambda done: None)
    return place.name, known


def without_cap(job: Job, market: Market, policy: Policy, pool: str) -> Spread:
    """Return how a policy would do over drawn futures if the job's money did not end."""
    free, place = dataclasses.replace(job, max_cost_usd=None), market.pool(pool)
    neighbours = tuple(other for other in market.pools if other is not place)
    drawn, start = scenarios(free, place, neighbours, paths=FUTURES)
    acting, setting = compare.guarded(_steady(policy), free), compare.setting_for(market, place, None)
    return spread([_one(free, future, acting, start, setting) for future in drawn])


def recent(pool: Pool, job: Job) -> Pool:
    """Return the end of a pool that holds the recent starts and their deadlines."""
    slots = math.ceil((RECENT_HOURS + job.deadline_hours) / pool.slot_hours)
    return pool.window(max(0, len(pool) - slots), len(pool))


def _ranked(
    job: Job, market: Market, policy: Policy, places: Sequence[Pool]
) -> tuple[tuple[str, float], ...]:
    """Return pools with the median bill of some recent starts, the best one first."""
    bills = {place.name: _from_history(job, market, place, policy, POOL_STARTS) for place in places}
    ranked = sorted(bills, key=lambda name: _value(bills[name]))
    return tuple((name, float(np.median([run.cost_usd for run in bills[name]]))) for name in ranked)


def _value(runs: Sequence[Run]) -> tuple[float, float]:
    """Rank by being in time, then by utility."""
    return -float(np.mean([run.on_time for run in runs])), -float(
        np.median([run.utility_usd for run in runs])
    )


def _from_history(job: Job, market: Market, place: Pool, policy: Policy, count: int) -> list[Run]:
    # Starts lie in the recent part, but what is known at each is the whole past before it.
    first = len(place) - len(recent(place, job))
    starts = [first + start for start in Starts(count).of(job, recent(place, job))]
    setting = compare.setting_for(market, place, None)
    return compare.run_many(job, place, policy, starts, name=label(policy), setting=setting)


def _outlook(
    job: Job, market: Market, place: Pool, policy: Policy, drawn: Sequence[Pool], start: int
) -> Outlook:
    setting = compare.setting_for(market, place, None)
    acting = compare.guarded(_steady(policy), job)
    runs = [_one(job, future, acting, start, setting) for future in drawn]
    return Outlook(
        label(policy), spread(runs), spread(_from_history(job, market, place, policy, RECENT_STARTS))
    )


def _steady(policy: Policy) -> Policy:
    """Return a policy that learns up to the start only, so that all futures share what was learned."""
    if isinstance(policy, StochasticHorizon):
        return dataclasses.replace(policy, refit_hours=1e6)
    return policy


def _one(job: Job, future: Pool, acting: Policy, start: int, setting: Setting) -> Run:
    if batch.can_compile(acting):
        return batch.run_many(job, future, acting, [start], setting=setting)[0]
    return plain.run(job, future, acting, start=start, setting=setting)


def _clairvoyant(
    job: Job, place: Pool, drawn: Sequence[Pool], start: int, tell: Callable[[int], None]
) -> tuple[Outlook, float | None]:
    """Return what one who knows the future would pay, and what the best plan could gain on average."""
    runs, spares, window = list[Run](), list[float](), recent(place, job)
    starts = Starts(RECENT_STARTS).of(job, window)
    among = len(drawn) + len(starts)
    for future in drawn:
        (run,), spare = compare.run_yardstick(job, future, [start], among=among)
        runs, spares = [*runs, run], [*spares, *spare]
        tell(len(runs))
    past, _ = compare.run_yardstick(
        job, window, starts, among=among, tell=lambda done: tell(len(drawn) + done)
    )
    spared = float(np.mean(spares)) if spares else None
    return Outlook(CLAIRVOYANT, spread(runs), spread(past)), spared


def spread(runs: Sequence[Run]) -> Spread:
    """Sum up runs."""
    return Spread(
        runs=len(runs),
        cost_usd=_range([run.cost_usd for run in runs]),
        finish_hours=_range([run.finish_hours for run in runs]),
        on_time_share=float(np.mean([run.on_time for run in runs])),
        mean_cost_usd=float(np.mean([run.cost_usd for run in runs])),
        mean_spot_gpu_hours=float(np.mean([run.spot_gpu_hours for run in runs])),
        mean_on_demand_gpu_hours=float(np.mean([run.on_demand_gpu_hours for run in runs])),
        mean_preemptions=float(np.mean([run.preemptions for run in runs])),
    )


def _range(values: Sequence[float]) -> Range:
    # "nearest" keeps an unfinished run's infinity from spoiling its finite neighbours.
    return Range(*(float(value) for value in np.percentile(values, (10, 50, 90), method="nearest")))


def _first(job: Job, policy: Policy, future: Pool, start: int, setting: Setting) -> Allocation:
    now = plain.played(future, start, setting).at(0)
    view = look(job, now, JobState(), 0, future.slot_hours)
    return compare.guarded(_steady(policy), job).decide(view)


def _held(
    job: Job, policy: Policy, drawn: Sequence[Pool], start: int, setting: Setting
) -> tuple[HeldAt, ...]:
    """Return the mean GPUs held in each slot until the deadline."""
    acting = compare.guarded(_steady(policy), job)
    slots = math.ceil(job.deadline_hours / drawn[0].slot_hours - 1e-6)
    held = np.zeros((2, slots))
    for future in drawn:
        ready = batch.prepare(acting, job, future, start, setting)
        for record in plain.run(job, future, ready, start=start, setting=setting).slots[:slots]:
            share = record.lived.stretch.held_hours / future.slot_hours
            held[:, record.slot] += np.array([record.spot_gpus, record.on_demand_gpus]) * share
    held /= len(drawn)
    return tuple(
        HeldAt(slot * drawn[0].slot_hours, float(held[0, slot]), float(held[1, slot]))
        for slot in range(slots)
    )


def _without_checkpoints(
    job: Job, policy: Policy, drawn: Sequence[Pool], start: int, setting: Setting, chosen: Outlook
) -> tuple[str, ...]:
    """Say first what it means that a job has no checkpoints, and what one would save."""
    if not math.isinf(job.checkpoint_hours):
        return ()
    safer = dataclasses.replace(job, checkpoint_hours=TRIED_CHECKPOINT_HOURS)
    acting = compare.guarded(_steady(policy), safer)
    kept = spread([_one(safer, future, acting, start, setting) for future in drawn])
    mean, saved = chosen.futures.mean_cost_usd, chosen.futures.mean_cost_usd - kept.mean_cost_usd
    less = f"save {saved:.2f} USD of {mean:.2f} USD" if saved > 0 else "save nothing"
    return (
        "the job has no checkpoints, for its file has no 'checkpoint:': whenever a worker is lost, or the "
        "workers change, all work since the attempt began is lost; a checkpoint every "
        f"{TRIED_CHECKPOINT_HOURS * 60:g} min would on average {less}, with {kept.on_time_share:.0%} of the "
        f"drawn futures in time instead of {chosen.futures.on_time_share:.0%}",
        "the clairvoyant's figure is a bound that this job cannot reach: it is worked out as if work could "
        "be saved just before each loss",
    )


def _assumptions(
    job: Job, market: Market, place: Pool, neighbours: Sequence[Pool], chosen: Outlook
) -> tuple[str, ...]:
    window = recent(place, job)
    words = [
        f"futures go on as pool {place.name!r} and {len(neighbours)} other pools did up to "
        f"{place.end:%Y-%m-%d %H:%M} UTC: {place.hours / 24:.3g} days of own history, "
        f"{sum(other.hours for other in neighbours) / 24:.3g} days of others'",
        f"the {chosen.history.runs} recent starts lie in the last {window.hours / 24:.3g} days and overlap: "
        f"they are worth about {max(1, int(window.hours / job.deadline_hours))} independent ones",
        f"after workers are added nothing is done for {job.restart_hours * 60:g} min, and it is paid",
        "on-demand GPUs can always be had at the last price seen",
    ]
    if job.hard:
        words.append("the deadline is hard: every policy runs behind the deadline guard")
    words.append(AFTER[job.after_deadline])
    if 0 < job.checkpoint_hours < math.inf:
        words.append(
            f"a loss of spot takes back the work since the last checkpoint, "
            f"at most {job.checkpoint_hours * 60:g} min of it"
        )
    return (*words, *market.assumptions)
