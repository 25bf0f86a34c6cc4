"""The auction of spot among a fleet's jobs: what each way to go on costs each job, and which jobs get spot.

A way is a pool and a width on spot, or the best without spot: to wait, or on demand. Decisions count a rent
for scarce spot, which nobody pays: the least at which no more spot is wanted than there is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slacktide.allocators.prices.cost_tables import NEVER, CostTables, MarketRates, at_work, between
from slacktide.allocators.prices.deadline_guarantees import LATE_HOURS, is_far, is_hard, is_safe, rescue
from slacktide.allocators.site.job_tables import PoolOffers, SiteMoment, state_of
from slacktide.core.arrays import Bools, Floats, Ints
from slacktide.core.compiled import compilable

HALVINGS = 12  # how often the interval of a rent is halved
SWEEPS = 4  # how often the rents of several pools are found one after another
CHANGE = 2.0  # the restart of a changed running job counts this many times: another change is likely
LEAST_GAIN_USD = 1e-9


class Tuning(NamedTuple):
    """What the allocator knows and its parameters: all that the auction reads besides the moment."""

    tables: CostTables
    row: Ints  # [job]: its row in the tables
    market: MarketRates  # what the tables were made of
    rent_usd: Floats  # [pool]: the recent mean rent, which the price of spot in the tables includes
    tenure_hours: float  # how long a rent that differs from the mean is assumed to last
    patience_share: float  # on demand after this share of the hours of waiting that its extra cost is worth


class WayCosts(NamedTuple):
    """What each job could do: [job, pool, width] on spot, and the best without spot: [job]."""

    usd: Floats  # what the rest of the job costs that way, at the mean rents
    lasts_hours: Floats  # for how long the present rent is paid
    without_usd: Floats
    without_pool: Ints
    without_gpus: Ints  # on demand; 0: it waits
    forced: Bools  # whether waiting is no longer safe: only a rescue, or spot that is safe
    patience_hours: Floats  # how long a job without a deadline waits for spot

    @classmethod
    def empty(cls, jobs: int, pools: int, widths: int) -> WayCosts:
        """Return room for the ways of some jobs."""
        shape = jobs, pools, widths
        return cls(
            usd=np.full(shape, NEVER),
            lasts_hours=np.zeros(shape),
            without_usd=np.zeros(jobs),
            without_pool=np.zeros(jobs, dtype=np.int64),
            without_gpus=np.zeros(jobs, dtype=np.int64),
            forced=np.zeros(jobs, dtype=np.bool_),
            patience_hours=np.full(jobs, np.inf),
        )


@compilable
def find_ways(moment: SiteMoment, tuning: Tuning, ways: WayCosts) -> None:
    """Fill in what each way costs each job."""
    jobs = moment.jobs
    for job in range(len(jobs.kind)):
        hard = is_hard(jobs, job)
        ahead = moment.now_hours < jobs.deadline_hours[job] < np.inf
        due = hard or (ahead and is_worth_it(moment, tuning, job))
        far = not hard or is_far(moment, job)
        hour = hour_usd(moment, tuning, job)
        if due:
            _due_without(moment, tuning, ways, job, far)
        else:
            _open_without(moment, tuning, ways, job, hour)
        _on_spot(moment, tuning, ways, job, due, far, hour)


@compilable
def is_worth_it(moment: SiteMoment, tuning: Tuning, job: int) -> bool:
    """Whether meeting a soft deadline costs no more than taking spot as it comes and being late."""
    jobs, tables, market, now = moment.jobs, tuning.tables, tuning.market, moment.now_hours
    row, work, deadline = tuning.row[job], work_left(moment, job), jobs.deadline_hours[job]
    in_time = due_usd(tables, tables.due_idle_usd[row], row, (deadline - now) / tables.step_hours, work)
    restart = moment.kinds.restart_hours[jobs.kind[job]]
    for way in range(len(tables.widths)):
        rate = tables.rate[row, way]
        if rate <= 0.0:
            continue
        run = restart + work / rate
        paid = at_work(tables.work_gpu_hours[row], tables.spot_usd[row, way], work)
        paid += restart * market.spot_usd * tables.widths[way] - market.hour_usd * work / rate
        late = now + 1.0 / market.offer_rate + run - deadline
        lost = late / (jobs.worthless_hours[job] - deadline)
        if paid + jobs.value_usd[job] * min(max(lost, 0.0), 1.0) < in_time:
            return False
    return True


@compilable
def hour_usd(moment: SiteMoment, tuning: Tuning, job: int) -> float:
    """Return what an hour of a job's time is worth: after a soft deadline, what its result loses.

    If on demand for the rest of the work would cost more than the result is still worth, it is worth only
    what it is for a job without a deadline.
    """
    jobs, tables, market, now = moment.jobs, tuning.tables, tuning.market, moment.now_hours
    deadline, worthless = jobs.deadline_hours[job], jobs.worthless_hours[job]
    usual = market.hour_usd * jobs.weight[job]
    if deadline <= now < worthless:
        row, work = tuning.row[job], work_left(moment, job)
        extra, gpu_hours = market.on_demand_usd - market.spot_usd, np.inf
        for way in range(len(tables.widths)):
            if tables.rate[row, way] > 0.0:
                gpu_hours = min(gpu_hours, work * tables.widths[way] / tables.rate[row, way])
        lost = jobs.value_usd[job] / (worthless - deadline)
        if extra * gpu_hours <= lost * (worthless - now):
            return float(lost)
    return float(usual)


@compilable
def work_left(moment: SiteMoment, job: int) -> float:
    """Return the work that a job has left; always above 0."""
    jobs = moment.jobs
    work = jobs.ends_gpu_hours[job, moment.kinds.phases[jobs.kind[job]] - 1]
    return max(float(work - jobs.progress_gpu_hours[job]), 1e-9)


@compilable
def pace(moment: SiteMoment, job: int, pool: int, width: int) -> float:
    """Return the mean progress per hour over the rest of a job's work; 0 where the width is not allowed."""
    kinds, jobs = moment.kinds, moment.jobs
    kind = jobs.kind[job]
    if width >= kinds.fit.shape[2] or kinds.fit[kind, pool, width] != width:
        return 0.0
    if kinds.phases[kind] == 1:
        return float(kinds.rate[kind, pool, 0, width])
    done, hours = jobs.progress_gpu_hours[job], 0.0
    for phase in range(kinds.phases[kind]):
        end = jobs.ends_gpu_hours[job, phase]
        if end > done:
            hours += (end - done) / kinds.rate[kind, pool, phase, width]
            done = end
    return work_left(moment, job) / max(hours, 1e-12)


@compilable
def pause_hours(moment: SiteMoment, job: int, pool: int, same: bool) -> float:
    """Return the hours without progress before a job continues; `same` says that it changes nothing."""
    kinds, jobs = moment.kinds, moment.jobs
    if same:
        return float(jobs.pause_hours[job])
    kind, here = jobs.kind[job], jobs.pool[job]
    moves = pool != here and jobs.progress_gpu_hours[job] > 0.0
    return float(kinds.restart_hours[kind] + (kinds.move_hours[kind, here, pool] if moves else 0.0))


@compilable
def due_usd(tables: CostTables, values: Floats, row: int, steps: float, work: float) -> float:
    """Return what is to be paid until a deadline; beyond the tables, in proportion at the same pace."""
    most = values.shape[0] - 1
    if steps > most:
        share = most / steps
        return float(between(tables.cell_gpu_hours[row], values[most], work * share) / share)
    return between(tables.cell_gpu_hours[row], values[int(steps)], work)


@compilable
def _on_spot(
    moment: SiteMoment, tuning: Tuning, ways: WayCosts, job: int, due: bool, far: bool, hour: float
) -> None:
    kinds, jobs, prices = moment.kinds, moment.jobs, moment.prices
    tables, market = tuning.tables, tuning.market
    kind, row, here, work = jobs.kind[job], tuning.row[job], jobs.pool[job], work_left(moment, job)
    idle = jobs.spot_gpus[job] + jobs.on_demand_gpus[job] == 0
    steps = (jobs.deadline_hours[job] - moment.now_hours) / tables.step_hours if due else 0.0
    for pool in range(len(prices.spot_usd)):
        for way in range(len(tables.widths)):
            width = tables.widths[way]
            speed = pace(moment, job, pool, width)
            if speed <= 0.0 or tables.rate[row, way] <= 0.0:
                continue
            same = jobs.spot_gpus[job] == width and jobs.on_demand_gpus[job] == 0 and pool == here
            if not far and not is_safe(moment, job, pool, width, 0):
                continue
            pause = pause_hours(moment, job, pool, same)
            usual, run = tables.rate[row, way], pause + work / speed
            lasts = tuning.tenure_hours * (1.0 - math.exp(-run / tuning.tenure_hours))
            paid = hour + market.spot_usd * width
            if ways.forced[job]:
                # Until the next border on spot, then the rest of the rescue.
                held = min(run, moment.hours)
                share = max(0.0, 1.0 - max(0.0, held - pause) * speed / work)
                usd = market.spot_usd * width * held + share * ways.without_usd[job]
            elif due:
                # To the tables a pause is more work to do, and another pace is more or less work.
                usd = due_usd(tables, tables.due_spot_usd[row, :, way], row, steps, (run * usual))
            else:
                usd = at_work(tables.work_gpu_hours[row], tables.spot_usd[row, way], work)
                usd += pause * paid + paid * (work / speed - work / usual)
            extra = prices.spot_usd[pool] + tuning.rent_usd[pool] - market.spot_usd
            usd += extra * width * lasts
            if pool != here and jobs.progress_gpu_hours[job] > 0.0:
                usd += kinds.move_usd[kind, here, pool]
            if not idle and not same:
                usd += (CHANGE - 1.0) * kinds.restart_hours[kind] * paid
            ways.usd[job, pool, way] = usd
            ways.lasts_hours[job, pool, way] = lasts


@compilable
def _due_without(moment: SiteMoment, tuning: Tuning, ways: WayCosts, job: int, far: bool) -> None:
    """Find the best way without spot for a job with a deadline ahead: to wait, or on demand."""
    jobs, prices, tables, now = moment.jobs, moment.prices, tuning.tables, moment.now_hours
    row, here, work = tuning.row[job], jobs.pool[job], work_left(moment, job)
    if not far and not is_safe(moment, job, here, 0, 0):
        pool, gpus, _ = rescue(moment, job, state_of(jobs, job), now)
        same = jobs.on_demand_gpus[job] == gpus and jobs.spot_gpus[job] == 0 and pool == here
        run = pause_hours(moment, job, pool, same) + work / pace(moment, job, pool, gpus)
        ways.forced[job] = True
        in_time = now + run <= jobs.deadline_hours[job] + LATE_HOURS
        # Spot that is safe comes before a rescue that would be late.
        ways.without_usd[job] = prices.on_demand_usd[pool] * gpus * run if in_time else 0.1 * NEVER
        ways.without_pool[job], ways.without_gpus[job] = pool, gpus
        return
    steps = (jobs.deadline_hours[job] - now) / tables.step_hours
    best = due_usd(tables, tables.due_idle_usd[row], row, max(steps - 1.0, 0.0), work)
    ways.without_pool[job], ways.without_gpus[job] = here, 0
    for pool in range(len(prices.spot_usd)):
        for way in range(len(tables.widths)):
            width = tables.widths[way]
            speed = pace(moment, job, pool, width)
            if speed <= 0.0 or tables.rate[row, way] <= 0.0:
                continue
            same = jobs.on_demand_gpus[job] == width and jobs.spot_gpus[job] == 0 and pool == here
            run = pause_hours(moment, job, pool, same) + work / speed
            amount = run * tables.rate[row, way]
            usd = due_usd(tables, tables.due_on_demand_usd[row, :, way], row, steps, amount)
            usd += (prices.on_demand_usd[pool] - tuning.market.on_demand_usd) * width * run
            if usd < best and (far or is_safe(moment, job, pool, 0, width)):
                best = usd
                ways.without_pool[job], ways.without_gpus[job] = pool, width
    ways.without_usd[job] = best


@compilable
def _open_without(moment: SiteMoment, tuning: Tuning, ways: WayCosts, job: int, hour: float) -> None:
    """Find the best way without spot for a job without a deadline: to wait for spot, or on demand.

    On demand if the hours of waiting that its extra cost is worth are fewer than those to be expected, or
    after a share of them, because it is not known how long the wait will be (ski rental).
    """
    jobs, prices, tables, market = moment.jobs, moment.prices, tuning.tables, tuning.market
    row, here, work = tuning.row[job], jobs.pool[job], work_left(moment, job)
    restart = moment.kinds.restart_hours[jobs.kind[job]]
    spot, spot_paid, demand = NEVER, NEVER, NEVER
    best_pool, best_gpus = here, 0
    for pool in range(len(prices.spot_usd)):
        for way in range(len(tables.widths)):
            width = tables.widths[way]
            speed = pace(moment, job, pool, width)
            if speed <= 0.0 or tables.rate[row, way] <= 0.0:
                continue
            same = jobs.on_demand_gpus[job] == width and jobs.spot_gpus[job] == 0 and pool == here
            pause, usual = pause_hours(moment, job, pool, same), tables.rate[row, way]
            paid = hour + prices.on_demand_usd[pool] * width
            usd = at_work(tables.work_gpu_hours[row], tables.on_demand_usd[row, way], work)
            usd += pause * paid + paid * (work / speed - work / usual)
            usd += (prices.on_demand_usd[pool] - market.on_demand_usd) * width * work / usual
            if usd < demand:
                demand, best_pool, best_gpus = usd, pool, width
            later = at_work(tables.work_gpu_hours[row], tables.spot_usd[row, way], work)
            later += restart * (hour + market.spot_usd * width)
            spot = min(spot, later)
            # Rents steer decisions, but nobody pays them.
            spot_paid = min(spot_paid, later - tuning.rent_usd[pool] * width * (restart + work / speed))
    worth_hours = max(demand - spot_paid, 0.0) / hour
    patience = tuning.patience_share * worth_hours
    if not math.isnan(jobs.patience_hours[job]):
        patience = jobs.patience_hours[job]
    ways.patience_hours[job] = patience
    ways.without_usd[job] = hour / market.offer_rate + spot
    ways.without_pool[job], ways.without_gpus[job] = here, 0
    waited = moment.now_hours - max(jobs.spot_until_hours[job], jobs.submitted_hours[job])
    if waited >= patience or worth_hours < 1.0 / market.offer_rate:
        ways.without_usd[job] = demand
        ways.without_pool[job], ways.without_gpus[job] = best_pool, best_gpus


@compilable
def choose(
    ways: WayCosts, widths: Ints, offered: Ints, rent: Floats, pools: Ints, picked: Ints, used: Ints
) -> None:
    """Let every job choose its cheapest way, if rents exceed the mean by `rent`; -1 is a way without spot."""
    used[:] = 0
    for job in range(len(picked)):
        picked[job] = -1
        best = ways.without_usd[job] - LEAST_GAIN_USD
        for pool in range(len(offered)):
            if offered[pool] <= 0:
                continue
            for way in range(len(widths)):
                usd = ways.usd[job, pool, way] + rent[pool] * widths[way] * ways.lasts_hours[job, pool, way]
                if usd < best:
                    best = usd
                    picked[job], pools[job] = way, pool
        if picked[job] >= 0:
            used[pools[job]] += widths[picked[job]]


@compilable
def clear(
    ways: WayCosts,
    widths: Ints,
    prices: PoolOffers,
    usual_rent: Floats,
    rent: Floats,
    pools: Ints,
    picked: Ints,
) -> None:
    """Find the rents at which no more spot is wanted than there is, and share it out at them.

    If too much is wanted even at the highest rent, at which spot is as expensive as on demand, jobs that
    gain most per GPU-hour come first. What is left over goes to jobs that gain by it without a rent.
    """
    offered, count = prices.spot_gpus, len(prices.spot_gpus)
    used = np.zeros(count, dtype=np.int64)
    above = -usual_rent
    choose(ways, widths, offered, above, pools, picked, used)
    if (used > offered).any():
        for _ in range(SWEEPS if count > 1 else 1):
            for pool in range(count):
                least = -usual_rent[pool]
                most = max(prices.on_demand_usd[pool] - prices.spot_usd[pool], 0.0) - usual_rent[pool]
                above[pool] = least
                choose(ways, widths, offered, above, pools, picked, used)
                if used[pool] <= offered[pool]:
                    continue
                above[pool] = most
                choose(ways, widths, offered, above, pools, picked, used)
                if used[pool] > offered[pool]:
                    continue
                for _ in range(HALVINGS):
                    above[pool] = 0.5 * (least + most)
                    choose(ways, widths, offered, above, pools, picked, used)
                    if used[pool] > offered[pool]:
                        least = above[pool]
                    else:
                        most = above[pool]
                above[pool] = most
        choose(ways, widths, offered, above, pools, picked, used)
    for pool in range(count):
        rent[pool] = above[pool] + usual_rent[pool]
    left = offered.copy()
    _fit(ways, widths, left, pools, picked)
    _give_rest(ways, widths, left, pools, picked)


@compilable
def gain_usd(ways: WayCosts, widths: Ints, job: int, pool: int, way: int) -> float:
    """Return what a GPU-hour of a way is worth to a job above having no spot."""
    usd = ways.without_usd[job] - ways.usd[job, pool, way]
    return float(usd / (widths[way] * max(ways.lasts_hours[job, pool, way], 1e-6)))


@compilable
def _fit(ways: WayCosts, widths: Ints, left: Ints, pools: Ints, picked: Ints) -> None:
    """Give jobs what they chose, the highest gain first; if too little is left, the best width that fits."""
    key = np.zeros(len(picked))
    for job in range(len(picked)):
        if picked[job] >= 0:
            key[job] = gain_usd(ways, widths, job, pools[job], picked[job])
            if ways.forced[job]:
                key[job] += NEVER
    for job in np.argsort(-key):
        pool = pools[job]
        if picked[job] >= 0 and widths[picked[job]] > left[pool]:
            picked[job] = -1
            best = ways.without_usd[job]
            for way in range(len(widths)):
                if widths[way] <= left[pool] and ways.usd[job, pool, way] < best:
                    picked[job], best = way, ways.usd[job, pool, way]
        if picked[job] >= 0:
            left[pool] -= widths[picked[job]]


@compilable
def _give_rest(ways: WayCosts, widths: Ints, left: Ints, pools: Ints, picked: Ints) -> None:
    """Give spot that is left to the jobs that gain most per GPU-hour."""
    for pool in range(len(left)):
        while left[pool] > 0:
            most, who, how = LEAST_GAIN_USD, -1, -1
            for job in range(len(picked)):
                if picked[job] >= 0 and pools[job] != pool:
                    continue
                held = widths[picked[job]] if picked[job] >= 0 else 0
                now = ways.usd[job, pool, picked[job]] if picked[job] >= 0 else ways.without_usd[job]
                for way in range(len(widths)):
                    more = widths[way] - held
                    if more <= 0 or more > left[pool] or ways.usd[job, pool, way] >= NEVER:
                        continue
                    gain = (now - ways.usd[job, pool, way]) / (
                        more * max(ways.lasts_hours[job, pool, way], 1e-6)
                    )
                    if gain > most:
                        most, who, how = gain, job, way
            if who < 0:
                break
            left[pool] -= widths[how] - (widths[picked[who]] if picked[who] >= 0 else 0)
            pools[who], picked[who] = pool, how
