"""Kernel of the market simulation: losses, orders and progress of a fleet's jobs; runs plain or compiled.

Nothing changes between two events: a slot's border, an arrival, the end of a job. `physics` computes what a
stretch does and `tariff` what it costs, both called by `ledger.live`. In each slot, in this order:

    take_back   pools take back the spot beyond their offer, from the job that added its spot last
    settle      wishes become orders: what is given up is free for others at once, within pool and quota
    next_end    t' = min(border, arrival, budget renewal, first end of a job under its orders)
    pass_time   every job lives through t' - t with what it is ordered to hold, and pays for it

`active` lists the jobs that have arrived and not ended, in the order of their submission; all other arrays
are by job and never move.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.allocators.prices.deadline_guarantees import is_hard
from slacktide.allocators.site.job_tables import JobTables, Kinds, PoolOffers, state_of, terms_of
from slacktide.core.arrays import Floats, Ints, empty_columns
from slacktide.core.compiled import compilable
from slacktide.core.quotes import Quote
from slacktide.physics.ledger import live
from slacktide.physics.progress import cut, finish_in, lose
from slacktide.physics.tariff import Meter, Tariff


class Orders(NamedTuple):
    """What each job is to hold from now on: [job]."""

    pool: Ints
    spot_gpus: Ints
    on_demand_gpus: Ints


class Sums(NamedTuple):
    """What became of each job so far: [job]."""

    finish_hours: Floats  # on the clock of the run; infinite while it is not done
    stopped: Ints  # 1 where it was stopped before its work was done
    on_demand_usd: Floats
    move_usd: Floats
    spot_gpu_hours: Floats
    on_demand_gpu_hours: Floats
    pause_gpu_hours: Floats
    held_hours: Floats
    losses: Ints  # how often the market took spot from it
    starts: Ints  # how often workers were added
    meter: Ints  # [job, 4]: what it has paid for in the present slot, where whole slots are billed

    @classmethod
    def empty(cls, jobs: int) -> Sums:
        """Return sums of jobs to which nothing has happened."""
        nothing_paid = np.full((jobs, 4), -1, dtype=np.int64)
        return empty_columns(cls, jobs)._replace(finish_hours=np.full(jobs, np.inf), meter=nothing_paid)


@compilable
def quote_of(offer: PoolOffers, pool: int) -> Quote:
    return Quote(
        offer.spot_usd[pool], offer.on_demand_usd[pool], offer.spot_gpus[pool], offer.on_demand_gpus[pool]
    )


@compilable
def take_back(
    active: Ints, kinds: Kinds, jobs: JobTables, orders: Orders, sums: Sums, offer: PoolOffers
) -> int:
    """Let every pool take back the spot that is held beyond what it offers; return how many jobs lose some.

    The job whose spot was added last loses first; of two at one moment, the one submitted later.
    """
    lost = 0
    for pool in range(len(offer.spot_gpus)):
        excess = -offer.spot_gpus[pool]
        for job in active:
            if jobs.pool[job] == pool:
                excess += jobs.spot_gpus[job]
        while excess > 0:
            # Few jobs lose spot in a slot, so searching for the last one each time beats sorting them all.
            last = -1
            for job in active:
                if jobs.pool[job] != pool or jobs.spot_gpus[job] == 0:
                    continue
                # Not `>`: of two jobs that added at one moment the one submitted later loses.
                if last < 0 or jobs.added_hours[job] >= jobs.added_hours[last]:
                    last = job
            left = max(0, jobs.spot_gpus[last] - excess)
            excess -= jobs.spot_gpus[last] - left
            after = lose(terms_of(kinds, jobs, last, pool), state_of(jobs, last), left)
            jobs.spot_gpus[last] = left
            jobs.pause_hours[last] = after.pause_hours
            jobs.progress_gpu_hours[last] = after.progress_gpu_hours
            jobs.since_checkpoint_hours[last] = after.since_checkpoint_hours
            orders.spot_gpus[last] = left
            sums.losses[last] += 1
            lost += 1
    return lost


@compilable
def settle(
    active: Ints, kinds: Kinds, jobs: JobTables, orders: Orders, wanted: Orders, offer: PoolOffers,
    quota_gpus: int, now_hours: float,
) -> None:  # fmt: skip
    """Turn wishes into orders: first GPUs are given up, then others are added, in the order of the jobs.

    Jobs with a hard deadline come before others. A wish is cut to what is left, to a width that the job may
    have, and to the on-demand GPUs that the fleet may hold in all pools. `wanted` has a row for each active
    job, in their order.
    """
    free_spot = offer.spot_gpus.copy()
    free_stock = offer.on_demand_gpus.copy()
    free_quota = quota_gpus
    # First set aside what every job keeps of what it holds, so that no other job's wish takes it.
    for place in range(len(active)):
        job, pool = active[place], jobs.pool[active[place]]
        if wanted.pool[place] == pool:
            free_spot[pool] -= min(jobs.spot_gpus[job], wanted.spot_gpus[place])
            kept = min(jobs.on_demand_gpus[job], wanted.on_demand_gpus[place])
            free_stock[pool] -= kept
            free_quota -= kept
    for place in hard_first(active, jobs):
        job, pool = active[place], wanted.pool[place]
        stays = jobs.pool[job] == pool
        kept_spot = min(jobs.spot_gpus[job], wanted.spot_gpus[place]) if stays else 0
        kept_stock = min(jobs.on_demand_gpus[job], wanted.on_demand_gpus[place]) if stays else 0
        left = Quote(
            offer.spot_usd[pool],
            offer.on_demand_usd[pool],
            max(free_spot[pool], 0) + kept_spot,
            max(min(free_stock[pool], free_quota), 0) + kept_stock,
        )
        terms = terms_of(kinds, jobs, job, pool)
        spot, on_demand = cut(terms, left, wanted.spot_gpus[place], wanted.on_demand_gpus[place])
        free_spot[pool] -= spot - kept_spot
        free_stock[pool] -= on_demand - kept_stock
        free_quota -= on_demand - kept_stock
        if spot + on_demand == 0:
            # A job that waits stays where its checkpoint is: moving costs only when it starts elsewhere.
            pool = jobs.pool[job]
        elif spot > 0 and (not stays or spot > jobs.spot_gpus[job]):
            jobs.added_hours[job] = now_hours
        orders.pool[job] = pool
        orders.spot_gpus[job] = spot
        orders.on_demand_gpus[job] = on_demand


@compilable
def hard_first(active: Ints, jobs: JobTables) -> Ints:
    """Return the places of jobs, those with a hard deadline first; otherwise in their order."""
    places = np.empty(len(active), dtype=np.int64)
    count = 0
    for hard in (True, False):
        for place in range(len(active)):
            if is_hard(jobs, active[place]) == hard:
                places[count] = place
                count += 1
    return places


@compilable
def next_end(
    active: Ints, kinds: Kinds, jobs: JobTables, orders: Orders, now_hours: float, until_hours: float
) -> float:
    """Return when the next job ends with what it is to hold, or `until_hours` if that is sooner."""
    for job in active:
        if orders.spot_gpus[job] + orders.on_demand_gpus[job] > 0:
            terms = terms_of(kinds, jobs, job, orders.pool[job])
            ends = finish_in(
                terms, state_of(jobs, job), now_hours, orders.pool[job], orders.on_demand_gpus[job],
                orders.spot_gpus[job],
            )  # fmt: skip
            until_hours = min(until_hours, ends)
    return until_hours


@compilable
def pass_time(
    active: Ints,
    kinds: Kinds,
    jobs: JobTables,
    orders: Orders,
    sums: Sums,
    offer: PoolOffers,
    slot: int,
    slot_hours: float,
    from_hours: float,
    hours: float,
) -> tuple[float, int]:
    """Let some hours of one slot pass for every job; return what that cost and how many jobs ended."""
    spent = 0.0
    ended = 0
    for job in active:
        kind, pool = jobs.kind[job], orders.pool[job]
        spot, on_demand = orders.spot_gpus[job], orders.on_demand_gpus[job]
        state = state_of(jobs, job)
        moves = pool != state.pool and spot + on_demand > 0 and state.progress_gpu_hours > 0.0
        move_usd = kinds.move_usd[kind, state.pool, pool] if moves else 0.0
        sums.starts[job] += (
            spot > state.spot_gpus or on_demand > state.on_demand_gpus or pool != state.pool
        ) and spot + on_demand > 0
        paid = sums.meter[job]
        out = live(
            terms_of(kinds, jobs, job, pool),
            Tariff(kinds.whole_slots[kind] > 0, slot_hours),
            np.inf,  # no maximum cost of a single job: the allocator keeps the budget of all
            state,
            Meter(paid[0], paid[1], paid[2], paid[3]),
            slot,
            from_hours,
            hours,
            quote_of(offer, pool),
            pool,
            spot,
            on_demand,
            move_usd,
        )
        _keep(jobs, sums, job, out, spot, on_demand)
        spent += out.charge.usd
        now_hours = from_hours + out.passed.hours
        if spot + on_demand == 0:
            jobs.idle_since_hours[job] = min(jobs.idle_since_hours[job], from_hours)
        else:
            jobs.idle_since_hours[job] = np.inf
        if spot > 0:
            jobs.spot_until_hours[job] = now_hours
        if out.state.finish_hours < np.inf or out.state.exhausted:
            ended += 1
            orders.spot_gpus[job] = 0
            orders.on_demand_gpus[job] = 0
    return spent, ended


@compilable
def _keep(jobs: JobTables, sums: Sums, job: int, out: tuple, spot: int, on_demand: int) -> None:  # type: ignore[type-arg]
    state, meter, charge, passed = out
    jobs.pool[job] = state.pool
    jobs.spot_gpus[job] = state.spot_gpus
    jobs.on_demand_gpus[job] = state.on_demand_gpus
    jobs.pause_hours[job] = state.pause_hours
    jobs.progress_gpu_hours[job] = state.progress_gpu_hours
    jobs.checkpointed_gpu_hours[job] = state.checkpointed_gpu_hours
    jobs.since_checkpoint_hours[job] = state.since_checkpoint_hours
    jobs.cost_usd[job] = state.cost_usd
    sums.finish_hours[job] = state.finish_hours
    sums.stopped[job] = state.exhausted
    sums.on_demand_usd[job] += charge.on_demand_usd
    sums.move_usd[job] += charge.move_usd
    held = passed.hours if spot + on_demand > 0 else 0.0
    sums.spot_gpu_hours[job] += spot * held
    sums.on_demand_gpu_hours[job] += on_demand * held
    sums.pause_gpu_hours[job] += (spot + on_demand) * passed.pause_hours
    sums.held_hours[job] += held
    sums.meter[job, 0] = meter.slot
    sums.meter[job, 1] = meter.pool
    sums.meter[job, 2] = meter.spot_gpus
    sums.meter[job, 3] = meter.on_demand_gpus
