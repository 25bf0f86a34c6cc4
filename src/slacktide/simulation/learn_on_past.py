"""Training of the choice behind `policy: auto` on past markets: a policy is drawn per job, all are replayed.

`select` does this for a stream of jobs; `replay` says what each policy would have earned from one job. The
market's path did not depend on the job, so each policy can be run on it again, with the forecasts that
were possible at the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError
from slacktide.core.types import TIME_TOLERANCE_HOURS, Job
from slacktide.market.base import Market, Pool
from slacktide.market.forecast.base import forecast_table
from slacktide.market.forecast.persistence import DEFAULT_HORIZON
from slacktide.physics import progress as physics
from slacktide.policies.base import Context, RulePolicy
from slacktide.policies.selection.hedge import Hedge
from slacktide.policies.selection.state_file import LearnedStateFile
from slacktide.policies.view import Policy
from slacktide.simulation import batch, plain
from slacktide.simulation.compare import Progress, Starts
from slacktide.simulation.parallel.base import HERE, Spread
from slacktide.simulation.plain import guarded
from slacktide.simulation.playback import USUAL, Setting


class Task(NamedTuple):
    """A job of a stream: where and when it starts."""

    job: Job
    pool: Pool
    start: int


class Selected(NamedTuple):
    """One job of a stream: the policy drawn for it, the best policy for it, and what is known after it."""

    job: str
    drawn: str
    utility_usd: float
    share: float  # the utility scaled to [0, 1]
    best: str  # the arm that would have earned the most from this job
    best_utility_usd: float
    leader: str  # the arm with the greatest weight after this job
    leader_weight: float
    regret: float  # expected regret so far against the best fixed arm, in scaled utility
    bound: float


def random_tasks(
    job: Job, market: Market, count: int, *, pool: str | None = None, seed: int = 0
) -> list[Task]:
    """Return a stream of one job from random starts, in random pools of a market."""
    if count < 1:
        raise InputError(f"jobs must be >= 1, got {count}")
    pools = market.pools if pool is None else (market.pool(pool),)
    last = [Starts(count=2).of(job, place)[-1] for place in pools]
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(pools), size=count)
    return [Task(job, pools[place], int(rng.integers(last[place] + 1))) for place in chosen]


def select(
    tasks: Iterable[Task],
    policies: Mapping[str, Policy],
    state: Hedge | LearnedStateFile,
    *,
    setting: Callable[[Pool], Setting] = lambda _: USUAL,
    seed: int = 0,
    name: str = "",
    progress: Progress | None = None,
    spread: Spread = HERE,
) -> list[Selected]:
    """Run a stream of jobs: for each, draw an arm, replay the market with all of them, and learn.

    The result of a replay does not depend on what was learned, so `spread` may replay ahead of time.
    `policies` are the arms in the learner's order. The learner knows a job by `name` (or else its own name),
    the seed and its number.
    """
    todo, done = list(tasks), list[Selected]()
    for number, replayed in enumerate(_replays(todo, policies, setting, spread)):
        job = f"{name or todo[number].job.name}-{seed}-{number}"
        with state.changing() as hedge:
            if hedge.arms != tuple(policies):
                raise InputError("policies must be the learner's arms in their order, got others")
            # The draw depends on the number, not on the name, so that a repeated stream draws the same arms.
            drawn = hedge.begin(job, key=str(number), seed=seed)
            hedge.end(job, replayed.shares)
            done.append(_record(job, drawn, replayed, hedge))
        if progress is not None:
            progress(number + 1, len(todo))
    return done


class Replays(NamedTuple):
    """What all replays of a stream share."""

    policies: Mapping[str, Policy]
    jobs: tuple[Job, ...]
    settings: tuple[tuple[Pool, Setting], ...]


def _replays(
    tasks: Sequence[Task], policies: Mapping[str, Policy], setting: Callable[[Pool], Setting], spread: Spread
) -> Iterator[Replayed]:
    """Yield what every policy would have earned from each job, in the order of the jobs."""
    # By identity: comparing pools by their prices is slow, and a job given twice is sent to workers once.
    pools = {id(task.pool): task.pool for task in tasks}
    jobs = {id(task.job): task.job for task in tasks}
    shared = Replays(policies, tuple(jobs.values()), tuple((pool, setting(pool)) for pool in pools.values()))
    nth_pool = {key: number for number, key in enumerate(pools)}
    nth_job = {key: number for number, key in enumerate(jobs)}
    todo = [(nth_job[id(task.job)], nth_pool[id(task.pool)], task.start) for task in tasks]
    return spread.each(do_replay, shared, todo)


def do_replay(shared: Replays, task: tuple[int, int, int]) -> Replayed:
    job, place, start = task
    pool, setting = shared.settings[place]
    return replay(shared.jobs[job], pool, start, shared.policies, setting)


def _record(job: str, drawn: str, replayed: Replayed, hedge: Hedge) -> Selected:
    row, best = hedge.arms.index(drawn), int(np.argmax(replayed.utility_usd))
    regret = hedge.regret()
    return Selected(
        job=job,
        drawn=drawn,
        utility_usd=float(replayed.utility_usd[row]),
        share=float(replayed.shares[row]),
        best=hedge.arms[best],
        best_utility_usd=float(replayed.utility_usd[best]),
        leader=hedge.leader,
        leader_weight=float(hedge.weights.max()),
        regret=regret.expected,
        bound=regret.bound,
    )


class Replayed(NamedTuple):
    """What each arm would have earned from one job, in the order of the arms."""

    utility_usd: Floats  # value less cost
    shares: Floats  # the same, scaled to [0, 1] between the least and the most that the job could bring


def replay(
    job: Job, pool: Pool, start: int, policies: Mapping[str, Policy], setting: Setting = USUAL
) -> Replayed:
    """Run every policy on a job's market path: compiled if possible, guarded if the deadline is hard."""
    plain.check_start(job, pool, start)
    terms, true = physics.terms(job), physics.terms(setting.truth.at(start).of(job))
    context = Context(forecast_table(setting.forecaster, pool, DEFAULT_HORIZON))
    bills = np.empty((len(policies), 2))
    for row, policy in enumerate(policies.values()):
        acting = batch.prepare(guarded(policy, job), job, pool, start, setting)
        if batch.can_compile(acting, pool) and isinstance(acting, RulePolicy):
            bills[row] = batch.run_rule(job, terms, true, pool, acting, context, [start])[0, :2]
        else:
            run = plain.run(job, pool, acting, start=start, setting=setting)
            bills[row] = run.cost_usd, run.finish_hours
    cost, finish = bills.T
    utility = np.array([job.value_at(hours) for hours in finish]) - cost
    return Replayed(utility, _shares(job, pool, start, utility, finish))


def bounds_usd(job: Job, pool: Pool, start: int) -> tuple[float, float]:
    """Return the least and the most that a job on this path can bring.

    The least: to pay for all GPUs on demand, at the highest price on the path, until the result is worthless,
    and then to have no result. The most: to have the result in time and pay nothing.
    """
    hours = job.deadline_hours if job.hard else float(job.worthless_after_hours or job.deadline_hours)
    slots = math.ceil(hours / pool.slot_hours - TIME_TOLERANCE_HOURS)
    highest_usd = float(pool.on_demand_usd_per_gpu_hour[start : start + slots].max())
    return -highest_usd * job.max_gpus * hours, job.value_usd


def _shares(job: Job, pool: Pool, start: int, utility: Floats, finish: Floats) -> Floats:
    least, most = bounds_usd(job, pool, start)
    if most <= least:  # free GPUs and a worthless result: all arms are the same
        return np.ones(len(utility))
    # Clipped: a job that runs on when worthless, or on spot above the on-demand price, can earn less.
    shares = np.clip((utility - least) / (most - least), 0.0, 1.0)
    if job.hard:
        # A missed hard deadline is a failure, however cheap it was.
        shares[finish > job.deadline_hours + TIME_TOLERANCE_HOURS] = 0.0
    return np.asarray(shares)
