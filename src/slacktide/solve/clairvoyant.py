"""The clairvoyant optimum: the best that could have been done on a market, had it been known.

It is the yardstick of every report. Given all quotes, it chooses spot and on-demand GPUs for each slot
so as to maximise the result's value less its cost (hard deadline: the least cost among the plans in
time). It is a dynamic programme over (slot, spot, on demand, pause left, work left): `frame` describes
its numbers, `sweep` the recursion, `follow` how the plan is found and run through the true physics.
A mixed-integer programme in the tests solves the same problem in another way; they hold the two, and
enumeration, against each other.

What it leaves out, in the job's favour, so that it stays a bound for what any policy can reach:

- *checkpoint losses*: who knows when spot goes checkpoints just before, so no forced loss takes work;
- *the greatest cost* of a job (`max_cost_usd`) is not enforced.

A hard deadline that cannot be met even so yields the fastest width on demand from the first slot on,
and a plan that is not on time.

**Accuracy.** Where progress has a common step (`Plan.exact`) nothing is rounded, and the plan equals the
MILP's and enumeration's within 1e-6 on all random instances. Elsewhere the plan is a real one, but may
miss the optimum. Measured as a share of the job's value or of its on-demand bill, whichever is less:

- against the MILP, 3 to 10 slots and up to 4 GPUs, some 150 instances without an exact grid: at most
  5e-7, which is the solver's own tolerance;
- 48 slots and 8 GPUs, Amdahl and power-law speedups; the reference is the same method with a finer grid
  and more labels (six and four times, by the slot six and two times), as the MILP was not run to such
  gaps. On markets that no setting was chosen on: paid by the second, 288 instances, mean 1.4e-5,
  greatest 7.9e-4; paid by the slot, 192 instances, mean 8e-6, greatest 1.2e-3. So 0.1 % holds almost
  always but is not a guarantee; a smaller `accuracy` does not always help, more labels do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slacktide.arrays import Floats, Ints
from slacktide.compiled import compiled
from slacktide.errors import InputError, shown
from slacktide.market.base import Pool
from slacktide.solve.follow import solve_starts
from slacktide.solve.frame import Frame, frame
from slacktide.solve.memory import empty_edge, empty_future, empty_labels, empty_values
from slacktide.solve.sweep import NEVER
from slacktide.types import Job

COLUMNS = (
    "cost_usd", "finish_hours", "spot_gpu_hours", "on_demand_gpu_hours",
    "preemptions", "lost_gpu_hours", "slots",
)  # fmt: skip
"""The columns of `clairvoyant_table`, the same as those of the batch back-test."""

ACCURACY = 1e-3
"""The default cell of the grid, as a share of the job's work, where no exact grid exists."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What to hold in each slot, and what comes of it."""

    pool: str
    start_slot: int
    spot_gpus: Ints
    """GPUs held in each slot from the start until the job is done; those after the deadline included."""
    on_demand_gpus: Ints
    cost_usd: float
    utility_usd: float
    """The result's value less its cost."""
    finish_hours: float
    on_time: bool
    estimate_usd: float
    """What the grid promised for the utility; equal to it where the grid is exact."""
    exact: bool
    """Whether no amount of work was rounded."""

    @property
    def slots(self) -> int:
        """How many slots the plan lasts."""
        return len(self.spot_gpus)


def clairvoyant(job: Job, pool: Pool, start: int = 0, *, accuracy: float = ACCURACY) -> Plan:
    """Return the best plan for a job on a pool whose quotes are all known.

    Where progress has no common step, work left is kept on a grid with cells of `accuracy` times the work.
    Raises InputError when the pool does not reach to the deadline or the job has too many holdings.
    """
    numbers = frame(job, pool.slot_hours, accuracy)
    kernel = compiled(solve_starts)
    spot, on_demand, table, promised = solve_with(kernel, numbers, job, pool, (start,))
    cost, finish, slots = float(table[0, 0]), float(table[0, 1]), int(table[0, 6])
    value = job.value_at(finish)
    in_time = job.on_time(finish)
    return Plan(
        pool=pool.name,
        start_slot=start,
        spot_gpus=spot[:slots],
        on_demand_gpus=on_demand[:slots],
        cost_usd=cost,
        utility_usd=value - cost,
        finish_hours=finish,
        on_time=in_time,
        estimate_usd=_estimate(numbers, job, float(promised[0]), value - cost),
        exact=numbers.exact,
    )


def clairvoyant_table(job: Job, pool: Pool, starts: Sequence[int], *, accuracy: float = ACCURACY) -> Floats:
    """Solve a job from many starts, compiled; one row per start, columns as in COLUMNS."""
    numbers = frame(job, pool.slot_hours, accuracy)
    return solve_with(compiled(solve_starts), numbers, job, pool, starts)[2]


def solve_with(
    kernel: Callable[..., None], numbers: Frame, job: Job, pool: Pool, starts: Sequence[int]
) -> tuple[Ints, Ints, Floats, Floats]:
    """Solve from each start with `solve_starts`, plain or compiled.

    Returns the last plan's two series, the table, and what the grid promised for each start.
    """
    last = len(pool) - numbers.terms.deadline_slots
    for start in (min(starts, default=0), max(starts, default=0)):
        if not 0 <= start <= last:
            raise InputError(
                f"pool {shown(pool.name)}: a start must leave {job.deadline_hours:g} h of market, so lie in "
                f"0..{last}, got slot {start}; use a longer market or a nearer deadline"
            )
    future = empty_future(numbers)
    spot, on_demand = np.zeros_like(future.spot_gpus), np.zeros_like(future.spot_gpus)
    table, promised = np.empty((len(starts), len(COLUMNS))), np.empty(len(starts))
    kernel(
        numbers, pool.spot_usd_per_gpu_hour, pool.on_demand_usd_per_gpu_hour, pool.spot_gpus,
        np.asarray(starts, dtype=np.int64), future, empty_edge(numbers), empty_values(numbers),
        empty_labels(numbers), np.empty_like(spot), spot, on_demand, table, promised,
    )  # fmt: skip
    return spot, on_demand, table, promised


def _estimate(numbers: Frame, job: Job, promised: float, utility: float) -> float:
    """Return what the grid promised as a utility; a plan that cannot be in time is its own estimate."""
    if promised <= 0.5 * NEVER:
        return utility
    return promised + (job.value_usd if numbers.hard else 0.0)
