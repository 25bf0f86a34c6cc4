"""AHAP: decisions per second against the plain definition, the whole pool on one job, and what it costs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.timing import best
from slacktide.core.types import Job
from slacktide.market.base import Pool
from slacktide.market.forecast.persistence import Persistence
from slacktide.market.source import open_market
from slacktide.policies.ahanp import Ahanp
from slacktide.policies.ahap import Ahap
from slacktide.policies.base import RulePolicy, policies
from slacktide.policies.deadline_guard import label
from slacktide.policies.view import Policy
from slacktide.results.run import COLUMNS
from slacktide.simulation import batch, plain
from slacktide.simulation.plain import guarded
from slacktide.simulation.playback import USUAL, Setting
from slacktide.solvers.clairvoyant.clairvoyant import yardstick
from slacktide_papers.forecasters.noisy_truth import NoisyTruth

MARKET = "synthetic:h100?days=60&slot=30m"
PLAIN_STARTS = 2
COST, SLOTS = (COLUMNS.index(name) for name in ("cost_usd", "slots"))


def job_of(gpus: int) -> Job:
    """Return a job of 48 half hours that needs about half of its GPUs all the time."""
    return Job(
        work_gpu_hours=12.5 * gpus, deadline_hours=24.0, widths=tuple(range(1, gpus + 1)), restart_hours=0.05
    )


def pool_of_policies() -> Iterator[Policy]:
    """Yield the 112 policies of the paper."""
    for threshold in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        for window in range(1, 6):
            for commitment in range(1, window + 1):
                yield Ahap(window, commitment, threshold)
        yield Ahanp(threshold)


def main(source: str = MARKET) -> None:
    """Print speed and quality; another market can be named."""
    pools = open_market(source, slot_hours=None if source.startswith("synthetic") else 0.5).pools
    print(f"{source}: {len(pools)} pools, {len(pools[0])} slots")
    for gpus in (8, 16):
        print_speed(pools, job_of(gpus))
    print_replay(pools[-1])
    print_quality(pools)


def print_speed(pools: Sequence[Pool], job: Job) -> None:
    """Print decisions/s of some windows and commitments over all pools, compiled and plain."""
    print(
        f"\n{'policy on ' + str(job.max_gpus) + ' GPUs':<52} {'batch /s':>10} {'plain /s':>10} {'ratio':>7}"
    )
    for window, commitment in ((1, 1), (3, 2), (5, 1), (5, 3), (5, 5)):
        for threshold in (0.3, 0.6, 0.9):
            policy = Ahap(window, commitment, threshold)
            fast = [batch_rate(job, pool, policy) for pool in pools]
            slow = plain_rate(job, pools[-1], policy)
            rate = sum(count for count, _ in fast) / sum(seconds for _, seconds in fast)
            print(f"{label(policy):<52} {rate:10,.0f} {slow:10,.0f} {rate / slow:7.0f}")


def batch_rate(job: Job, pool: Pool, policy: RulePolicy) -> tuple[float, float]:
    """Return decisions and seconds of a batch over the pool."""
    starts = list(range(0, len(pool) - 48, 48))
    batch.run_table(job, pool, policy, starts[:1])  # loads or compiles
    seconds, table = best(lambda: batch.run_table(job, pool, policy, starts))
    return float(table[:, SLOTS].sum()), seconds


def plain_rate(job: Job, pool: Pool, policy: Policy) -> float:
    """Return decisions per second of the plain definition."""
    starts = range(PLAIN_STARTS)
    seconds, runs = best(lambda: [plain.run(job, pool, policy, start=start) for start in starts], tries=1)
    return sum(len(run.slots) for run in runs) / seconds


def print_replay(pool: Pool) -> None:
    """Print how long it takes to replay all policies of the pool on one finished job."""
    job, every = job_of(8), list(pool_of_policies())

    def replay(count: int) -> float:
        return sum(batch.run_compiled(job, pool, policy, [0])[0].cost_usd for policy in every[:count])

    replay(len(every))
    seconds, _ = best(lambda: replay(len(every)))
    slow, _ = best(lambda: [plain.run(job, pool, policy) for policy in every[::16]], tries=1)
    print(
        f"\n{len(every)} policies on one job of 48 slots and 8 GPUs: {seconds:.2f} s, "
        f"plain {slow * 16:.0f} s (from every 16th)"
    )


def print_quality(pools: Sequence[Pool]) -> None:
    """Print what policies pay over the clairvoyant, with true and with persistent forecasts."""
    usual = {"work_gpu_hours": 80.0, "deadline_hours": 12.5, "restart_hours": 0.05}
    hard = Job(**usual, widths=tuple(range(1, 9)))  # type: ignore[arg-type]
    soft = Job(**usual, widths=tuple(range(1, 9)), value_usd=600.0, worthless_after_hours=18.0)  # type: ignore[arg-type]
    for name, job in (("hard", hard), ("soft", soft)):
        starts = [list(range(0, len(pool) - 25, 4)) for pool in pools]
        best = [yardstick(job, pool, slots).table for pool, slots in zip(pools, starts, strict=True)]
        paid = float(np.concatenate(best)[:, COST].mean())
        print(f"\n{name} deadline, {sum(map(len, starts))} starts; clairvoyant {paid:.2f} USD")
        print(f"{'policy':<46} {'forecast':<12} {'USD':>8} {'over':>6} {'utility':>8} {'in time':>8}")
        for policy, setting in contenders():
            runs = [
                run
                for pool, slots in zip(pools, starts, strict=True)
                for run in batch.run_compiled(job, pool, guarded(policy, job), slots, setting=setting)
            ]
            cost, utility = (
                float(np.mean([getattr(run, f"{k}_usd") for run in runs])) for k in ("cost", "utility")
            )
            in_time = np.mean([run.on_time for run in runs])
            forecast = type(setting.forecaster).__name__.lower()
            print(
                f"{label(policy):<46} {forecast:<12} {cost:8.2f} {cost / paid:6.3f} "
                f"{utility:8.2f} {in_time:8.1%}"
            )


def contenders() -> Iterator[tuple[Policy, Setting]]:
    """Yield policies with the forecasts they are given."""
    for forecaster in (NoisyTruth(level=0.0), Persistence()):
        for window, commitment in ((4, 2), (5, 1), (5, 3), (5, 5)):
            for threshold in (0.3, 0.6, 0.9):
                yield Ahap(window, commitment, threshold), Setting(forecaster=forecaster)
    for name in ("ahanp", "uniform-progress", "maximal-spot"):
        yield policies.make(name), USUAL


if __name__ == "__main__":
    main(*sys.argv[1:])
