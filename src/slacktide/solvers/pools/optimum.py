"""The clairvoyant over pools: the best plan for a job that may move between pools whose quotes are all known.

The sweep computes what is still to be paid from every state; the plan is read off forwards, by the true
slack, and run through `physics`. If all losses of slack have a common step, nothing is rounded and the plan
is the best there is; otherwise it is a real plan that may be slightly worse. As in one pool it leaves out, in
the job's favour, what forced losses cost in work, the maximum cost, and that on demand may be out of stock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable, compiled
from slacktide.core.errors import InputError, shown
from slacktide.core.quotes import Quote
from slacktide.core.types import FINISH_FAST, Job, JobState
from slacktide.market.base import Pool
from slacktide.physics import progress
from slacktide.physics.ledger import live
from slacktide.physics.tariff import Meter, tariff_of
from slacktide.solvers.pools.board import at_deadline, lay_out
from slacktide.solvers.pools.sweep import NEVER_USD, Board, Quotes, step_back, sweep, value_at

LATE_SLOTS = 2  # how many more quotes are read after the slots in which late work is done


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """Which pool to be in and what to hold in each slot, what that costs, and when the job is done."""

    pools: Ints  # by slot, the number of the pool
    spot_gpus: Ints
    on_demand_gpus: Ints
    cost_usd: float
    utility_usd: float
    finish_hours: float
    move_usd: float
    moves: int
    least_usd: float
    """What the sweep promised for the cost, less what the result is worth where the deadline is soft."""


def quotes_of(pools: Sequence[Pool], start: int, slots: int) -> Quotes:
    """Return what all pools quote from a slot of the first one on, on its clock.

    Before a pool's series it offers nothing; after it only on demand, at the last price.
    """
    columns = [_column(pool, pools[0], start, slots) for pool in pools]
    spot_usd, on_demand_usd, spot_gpus = (np.stack(parts, axis=1) for parts in zip(*columns, strict=True))
    return Quotes(spot_usd, on_demand_usd, spot_gpus.astype(np.int64))


def _column(pool: Pool, own: Pool, start: int, slots: int) -> tuple[Floats, Floats, Floats]:
    if abs(pool.slot_hours / own.slot_hours - 1.0) > 1e-6:
        raise InputError(
            f"pools {shown(own.name)} and {shown(pool.name)} must have slots of one length, got "
            f"{own.slot_hours:g} h and {pool.slot_hours:g} h; give the market one slot length"
        )
    ahead = (own.time(start) - pool.start) / timedelta(hours=own.slot_hours)
    at = round(ahead) + np.arange(slots)
    inside = np.clip(at, 0, len(pool) - 1)
    known = (at >= 0) & (at < len(pool))
    on_demand = np.where(at >= 0, pool.on_demand_usd_per_gpu_hour[inside], NEVER_USD)
    return pool.spot_usd_per_gpu_hour[inside], on_demand, np.where(known, pool.spot_gpus[inside], 0)


def optimum(
    jobs: Sequence[Job], pools: Sequence[Pool], start: int, move_hours: Floats, move_usd: Floats
) -> Schedule:
    """Return the best plan for a job from a slot of the first pool on; `jobs[r]` is the job in pool r."""
    board = lay_out(jobs, pools[0].slot_hours, move_hours, move_usd)
    late = 0 if board.hard else math.ceil(_late_hours(board) / board.slot_hours) + LATE_SLOTS
    quotes = quotes_of(pools, start, board.slots + late)
    end = at_deadline(board, quotes)
    every = max(1, math.ceil(math.sqrt(board.slots)))
    kept = np.empty((math.ceil(board.slots / every), *end.shape))
    first = compiled(sweep)(board, quotes, end, kept, every)
    least = float(first[0, 0, 0, 0])
    plan = _plan(board, quotes, kept, every) if least < 0.5 * NEVER_USD else []
    return _lived(jobs, board, quotes, plan, least, move_hours, move_usd)


def _late_hours(board: Board) -> float:
    """Return how many hours the work may take from the deadline on, at the most."""
    lowest = board.most_hours - (board.points - 1) * board.cell_hours
    slowest = min(float(rates.max()) for rates in board.rate)
    return max(0.0, -lowest) * board.fastest_rate / slowest + float(board.ahead_hours.max())


@compilable
def cost_into(
    board: Board, quotes: Quotes, slot: int, pool: int, holding: int, pause: int, slack: float, later: Floats
) -> float:
    """Return the cost from a slot on with one holding, from one true slack; `lower_to` does a whole row."""
    hourly = (
        quotes.spot_usd[slot, pool] * board.spot[holding]
        + quotes.on_demand_usd[slot, pool] * board.on_demand[holding]
    )
    rate, wait, begin = board.rate[pool, holding], board.ahead_hours[pause], slot * board.slot_hours
    left = board.deadline_hours - begin
    window = min(board.slot_hours, left) if board.hard else board.slot_hours
    held = wait + max(0.0, left - slack) * board.fastest_rate / rate
    if held <= window + 1e-9:
        cost = hourly * (board.slot_hours if board.whole_slots else held)
        return float(cost - value_at(board, begin + held))
    productive = max(0.0, board.slot_hours - wait)
    after = slack - (board.slot_hours - productive * rate / board.fastest_rate)
    return float(hourly * board.slot_hours + read(board, later[pool, holding, board.after[pause]], after))


@compilable
def read(board: Board, row: Floats, slack: float) -> float:
    """Return the value at a slack, between points if need be."""
    position = (board.most_hours - slack) / board.cell_hours
    near = int(np.floor(position + 1e-6))
    if near < 0:
        return float(row[0])
    part = position - near
    if near >= board.points or (part > 1e-6 and near + 1 >= board.points):
        return NEVER_USD
    if part <= 1e-6:
        return float(row[near])
    return float(row[near] + part * (row[near + 1] - row[near]))


@compilable
def choose(
    board: Board, quotes: Quotes, slot: int, pool: int, holding: int, left: int, slack: float, fresh: bool,
    later: Floats,
) -> tuple[int, int, int]:  # fmt: skip
    """Return the pool, holding and pause that are best from a state in a slot; holding 0 waits.

    `holding` is what was held before the market took any of it back.
    """
    best = read(board, later[pool, 0, 0], slack - board.slot_hours)
    found = (pool, 0, 0)
    for target in range(len(board.rate)):
        for goal in range(1, len(board.spot)):
            if board.rate[target, goal] <= 0.0 or board.spot[goal] > quotes.spot_gpus[slot, target]:
                continue
            pause = board.start[target if fresh else pool, target]
            fee = 0.0 if fresh else board.move_usd[pool, target]
            if target == pool and holding > 0:
                lets_go = board.spot[goal] <= board.spot[holding]
                lets_go = lets_go and board.on_demand[goal] <= board.on_demand[holding]
                if goal == holding:
                    pause = board.stay[left]
                elif lets_go and board.shrink[pool, left] >= 0:
                    pause = board.shrink[pool, left]
            cost = fee + cost_into(board, quotes, slot, target, goal, pause, slack, later)
            if cost < best:
                best, found = cost, (target, goal, pause)
    return found


def _plan(board: Board, quotes: Quotes, kept: Floats, every: int) -> list[tuple[int, int]]:
    """Return the best plan: pool and holding by slot, until the work is done or the deadline comes."""
    back, best = compiled(step_back), compiled(choose)
    plan: list[tuple[int, int]] = []
    pool = holding = left = 0
    slack, fresh = board.most_hours, True
    inside: list[Floats] = []
    for slot in range(board.slots):
        if slot % every == 0:
            inside = _segment(back, board, quotes, kept, every, slot)
        pool, holding, pause = best(
            board, quotes, slot, pool, holding, left, slack, fresh, inside[slot % every]
        )
        plan.append((pool, holding))
        wait = board.ahead_hours[pause] if holding else board.slot_hours
        rate = board.rate[pool, holding] if holding else 0.0
        productive = max(0.0, board.slot_hours - wait)
        work = (board.deadline_hours - slot * board.slot_hours - slack) * board.fastest_rate
        if holding and productive * rate >= work - 1e-9:
            break
        left = int(board.after[pause]) if holding else 0
        slack -= board.slot_hours - productive * rate / board.fastest_rate
        fresh = fresh and productive * rate <= 0.0
    return plan


def _segment(back: object, board: Board, quotes: Quotes, kept: Floats, every: int, slot: int) -> list[Floats]:
    """Return the values after each of `every` slots from `slot` on, computed again from those kept."""
    assert callable(back)
    end = min(slot + every, board.slots)
    later = kept[slot // every] if end == slot + every else at_deadline(board, quotes)
    rows = [later]
    for at in range(end - 1, slot, -1):
        now = np.full_like(later, NEVER_USD)
        back(board, quotes, at, later, now)
        rows.append(now)
        later = now
    return rows[::-1]


def _lived(
    jobs: Sequence[Job],
    board: Board,
    quotes: Quotes,
    plan: Sequence[tuple[int, int]],
    least: float,
    move_hours: Floats,
    move_usd: Floats,
) -> Schedule:
    """Run a plan through physics; after it, or without one, the fastest on-demand width in the best pool."""
    free = [progress.terms(job, move_hours=move_hours[:, at]) for at, job in enumerate(jobs)]
    terms = [one._replace(checkpoint_hours=0.0, after_deadline=FINISH_FAST) for one in free]
    lives = [_live(jobs[0], terms, board, quotes, plan, move_usd, rescue) for rescue in range(len(jobs))]
    best = max(lives, key=lambda one: (one[0].finish_hours < math.inf, _worth(jobs[0], one[0])))
    state, held, moved = best
    places, spots, on_demands = np.array(held, dtype=np.int64).T
    return Schedule(
        pools=places,
        spot_gpus=spots,
        on_demand_gpus=on_demands,
        cost_usd=float(state.cost_usd),
        utility_usd=float(jobs[0].value_at(state.finish_hours) - state.cost_usd),
        finish_hours=float(state.finish_hours),
        move_usd=sum(moved),
        moves=len(moved),
        least_usd=least,
    )


def _worth(job: Job, state: JobState) -> float:
    return job.value_at(state.finish_hours) - state.cost_usd


def _live(
    job: Job,
    terms: Sequence[progress.Terms],
    board: Board,
    quotes: Quotes,
    plan: Sequence[tuple[int, int]],
    move_usd: Floats,
    rescue: int,
) -> tuple[JobState, list[tuple[int, int, int]], list[float]]:
    """Run a plan, then on demand in pool `rescue`; return the end, what was held, and each move's cost."""
    tariff = tariff_of(job.billing, board.slot_hours)
    state, held, moved = JobState(pool=plan[0][0] if plan else rescue), list[tuple[int, int, int]](), []
    while not state.ended:
        slot = len(held)
        at = min(slot, len(quotes.spot_gpus) - 1)
        pool, holding = plan[slot] if slot < len(plan) else (rescue, -1)
        spot = int(board.spot[holding]) if holding >= 0 else 0
        on_demand = int(board.on_demand[holding]) if holding >= 0 else terms[rescue].fastest
        left = progress.lose(terms[state.pool], state, int(quotes.spot_gpus[at, state.pool]))
        fee = 0.0
        if pool != left.pool and spot + on_demand > 0 and left.progress_gpu_hours > 0.0:
            fee = float(move_usd[left.pool, pool])
            moved.append(fee)
        quote = Quote(
            float(quotes.spot_usd[at, pool]),
            float(quotes.on_demand_usd[at, pool]),
            int(quotes.spot_gpus[at, pool]),
        )
        state = live(
            terms[pool], tariff, math.inf, left, Meter(), slot, slot * board.slot_hours, board.slot_hours,
            quote, pool, spot, on_demand, fee,
        ).state  # fmt: skip
        held.append((pool, spot, on_demand))
    return state, held, moved
