"""Jobs that are not what their files say: who is late, and what it costs to measure when the file is right.

`python -m benchmarks.truth [STARTS]` uses the real traces where they are (`SLACKTIDE_DATA`, or
../shared/data), synthetic markets elsewhere. Truths are drawn: 0.5 to 2 times the work, and 0.8 to 1.25 times
the speed on all GPUs, evenly on a logarithmic scale, TRUTHS of them for each start. Lateness is counted where
it is promised that there is none: among runs in which on demand from the start, at the true pace, has at
least m* hours to spare (`policy.deadline_guard.to_spare`).
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.speedup import Amdahl, Linear, Speedup
from slacktide.core.types import Job
from slacktide.market.base import Market, Pool
from slacktide.market.source import open_market
from slacktide.physics import progress as physics
from slacktide.physics.pace import USUAL_SPREAD
from slacktide.physics.truth import AS_SAID, RandomTruth, Truth
from slacktide.policies.base import RulePolicy, policies
from slacktide.policies.deadline_guard import to_spare
from slacktide.simulation import batch, plain
from slacktide.simulation.playback import Setting

NAMES = ("uniform-progress", "stochastic-horizon", "maximal-spot")
SLACKS = (0.15, 0.30, 0.60, 1.10)
TRUTHS = 24
SPEED = (0.8, 1.25)
CHANGES = Truth(later=0.85)
"""A pace that changes, about which nothing is promised."""
AIM = 0.03
"""What measuring may cost when the file is right, on average over slacks."""
LEARN_SHARE = 0.4
"""Part of each trace before the first start."""


@dataclass(frozen=True)
class Setup:
    """A market and the job that is tried on it."""

    title: str
    file: str
    synthetic: str
    slot_hours: float
    gpus: int
    work_gpu_hours: float
    speedup: Speedup


SETUPS = (
    Setup(
        "H100, 1..8 GPUs, 80 GPU-hours, 30-min slots", "gcp-h100-2025.csv.gz",
        "synthetic:h100?slot=30m&days=20&seed=4", 0.5, 8, 80.0, Amdahl(0.97),
    ),
    Setup(
        "V100, 1 GPU, 20 GPU-hours, 15-min slots", "aws-v100-2023.csv.gz",
        "synthetic:v100?slot=15m&days=20&seed=4", 0.25, 1, 20.0, Linear(),
    ),
)  # fmt: skip


HEAD = ("promised", "late: believed", "measured", "cost, right", "changes: late")


class Told(NamedTuple):
    """What came of one policy at one slack, with the file believed or the pace measured."""

    promised: int
    """Runs on random truths in which on demand has enough to spare."""
    late: int
    """... and how many of them were late."""
    right_usd: float
    """The whole bill when the file is right."""
    changes: int
    """Runs in which the pace changes, and on demand has enough to spare."""
    changes_late: int


def main(starts: int = 4) -> None:
    """Print one table per market, and what measuring costs on average, next to the aim."""
    for setup in SETUPS:
        market, real = _market(setup)
        runs = len(market) * starts
        print(f"{setup.title}, {real}, {runs} starts, {TRUTHS} truths each; m* {_spare(setup):.2f} h")
        print(_line("slack", "policy", *HEAD))
        costs: dict[str, list[float]] = {name: [] for name in NAMES}
        began = time.process_time()
        for slack in SLACKS:
            for name in NAMES:
                costs[name].append(_row(setup, market, slack, name, starts))
        for name, ratios in costs.items():
            mean = float(np.mean(ratios)) - 1.0
            held = "held" if mean <= AIM else "MISSED"
            print(f"{name}: measuring costs {mean:+.1%} when the file is right (aim <= {AIM:.0%}: {held})")
        print(f"{time.process_time() - began:.0f} s of CPU", flush=True)
    print(
        f"changes: {CHANGES.later:g} times as fast in the second half of the work, the file right until "
        "then; this is not promised"
    )


def _market(setup: Setup) -> tuple[Market, str]:
    data = Path(os.environ.get("SLACKTIDE_DATA") or Path(__file__).parents[2] / "shared" / "data")
    path = data / "markets" / setup.file
    if path.exists():
        return open_market(str(path), slot_hours=setup.slot_hours), "real trace"
    return open_market(setup.synthetic), "synthetic market"


def _job(setup: Setup, slack: float, spread: float) -> Job:
    restart = 4 / 60
    least = restart + setup.work_gpu_hours / setup.speedup(setup.gpus)
    return Job(
        work_gpu_hours=setup.work_gpu_hours, deadline_hours=(1 + slack) * least,
        widths=tuple(range(1, setup.gpus + 1)), speedup=setup.speedup, restart_hours=restart,
        shrink_hours=2 / 60, checkpoint_hours=10 / 60, work_spread=spread,
    )  # fmt: skip


def _spare(setup: Setup) -> float:
    return to_spare(physics.terms(_job(setup, SLACKS[0], 0.0)), setup.slot_hours)


def is_promised(job: Job, truth: Truth, slot_hours: float) -> bool:
    """Whether on demand from the start, at the true pace, has enough to spare."""
    true = truth.of(job)
    soonest = true.restart_hours + true.work_hours(true.fastest_width)
    return soonest + to_spare(physics.terms(true), slot_hours) <= true.deadline_hours


def _row(setup: Setup, market: Market, slack: float, name: str, starts: int) -> float:
    """Print a row and return what the measured pace costs over the believed file, when that is right."""
    believed = _tell(_job(setup, slack, 0.0), market, name, starts)
    measured = _tell(_job(setup, slack, USUAL_SPREAD), market, name, starts)
    ratio = measured.right_usd / believed.right_usd
    cells = (
        f"{believed.promised}",
        _share(believed.late, believed.promised),
        _share(measured.late, measured.promised),
        f"{ratio:.3f}",
        _share(measured.changes_late, measured.changes),
    )
    print(_line(f"{slack:.0%}", name, *cells), flush=True)
    return ratio


def _tell(job: Job, market: Market, name: str, starts: int) -> Told:
    total = np.zeros(5)
    for place, pool in enumerate(market.pools):
        seeds = range(place * TRUTHS, (place + 1) * TRUTHS)
        setting = Setting.on(market, pool)
        acting = plain.guarded(policies.make(name), job)
        for start in _starts(job, pool, starts):
            ready = batch.prepare(acting, job, pool, start, setting)
            assert isinstance(ready, RulePolicy)
            total += list(_from(job, pool, ready, start, setting, seeds))
    promised, late, right_usd, changes, changes_late = total.tolist()
    return Told(int(promised), int(late), right_usd, int(changes), int(changes_late))


def _from(
    job: Job, pool: Pool, ready: RulePolicy, start: int, setting: Setting, seeds: Sequence[int]
) -> Iterator[float]:
    """Run one start, prepared once, with all truths; yields what `Told` adds up."""
    drawn = [RandomTruth(speed=SPEED, seed=seed).at(start) for seed in seeds]
    promised = [truth for truth in drawn if is_promised(job, truth, pool.slot_hours)]
    changes = [CHANGES] if is_promised(job, CHANGES, pool.slot_hours) else []
    yield len(promised)
    yield sum(_late(job, pool, ready, start, setting, truth) for truth in promised)
    yield float(_run(job, pool, ready, start, setting, AS_SAID)[0])
    yield len(changes)
    yield sum(_late(job, pool, ready, start, setting, truth) for truth in changes)


def _late(job: Job, pool: Pool, ready: RulePolicy, start: int, setting: Setting, truth: Truth) -> bool:
    return not job.on_time(float(_run(job, pool, ready, start, setting, truth)[1]))


def _run(job: Job, pool: Pool, ready: RulePolicy, start: int, setting: Setting, truth: Truth) -> Floats:
    """Return cost and finish, in the order of `batch.COLUMNS`."""
    true = dataclasses.replace(setting, truth=truth)
    row: Floats = batch.run_table(job, pool, ready, [start], setting=true)[0]
    return row


def _starts(job: Job, pool: Pool, count: int) -> Sequence[int]:
    last = plain.last_start(job, pool)
    return [round(start) for start in np.linspace(LEARN_SHARE * len(pool), last, count)]


def _share(late: int, of: int) -> str:
    return f"{late / of:.1%} ({late})" if of else "none promised"


def _line(slack: str, name: str, *cells: str) -> str:
    return f"{slack:>6} {name:<20}" + "".join(f"{cell:>16}" for cell in cells)


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:2]))
