"""What warnings are worth: bills over the clairvoyant with and without ten minutes of notice.

`python -m benchmarks warnings`: a gang of one with a restart of 12 minutes, paid by whole slots, on the H100
and V100 zones of the shared traces, as in `benchmarks pools`. `stochastic-horizon` stays in each of two
pools, over the clairvoyant of that pool; `roaming-horizon` may be in all, over the optimum of all. The same
once more with checkpoints every hour, where a forced loss takes work back and leaving in time keeps it.
Both columns are of one run of this program. An aim from a study on other traces: 2.3 points of 8.5.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

from benchmarks.pools import SETUPS, job_of, market_of, optimum
from slacktide.core.types import Job
from slacktide.journal.events import Sight
from slacktide.market.base import Market, with_notice
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.pools.roaming_horizon import RoamingHorizon
from slacktide.policies.stochastic_horizon import StochasticHorizon
from slacktide.simulation import plain
from slacktide.simulation.batch import run_yardstick
from slacktide.simulation.plain import run_over_pools
from slacktide.simulation.playback import Setting
from slacktide.simulation.pool_options import PoolOptions

NOTICE_HOURS = 10 / 60
RATIO = 1.05
STARTS = 3
POOLS = 2
CHECKPOINT_HOURS = (0.0, 1.0)


def in_one_pool(market: Market, job: Job, starts: Sequence[int]) -> float:
    """Return what `stochastic-horizon` pays in some pools from all starts together."""
    total = 0.0
    for pool in market.pools[:POOLS]:
        setting, policy = Setting.on(market, pool), DeadlineGuard(StochasticHorizon())
        for start in starts:
            done = plain.run(job, pool, policy, start=start, setting=setting)
            assert done.on_time, f"late: {pool.name}, start {start}"
            total += done.cost_usd
    return total


def clairvoyant(market: Market, job: Job, starts: Sequence[int]) -> float:
    """Return the least that the same could have cost, without any work lost."""
    free = dataclasses.replace(job, checkpoint_hours=0.0)
    return sum(
        one.cost_usd for pool in market.pools[:POOLS] for one in run_yardstick(free, pool, list(starts))[0]
    )


def over_pools(sight: Sight) -> Callable[[Market, Job, Sequence[int]], float]:
    """Return a function of what `roaming-horizon` pays over all pools."""

    def paid(market: Market, job: Job, starts: Sequence[int]) -> float:
        total = 0.0
        for start in starts:
            pools, policy = PoolOptions.of(job, "", market), DeadlineGuard(RoamingHorizon())
            done = run_over_pools(pools, policy, start=start, sight=sight)
            assert done.on_time, f"late: start {start}"
            total += done.cost_usd
        return total

    return paid


def measure(name: str) -> None:
    """Print the table of one trace."""
    _, deadline, every = SETUPS[name]
    silent, starts = market_of(name), list(every)[:STARTS]
    warns = with_notice(silent, NOTICE_HOURS)
    minutes = 60 * silent.pools[0].slot_hours
    print(
        f"{name}: slots of {minutes:.3g} min, {len(starts)} starts, {deadline} h for "
        f"{deadline / RATIO:.1f} h of work; bills over the best"
    )
    print(f"  {'':46}{'unwarned':>10}{'warned':>10}{'points':>8}{'CPU s':>7}{'CPU s':>7}")
    ways = {
        "stochastic-horizon": (in_one_pool, clairvoyant),
        "roaming-horizon, feed": (over_pools("feed"), optimum),
        "roaming-horizon, tried": (over_pools("tried"), optimum),
    }
    for checkpoint_hours in CHECKPOINT_HOURS:
        job = dataclasses.replace(job_of(deadline, RATIO), checkpoint_hours=checkpoint_hours)
        for title, (paid, best) in ways.items():
            least, bills, spent = best(silent, job, starts), [], []
            for market in (silent, warns):
                begin = time.process_time()
                bills.append(paid(market, job, starts) / least)
                spent.append(time.process_time() - begin)
            said = f"{title}, {'hourly' if checkpoint_hours else 'constant'} checkpoints"
            points = 100 * (bills[0] - bills[1])
            print(
                f"  {said:46}{bills[0]:10.3f}{bills[1]:10.3f}{points:8.2f}{spent[0]:7.1f}{spent[1]:7.1f}",
                flush=True,
            )


def main() -> None:
    """Print both tables."""
    for name in SETUPS:
        measure(name)


if __name__ == "__main__":
    main()
