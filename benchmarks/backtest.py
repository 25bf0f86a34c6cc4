"""Slots per second of the batch back-test, compared with the plain definition, on one core."""

from __future__ import annotations

import time

from benchmarks.timing import best
from slacktide.core.types import Job
from slacktide.market.source import open_market
from slacktide.policies.base import RulePolicy, policies
from slacktide.policies.deadline_guard import DeadlineGuard, label
from slacktide.results.run import COLUMNS
from slacktide.simulation import batch, plain
from slacktide.simulation.compare import summarise

JOB = Job(work_gpu_hours=100.0, deadline_hours=24.0, widths=tuple(range(1, 9)), restart_hours=0.05)
LONG_JOB = Job(work_gpu_hours=200.0, deadline_hours=48.0, widths=tuple(range(1, 9)), restart_hours=0.05)
PLAIN_STARTS = 20


def main() -> None:
    """Print slots/s of each policy, bare and behind the guard, compiled and plain."""
    pool = open_market("synthetic:h100?days=365&slot=30m").pools[0]
    starts = list(range(len(pool) - 48))
    print(f"{len(starts)} starts of a 48-slot job on 1..8 GPUs, {len(pool)} slots of market")
    print(f"{'policy':<36} {'batch slots/s':>14} {'plain slots/s':>14} {'ratio':>7}")
    for name in ("uniform-progress", "maximal-spot", "on-demand"):
        for policy in (policies.make(name), DeadlineGuard(policies.make(name))):
            assert isinstance(policy, RulePolicy)
            batch.run_table(JOB, pool, policy, starts[:2])  # loads or compiles
            fast, table = best(lambda p=policy: batch.run_table(JOB, pool, p, starts))  # type: ignore[misc]
            slow, runs = best(
                lambda p=policy: [plain.run(JOB, pool, p, start=s) for s in starts[:PLAIN_STARTS]],  # type: ignore[misc]
                tries=1,
            )
            rate = table[:, COLUMNS.index("slots")].sum() / fast
            reference = sum(len(run.slots) for run in runs) / slow
            print(f"{label(policy):<36} {rate:14,.0f} {reference:14,.0f} {rate / reference:7.0f}")
    whole_path()


def whole_path() -> None:
    """Print how many simulations a CPU second holds, results included: summed up, and one by one."""
    pool = open_market("synthetic:h100?days=365&slot=10m").pools[0]
    policy = DeadlineGuard(policies.make("uniform-progress"))
    starts = list(range(len(pool) - 288))
    batch.run_table(LONG_JOB, pool, policy, starts[:2])
    made = 0.0
    for what, work in (
        ("with their summary", lambda runs: summarise("guarded", [runs], 0.0)),
        ("each made an object", list),
    ):
        began = time.process_time()
        work(batch.run_compiled(LONG_JOB, pool, policy, starts, name="guarded"))
        made = len(starts) / (time.process_time() - began)
        print(f"48-h job at 10-min slots, results {what}: {made:,.0f} simulations per CPU second")
    began = time.process_time()
    for start in starts[:PLAIN_STARTS]:
        plain.run(LONG_JOB, pool, policy, start=start)
    print(f"the same, plain: {PLAIN_STARTS / (time.process_time() - began):,.0f} per CPU second; aim: 50,000")


if __name__ == "__main__":
    main()
