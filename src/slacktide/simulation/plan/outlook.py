"""What a job will probably cost and when it will be done: from simulated futures and from recent starts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.types import Allocation, Job, JobState
from slacktide.market.base import Market, Pool
from slacktide.market.pools.statistics import stock_outs_said
from slacktide.policies.base import ForeseeingPolicy
from slacktide.policies.decision import decision_of
from slacktide.policies.view import Policy, look
from slacktide.results.plan import HeldAt, JobPlan, Outlook, Range, Spread
from slacktide.results.run import CLAIRVOYANT, Run
from slacktide.results.runs import column
from slacktide.simulation import batch, compare, plain
from slacktide.simulation.compare import Progress, Starts, label
from slacktide.simulation.plain import Setting
from slacktide.simulation.plan.curves import against_deadline, against_width
from slacktide.simulation.plan.scenarios import scenarios
from slacktide.simulation.plan.wrong_work import if_work_is_wrong

RECENT_HOURS = 14 * 24.0
"""How far back recent starts reach."""
RECENT_STARTS, FEWEST_STARTS = 24, 6
RECENT_EFFORT = 7e8
"""What solving for all recent starts together may take, in values worked out: a second or two of CPU.
A policy that takes more is run from fewer of them, and from FEWEST_STARTS at the least."""
FUTURES = 50
"""Futures that are drawn from the model."""
TRIED_CHECKPOINT_HOURS = 10 / 60
"""The interval that is tried to say what a checkpoint would save a job that has none."""
AFTER = {
    "stop": "a job that is not done at its deadline checkpoints and stops (after_deadline: stop)",
    "finish-cheaply": "work left at the deadline runs on spot while there is some, otherwise on demand on "
    "the narrowest width (after_deadline: finish-cheaply)",
    "finish-fast": "work left at the deadline runs on demand, as fast as possible (after_deadline: "
    "finish-fast)",
}
"""What becomes of work that is left at the deadline, as a plan says it."""
SHOWN_FUTURES = 12
"""Futures that are run slot by slot, to show the GPUs held over time."""


class Begin(NamedTuple):
    """Where a job would begin: its pool, at which of its slots, and what the market's past is there."""

    market: Market
    """The whole record."""
    past: Market
    """What of it is known in the slot in which the job begins: that slot's quote is the last."""
    pool: str
    slot: int

    @classmethod
    def at(cls, market: Market, pool: str, slot: int) -> Begin:
        """Cut a market off after the slot in which a job begins."""
        now = market.pool(pool).time(slot)
        pools = [
            (one, math.floor((now - one.start).total_seconds() / 3600 / one.slot_hours + 1e-6))
            for one in market.pools
        ]
        known = tuple(one.window(0, min(at + 1, len(one))) for one, at in pools if at >= 0)
        return cls(market, Market(known, market.source, market.assumptions, market.moves), pool, slot)

    @property
    def place(self) -> Pool:
        """The pool's past."""
        return self.past.pool(self.pool)

    @property
    def neighbours(self) -> tuple[Pool, ...]:
        """The other pools' past."""
        return tuple(other for other in self.past.pools if other.name != self.pool)

    def reaches_back(self, job: Job) -> bool:
        """Whether the past covers the job's deadline at all, so that there are recent starts in it."""
        return plain.last_start(job, self.place) >= 0

    def recent(self, job: Job) -> Begin:
        """Return where recent starts are looked for: in the past, or in the whole record."""
        return self if self.reaches_back(job) else Begin(self.market, self.market, self.pool, self.slot)


def look_ahead(
    job: Job,
    begin: Begin,
    policies: Sequence[Policy],
    *,
    pools: Sequence[tuple[str, float]] = (),
    progress: Progress | None = None,
) -> JobPlan:
    """Plan a job with the first of these policies, the others beside it, from where it would begin."""
    report = progress or (lambda done, total: None)
    steps = len(policies) + 3
    solved = FUTURES + RECENT_STARTS
    drawn, start = scenarios(job, begin.place, begin.neighbours, paths=FUTURES)
    report(1, steps)
    outlooks, chosen, needing = list[Outlook](), list[Policy](), 0.0
    setting = Setting(neighbours=begin.neighbours)
    for done, policy in enumerate(policies):
        acting = compare.guarded(policy, job)
        ready = batch.prepare_together(acting, job, drawn, start, setting)
        chosen = chosen or ready
        runs = batch.run_ready(job, drawn, ready, start, setting=setting)
        if not outlooks:
            needing = float(np.mean(column(runs, "on_demand_gpu_hours") > 0.0))
        outlooks.append(Outlook(label(policy), spread(runs), spread(_from_history(job, begin, policy))))
        report(done + 2, steps)
    # The clairvoyant of a wide job takes longest, and is told by its starts.
    known, spare = _clairvoyant(
        job, begin, drawn, start, lambda done: report((steps - 2) * solved + done, steps * solved)
    )
    outlooks.append(known)
    where = job, begin.place, begin.neighbours, policies[0]
    report(steps, steps)
    return JobPlan(
        job=job,
        market=begin.market.source,
        pool=begin.pool,
        policy=label(policies[0]),
        outlooks=tuple(outlooks),
        pools=tuple(pools) or ((begin.pool, outlooks[0].history.cost_usd.p50),),
        first=_first(job, chosen[0], drawn[0], start, setting),
        gpus=_held(job, chosen[:SHOWN_FUTURES], drawn, start, setting),
        assumptions=(
            *_without_checkpoints(job, policies[0], drawn, start, setting, outlooks[0]),
            *_assumptions(job, begin, outlooks[0], needing),
        ),
        clairvoyant_spare_usd=spare,
        begin_slot=begin.slot,
        begin_utc=begin.place.time(begin.slot),
        by_deadline=against_deadline(*where),
        by_width=against_width(*where),
        wrong_work=if_work_is_wrong(job, drawn, chosen, start, setting),
    )


def best_case(job: Job, begin: Begin) -> Outlook:
    """Return what the clairvoyant would pay from where a job would begin."""
    drawn, start = scenarios(job, begin.place, begin.neighbours, paths=FUTURES)
    known, _ = _clairvoyant(job, begin, drawn, start, lambda done: None)
    return known


def without_cap(job: Job, begin: Begin, policy: Policy) -> Spread:
    """Return how a policy would do over simulated futures if the job's money did not run out."""
    free = dataclasses.replace(job, max_cost_usd=None)
    drawn, start = scenarios(free, begin.place, begin.neighbours, paths=FUTURES)
    setting = Setting(neighbours=begin.neighbours)
    return spread(batch.run_futures(free, drawn, compare.guarded(policy, free), start, setting=setting))


def recent(pool: Pool, job: Job) -> Pool:
    """Return the end of a pool that holds the recent starts and their deadlines."""
    slots = math.ceil((RECENT_HOURS + job.deadline_hours) / pool.slot_hours)
    return pool.window(max(0, len(pool) - slots), len(pool))


def recent_starts(job: Job, policy: Policy, slot_hours: float) -> int:
    """Return from how many recent starts a policy is run: fewer, where each of them must be solved anew."""
    inner = batch.innermost(policy)
    if not isinstance(inner, ForeseeingPolicy):
        return RECENT_STARTS
    affordable = int(RECENT_EFFORT / inner.effort(job, slot_hours))
    return min(RECENT_STARTS, max(FEWEST_STARTS, affordable))


def _from_history(job: Job, begin: Begin, policy: Policy) -> Sequence[Run]:
    # Starts lie in the recent part, but what is known at each is the whole past before it.
    where = begin.recent(job)
    place = where.place
    first = len(place) - len(recent(place, job))
    count = recent_starts(job, policy, place.slot_hours)
    starts = [first + start for start in Starts(count).of(job, recent(place, job))]
    setting = Setting(neighbours=where.neighbours)
    acting = compare.guarded(policy, job)
    # Drawn futures have its machine code loaded anyway.
    if batch.can_compile(acting, place):
        return batch.run_many(job, place, acting, starts, name=label(policy), setting=setting)
    return compare.run_many(job, place, policy, starts, name=label(policy), setting=setting)


def _clairvoyant(
    job: Job, begin: Begin, drawn: Sequence[Pool], start: int, tell: Callable[[int], None]
) -> tuple[Outlook, float | None]:
    """Return what the clairvoyant would pay, and what the best plan could gain on average."""
    runs, spares, window = list[Run](), list[float](), recent(begin.recent(job).place, job)
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
    costs = column(runs, "cost_usd")
    return Spread(
        runs=len(runs),
        cost_usd=foretold(costs),
        finish_hours=foretold(column(runs, "finish_hours")),
        on_time_share=float(np.mean(column(runs, "on_time"))),
        mean_cost_usd=float(np.mean(costs)),
        mean_spot_gpu_hours=float(np.mean(column(runs, "spot_gpu_hours"))),
        mean_on_demand_gpu_hours=float(np.mean(column(runs, "on_demand_gpu_hours"))),
        mean_preemptions=float(np.mean(column(runs, "preemptions"))),
        mean_cost_error_usd=standard_error(costs),
    )


def standard_error(values: Floats) -> float:
    """Return the standard error of the mean of values, as if they were independent."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def foretold(values: Floats) -> Range:
    """Return between which values one more of the same kind falls below in 10, 50 and 90 % of cases.

    One more value is equally likely to fall into any of the n + 1 gaps between n of them, so its percentile q
    is at place q (n + 1) of the sorted ones; the percentiles of the sample itself lie closer together (77 %
    of what comes lies between the p10 and the p90 of fifty). A place between two is rounded, so that
    an unfinished run's infinity does not spoil its finite neighbours.
    """
    ordered = np.sort(values)
    places = (min(max(round(share * (len(ordered) + 1)), 1), len(ordered)) for share in (0.1, 0.5, 0.9))
    return Range(*(float(ordered[place - 1]) for place in places))


def _first(job: Job, ready: Policy, future: Pool, start: int, setting: Setting) -> Allocation:
    now = plain.played(future, start, setting).at(0)
    return decision_of(ready, look(job, now, JobState(), 0, future.slot_hours))


def _held(
    job: Job, ready: Sequence[Policy], drawn: Sequence[Pool], start: int, setting: Setting
) -> tuple[HeldAt, ...]:
    """Return the mean GPUs held in each slot until the deadline, in as many futures as there are policies."""
    slots = math.ceil(job.deadline_hours / drawn[0].slot_hours - 1e-6)
    held = np.zeros((2, slots))
    for future, acting in zip(drawn, ready, strict=False):
        for record in plain.run(job, future, acting, start=start, setting=setting).slots[:slots]:
            share = record.lived.stretch.held_hours / future.slot_hours
            held[:, record.slot] += np.array([record.spot_gpus, record.on_demand_gpus]) * share
    held /= len(ready)
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
    kept = spread(batch.run_futures(safer, drawn, compare.guarded(policy, safer), start, setting=setting))
    mean, saved = chosen.futures.mean_cost_usd, chosen.futures.mean_cost_usd - kept.mean_cost_usd
    before, after = f"{chosen.futures.on_time_share:.0%}", f"{kept.on_time_share:.0%}"
    on_time = f"{after} of the simulated futures on time" + (f" instead of {before}" * (after != before))
    less = f"save {saved:.2f} USD of {mean:.2f} USD" if saved > 0 else "save nothing"
    return (
        "the job has no checkpoints, because its file has no 'checkpoint:': when a worker is lost, or the "
        "workers change, all work since the attempt began is lost; a checkpoint every "
        f"{TRIED_CHECKPOINT_HOURS * 60:g} min would on average {less}, with {on_time}",
        "the clairvoyant's figure is a bound that this job cannot reach: it is computed as if work could "
        "be saved just before each loss",
    )


def _assumptions(job: Job, begin: Begin, chosen: Outlook, needing: float) -> tuple[str, ...]:
    place, neighbours = begin.place, begin.neighbours
    window = recent(begin.recent(job).place, job)
    words = [
        _history(place, neighbours),
        _recent(chosen.history.runs, window.hours, job),
        f"after workers are added there is no progress for {job.restart_hours * 60:g} min, which is paid for",
        f"on-demand GPUs are always available, at the last price seen: {_ran_out(job, begin.place)}; "
        f"{_without_on_demand(needing)}",
    ]
    if not begin.reaches_back(job):
        words.append(
            "the market's record before the start is shorter than the deadline: the recent starts lie in the "
            "whole record, what comes after the start included"
        )
    if job.hard:
        words.append("the deadline is hard: every policy runs behind the deadline guard")
    after = AFTER[job.after_deadline]
    words.append(after.replace("checkpoints and ", "") if math.isinf(job.checkpoint_hours) else after)
    if 0 < job.checkpoint_hours < math.inf:
        words.append(
            f"a loss of spot takes back the work since the last checkpoint, "
            f"at most {job.checkpoint_hours * 60:g} min of it"
        )
    return (*words, *begin.market.assumptions)


def _ran_out(job: Job, place: Pool) -> str:
    """Say how often on demand was out of stock before the start, where that is recorded."""
    if place.on_demand_gpus is None:
        return "this market does not record when they ran out"
    told = stock_outs_said([(place, job.fastest_width)])
    return f"before the start there were {told}" if told else "before the start they never ran out"


def _without_on_demand(needing: float) -> str:
    """Say in how many futures a job depends on on-demand GPUs."""
    if needing == 0.0:
        return "in none of the simulated futures does the job need any"
    share = f"in {needing:.0%} of the simulated futures"
    return f"{share} the job needs some, and may be late if there are none then"


def _history(place: Pool, neighbours: Sequence[Pool]) -> str:
    """Say what drawn futures were learned from."""
    others = f"{len(neighbours)} other pool{'s' * (len(neighbours) > 1)}"
    pools = f"pool {place.name!r}" + (f" and {others}" if neighbours else "")
    more = f", {sum(other.hours for other in neighbours) / 24:.3g} days of the others'" if neighbours else ""
    return (
        f"futures go on as {pools} did up to {place.end:%Y-%m-%d %H:%M} UTC: "
        f"{place.hours / 24:.3g} days of its own history{more}"
    )


def _recent(runs: int, window_hours: float, job: Job) -> str:
    """Say where recent starts lie, and how many that share no slot tell as much: never more than these."""
    lie = f"the {runs} recent starts lie in the last {window_hours / 24:.3g} days"
    worth = max(1, min(runs, int(window_hours / job.deadline_hours)))
    if worth == runs:
        return f"{lie}, far enough apart to hardly overlap"
    independent = "one independent one" if worth == 1 else f"{worth} independent ones"
    return f"{lie} and overlap: they are worth about {independent}"
