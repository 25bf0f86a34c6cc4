"""The clairvoyant optimum: the best that could have been done on a market, had it been known.

It is the yardstick of every report. Given all quotes, it chooses spot and on-demand GPUs for each slot
so as to maximise the result's value less its cost (hard deadline: the least cost among the plans in
time). It is a dynamic programme over (slot, spot, on demand, pause left, work left): `frame` describes
its numbers, `sweep` the recursion, `forward_run` how the plan is found and run through the true physics.
The tests solve the same problem by a mixed-integer programme and by enumeration, and compare the results.

What it leaves out, in the job's favour, so that it stays a bound for what any policy can reach:

- *checkpoint losses*: a job that knows when spot goes checkpoints just before, so no forced loss takes work;
- *the maximum cost* of a job (`max_cost_usd`) is not enforced;
- *stock-outs*: on-demand GPUs are assumed to be there, even where the trace says that they were not.

If even so a hard deadline cannot be met, the plan is the fastest width on demand from the first slot on,
and not on time.

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

**Wide jobs.** The time grows with the holdings, of which a job of up to n GPUs has n²/2. Where the grid would
take longer than `EFFORT_S` over all starts, work gets a price (`lagrangian`, `wide`): the plan is still a
real one, and `spare_usd` says what the best one could gain at the most, by a bound that holds for every plan.
Measured on 1..32 and 1..40 GPUs, against the grid, 120 instances, restarts up to half an hour: the plan
cost 1.2 % more than the grid's on average, 18 % at the most; the bound was never passed, and lay
1.8 % from the plan on average. For 100 and 1,000 GPUs (12 and 8 instances) that was 1.3 and 2.5 %, in at
most half a second of CPU a start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compiled
from slacktide.core.errors import InputError, shown
from slacktide.core.types import Job
from slacktide.market.base import Pool
from slacktide.solvers.clairvoyant.forward_run import BEAM, empty_labels, empty_values, solve_starts
from slacktide.solvers.clairvoyant.frame import NEVER, JobFrame, empty_edge, empty_future, frame
from slacktide.solvers.clairvoyant.wide import WideSolver
from slacktide.solvers.slotted import deadline_slots

Thing = TypeVar("Thing")

PART = 16  # starts that are solved together on the grid between two reports of how many are done

COLUMNS = (
    "cost_usd", "finish_hours", "spot_gpu_hours", "on_demand_gpu_hours",
    "preemptions", "lost_gpu_hours", "slots",
)  # fmt: skip
"""The columns of a yardstick's table, the same as those of the batch back-test."""

EFFORT_S = 10.0
"""Seconds of CPU that all starts of one job may take on the grid together; beyond, its work is priced ..."""

LEAST_EFFORT_S = 0.05
"""... but a start that takes no longer than this is solved on the grid, however many there are."""

ACCURACY = 1e-3  # the default cell of the grid, as a share of the job's work, where no exact grid exists


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What to hold in each slot, what that costs, and when the job is done."""

    pool: str
    start_slot: int
    spot_gpus: Ints
    """GPUs held in each slot from the start until the job is done; those after the deadline included."""
    on_demand_gpus: Ints
    cost_usd: float
    utility_usd: float  # the result's value less its cost
    finish_hours: float
    on_time: bool
    estimate_usd: float  # what the grid promised for the utility; equal to it where the grid is exact
    exact: bool  # whether no amount of work was rounded
    spare_usd: float | None = None
    """What the best plan could gain over this one at the most; None where the grid was solved (see above)."""

    @property
    def slots(self) -> int:
        """How many slots the plan lasts."""
        return len(self.spot_gpus)


class Yardstick(NamedTuple):
    """What the clairvoyant would do from many starts."""

    table: Floats  # one row per start, columns as in COLUMNS
    spare_usd: Floats | None
    """By start, what the best plan could gain over this one at the most; None where the grid was solved."""


def clairvoyant(job: Job, pool: Pool, start: int = 0, *, accuracy: float = ACCURACY, among: int = 1) -> Plan:
    """Return the best plan for a job on a pool whose quotes are all known.

    Where progress has no common step, work left is kept on a grid with cells of `accuracy` times the work.
    `among` is the number of starts that share the computing time, so that all are solved in the same way.
    Raises InputError when the pool does not reach to the deadline or the job has too many pauses.
    """
    if not fits(job, pool.slot_hours, accuracy, effort_s(among)):
        return _wide_plan(job, pool, start, among)
    numbers = frame(job, pool.slot_hours, accuracy)
    kernel = compiled(solve_starts)
    spot, on_demand, table, promised = solve_with(kernel, numbers, job, pool, (start,))
    plan = _plan(job, pool, start, spot, on_demand, table[0])
    estimate = _estimate(numbers, job, float(promised[0]), plan.utility_usd)
    return replace(plan, estimate_usd=estimate, exact=numbers.exact)


def yardstick(
    job: Job,
    pool: Pool,
    starts: Sequence[int],
    *,
    accuracy: float = ACCURACY,
    among: int | None = None,
    report: Callable[[int], None] | None = None,
) -> Yardstick:
    """Solve a job from many starts; `report` receives how many of them are done.

    `among` is the number of starts that share the computing time, if these are only some of them.
    """
    _check_starts(job, pool, starts)
    count = among or len(starts)
    report = report or (lambda done: None)
    if not fits(job, pool.slot_hours, accuracy, effort_s(count)):
        solver = WideSolver(job, pool, effort_s(count))
        solved = [solver.solve(start) for start in _counted(starts, report)]
        rows = np.array([one.row for one in solved]).reshape(-1, len(COLUMNS))
        return Yardstick(rows, np.array([one.spare_usd for one in solved]))
    numbers, kernel = frame(job, pool.slot_hours, accuracy), compiled(solve_starts)
    parts = [starts[at : at + PART] for at in range(0, len(starts), PART)]
    tables = [solve_with(kernel, numbers, job, pool, part)[2] for part in _counted(parts, report)]
    return Yardstick(np.concatenate([np.empty((0, len(COLUMNS))), *tables]), None)


def effort_s(count: int) -> float:
    """Return how many seconds of CPU one of this many starts may take on the grid."""
    return max(LEAST_EFFORT_S, EFFORT_S / max(count, 1))


def _counted(things: Sequence[Thing], report: Callable[[int], None]) -> Iterator[Thing]:
    """Yield things, and report after each how many starts have been solved."""
    done = 0
    for thing in things:
        yield thing
        done += len(thing) if isinstance(thing, Sequence) else 1
        report(done)


def _wide_plan(job: Job, pool: Pool, start: int, among: int) -> Plan:
    _check_starts(job, pool, (start,))
    solved = WideSolver(job, pool, effort_s(among)).solve(start)
    plan = _plan(job, pool, start, solved.spot_gpus, solved.on_demand_gpus, solved.row)
    return replace(plan, spare_usd=solved.spare_usd)


def _plan(job: Job, pool: Pool, start: int, spot: Ints, on_demand: Ints, row: Floats) -> Plan:
    cost, finish, slots = float(row[0]), float(row[1]), int(row[6])
    utility = job.value_at(finish) - cost
    return Plan(
        pool=pool.name,
        start_slot=start,
        spot_gpus=spot[:slots],
        on_demand_gpus=on_demand[:slots],
        cost_usd=cost,
        utility_usd=utility,
        finish_hours=finish,
        on_time=job.on_time(finish),
        estimate_usd=utility,
        exact=False,
    )


def _check_starts(job: Job, pool: Pool, starts: Sequence[int]) -> None:
    """Raise InputError unless the pool covers the job from each start to its deadline."""
    last = len(pool) - deadline_slots(job, pool.slot_hours)
    for start in (min(starts, default=0), max(starts, default=0)):
        if not 0 <= start <= last:
            raise InputError(
                f"pool {shown(pool.name)}: a start must leave {job.deadline_hours:g} h of market, so lie in "
                f"0..{last}, got slot {start}; use a longer market or an earlier deadline"
            )


def solve_with(
    kernel: Callable[..., None], numbers: JobFrame, job: Job, pool: Pool, starts: Sequence[int]
) -> tuple[Ints, Ints, Floats, Floats]:
    """Solve from each start with `solve_starts`, plain or compiled.

    Returns the last plan's two series, the table, and what the grid promised for each start.
    """
    _check_starts(job, pool, starts)
    future = empty_future(numbers)
    spot, on_demand = np.zeros_like(future.spot_gpus), np.zeros_like(future.spot_gpus)
    table, promised = np.empty((len(starts), len(COLUMNS))), np.empty(len(starts))
    kernel(
        numbers, pool.spot_usd_per_gpu_hour, pool.on_demand_usd_per_gpu_hour, pool.spot_gpus,
        np.asarray(starts, dtype=np.int64), future, empty_edge(numbers), empty_values(numbers),
        empty_labels(numbers), np.empty_like(spot), spot, on_demand, table, promised,
    )  # fmt: skip
    return spot, on_demand, table, promised


def _estimate(numbers: JobFrame, job: Job, promised: float, utility: float) -> float:
    """Return what the grid promised as a utility; for a plan that cannot be in time, its own utility."""
    if promised <= 0.5 * NEVER:
        return utility
    return promised + (job.value_usd if numbers.hard else 0.0)


MOST_HOLDINGS = 1_500  # for more holdings than this (54 GPUs) no grid is even tried

POINT_NS, LABEL_NS, PAIR_NS = 1.4, 40.0, 1.0
"""About what a grid point, a label and a pair of holdings cost, in nanoseconds of CPU."""


def fits(job: Job, slot_hours: float, accuracy: float, effort_s: float) -> bool:
    """Whether one start can be solved on the grid within about that many seconds of CPU."""
    if 1 + sum(width + 1 for width in job.widths) > MOST_HOLDINGS:
        return False
    try:
        return grid_s(frame(job, slot_hours, accuracy)) <= effort_s
    except InputError:
        return not 0.0 < accuracy <= 1.0  # the caller's mistake, which the grid itself then reports


def grid_s(numbers: JobFrame) -> float:
    """Return about how long one start takes on the grid, in seconds of CPU."""
    holdings, pauses = len(numbers.spot), numbers.pauses
    lefts = len(pauses.left_hours)
    shrinks = bool((pauses.shrink[pauses.stay] != pauses.restart).any())
    labels = 1 if numbers.exact else BEAM * (2 if numbers.terms.whole_slots else 1)
    points = (numbers.last + 1) * lefts * (2 if shrinks else 1)
    pairs = holdings * lefts if shrinks and numbers.hard else 0
    state_ns = POINT_NS * points + LABEL_NS * labels + PAIR_NS * pairs
    return 1e-9 * numbers.terms.deadline_slots * holdings * state_ns
