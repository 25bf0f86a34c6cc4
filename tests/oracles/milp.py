"""The clairvoyant's problem once more, as a mixed-integer linear programme for HiGHS.

A second opinion for small instances: nothing but the job's own numbers is shared with the dynamic
programme. Build, solve and decode are apart, so that each can be read and tested alone.

Per slot t before the deadline, with h running over holdings (h = none included):

- x[t,h] in {0,1}: the slot's holding. The sum of x over the holdings with more than k spot GPUs says
  whether there are more than k; comparing it for each k with the slot before is tighter than
  comparing counts by a big M;
- add[t] >= more[t,k] - more[t-1,k], of spot and on demand: a worker was added; lost[t] likewise;
- pause[t] >= restart*add[t], shrink*lost[t], left[t]: as shrink <= restart and left <= restart, the
  physics' three cases are just the greatest of the three. Holding nothing needs no case of its own:
  what follows it is a restart;
- long[t] in {0,1}: the pause fills the slot. Then work is forbidden and left[t+1] >= pause[t] - slot;
  else left[t+1] = 0. Without it, a pause left over could be invented to shorten the one served now;
- work[t,h] hours of progress, held[t,h] hours paid; done[t] in {0,1}: the job ends in this slot.
  Before, a slot is paid in full; in it, held = pause + work (per-second billing) or again the slot;
  after it nothing is held.

After the deadline: the last `done` stands for the termination configuration, whose hours are filled
slot by slot in order, because their prices may differ. The value is v before the deadline, then a
falling line, then nothing, with one binary for the kink at nothing. Doing less work than one could,
or pausing longer, is allowed and never pays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import SlacktideError
from slacktide.core.types import TIME_TOLERANCE_HOURS, Job
from slacktide.market.base import Pool
from slacktide.solvers.slotted import slotted

Expression = dict[int, float]


class Status(Enum):
    """How the solver ended."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    LIMIT = "limit"
    """The time limit ended the search; there may be a plan, but it is not proved best."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When the solver may stop."""

    time_limit_s: float = 60.0
    gap_share: float = 1e-9


@dataclass(slots=True)
class Model:
    """A programme under construction: columns, rows, and the names under which columns are found."""

    job: Job
    slots: int
    holdings: list[tuple[int, int]]
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    gain: Expression = field(default_factory=dict)
    """What is maximised."""
    rows: list[tuple[Expression, float, float]] = field(default_factory=list)
    names: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def number(self, *name: Any, high: float = math.inf, low: float = 0.0) -> int:
        """Add a continuous column."""
        self.names[name] = len(self.low)
        self.low.append(low)
        self.high.append(high)
        self.whole.append(0)
        return self.names[name]

    def binary(self, *name: Any, high: float = 1.0) -> int:
        """Add a column that is 0 or 1."""
        column = self.number(*name, high=high)
        self.whole[column] = 1
        return column

    def at_least(self, bound: float, *parts: Iterable[tuple[int, float]]) -> None:
        """Demand that a sum of (column, factor) pairs is no less than a bound."""
        self.rows.append((_sum(parts), bound, math.inf))

    def equal(self, bound: float, *parts: Iterable[tuple[int, float]]) -> None:
        """Demand that a sum of (column, factor) pairs equals a bound."""
        self.rows.append((_sum(parts), bound, bound))

    def pay(self, column: int, usd: float) -> None:
        """Let each unit of a column cost this much."""
        self.gain[column] = self.gain.get(column, 0.0) - usd

    def __getitem__(self, name: tuple[Any, ...]) -> int:
        return self.names[name]


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What the solver found: the status, the utility, and the targets up to the deadline."""

    status: Status
    utility_usd: float
    spot_gpus: Ints
    on_demand_gpus: Ints


def solve(job: Job, pool: Pool, start: int = 0, *, limits: Limits | None = None) -> Solution:
    """Build, solve and decode. Status INFEASIBLE means that a hard deadline cannot be met."""
    model = build(job, pool, start)
    status, columns, utility = run(model, limits or Limits())
    return decode(model, status, columns, utility)


def build(job: Job, pool: Pool, start: int = 0) -> Model:
    """Write the job on this pool as a programme."""
    bare = slotted(job, pool.slot_hours)
    pairs = [(0, 0)] + [(spot, width - spot) for width in job.widths for spot in range(width + 1)]
    model = Model(job, bare.deadline_slots, pairs)
    for slot in range(model.slots):
        _slot(model, pool, start, slot)
    _end(model)
    if not job.hard:
        _termination(model, pool, start)
    else:
        model.at_least(job.work_gpu_hours, _work(model))
    return model


def run(model: Model, limits: Limits) -> tuple[Status, Floats, float]:
    """Hand a programme to HiGHS; returns the status, the columns and the greatest gain."""
    from scipy import optimize, sparse

    count = len(model.low)
    gain = np.zeros(count)
    gain[list(model.gain)] = list(model.gain.values())
    entries = [
        (row, column, factor)
        for row, (parts, _, _) in enumerate(model.rows)
        for column, factor in parts.items()
    ]
    at_row, at_column, factors = zip(*entries, strict=True)
    matrix = sparse.csr_array((factors, (at_row, at_column)), shape=(len(model.rows), count))
    constraint = optimize.LinearConstraint(matrix, [r[1] for r in model.rows], [r[2] for r in model.rows])
    known = {0: Status.OPTIMAL, 1: Status.LIMIT, 2: Status.INFEASIBLE}
    for presolve in (True, False):  # on a few small programmes HiGHS fails with its presolve, and not without
        result = optimize.milp(
            -gain,
            integrality=np.array(model.whole),
            bounds=optimize.Bounds(np.array(model.low), np.array(model.high)),
            constraints=constraint,
            options={
                "time_limit": limits.time_limit_s, "mip_rel_gap": limits.gap_share, "presolve": presolve
            },
        )  # fmt: skip
        if result.status in known:
            break
    if result.status not in known:
        raise SlacktideError(f"HiGHS must end with a known status, got {result.status}: {result.message}")
    if result.x is None:
        return known[result.status], np.zeros(0), -math.inf
    return known[result.status], np.asarray(result.x, dtype=np.float64), -float(result.fun)


def decode(model: Model, status: Status, columns: Floats, utility: float) -> Solution:
    """Read the targets of each slot before the deadline out of the columns."""
    if not len(columns):
        return Solution(status, utility, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    chosen = [
        max(range(len(model.holdings)), key=lambda h: float(columns[model["x", slot, h]]))
        for slot in range(model.slots)
    ]
    spot, on_demand = np.array([model.holdings[h] for h in chosen], dtype=np.int64).T
    # A hard deadline's result is always in time, so its value is no part of the programme.
    return Solution(status, utility + (model.job.value_usd if model.job.hard else 0.0), spot, on_demand)


def _sum(parts: Iterable[Iterable[tuple[int, float]]]) -> Expression:
    total: Expression = {}
    for part in parts:
        for column, factor in part:
            total[column] = total.get(column, 0.0) + factor
    return total


def _slot(model: Model, pool: Pool, start: int, slot: int) -> None:
    """Add one slot: its holding, the change of workers, the pause, the work and the bill."""
    job, hours = model.job, pool.slot_hours
    quote = pool.quote(start + slot)
    for h, (spot, on_demand) in enumerate(model.holdings):
        column = model.binary("x", slot, h, high=1.0 if spot <= quote.spot_gpus else 0.0)
        model.number("work", slot, h, high=hours)
        price = quote.spot_usd_per_gpu_hour * spot + quote.on_demand_usd_per_gpu_hour * on_demand
        if job.billing == "slot":
            model.pay(column, price * hours)
        else:
            model.pay(model.number("held", slot, h, high=hours), price)
    model.equal(1.0, [(model["x", slot, h], 1.0) for h in range(len(model.holdings))])
    _change(model, slot)
    _pause(model, slot, hours)
    _production(model, slot, hours)


def _more(model: Model, slot: int, kind: int, than: int, sign: float) -> list[tuple[int, float]]:
    """Return the sum that is 1 when a slot holds more than this many GPUs of a kind."""
    if slot < 0:
        return []
    return [(model["x", slot, h], sign) for h, pair in enumerate(model.holdings) if pair[kind] > than]


def _change(model: Model, slot: int) -> None:
    """Note whether workers were added or lost at a slot's start."""
    add, lost = model.binary("add", slot), model.binary("lost", slot)
    for kind in (0, 1):
        for than in range(model.job.max_gpus):
            now, before = _more(model, slot, kind, than, 1.0), _more(model, slot - 1, kind, than, 1.0)
            model.at_least(0.0, [(add, 1.0)], [(c, -f) for c, f in now], before)
            model.at_least(0.0, [(lost, 1.0)], now, [(c, -f) for c, f in before])


def _pause(model: Model, slot: int, hours: float) -> None:
    """Tie the pause of a slot to its causes, and what is left of it to the next slot."""
    job = model.job
    shrink = job.restart_hours if job.shrink_hours is None else job.shrink_hours
    pause = model.number("pause", slot, high=job.restart_hours)
    model.at_least(0.0, [(pause, 1.0), (model["add", slot], -job.restart_hours)])
    model.at_least(0.0, [(pause, 1.0), (model["lost", slot], -shrink)])
    if slot > 0:
        model.at_least(0.0, [(pause, 1.0), (model["left", slot], -1.0)])
    overflow = max(0.0, job.restart_hours - hours)
    left = model.number("left", slot + 1, high=overflow)
    long = model.binary("long", slot, high=1.0 if overflow > 0.0 else 0.0)
    model.at_least(-hours, [(left, 1.0), (pause, -1.0)])
    model.at_least(0.0, [(long, overflow), (left, -1.0)])


def _production(model: Model, slot: int, hours: float) -> None:
    """Bound the work of a slot by its holding and its pause, and say what is paid."""
    job = model.job
    done = model.binary("done", slot)
    window = hours
    if job.hard and slot == model.slots - 1:
        window = min(hours, job.deadline_hours + 0.5 * TIME_TOLERANCE_HOURS - slot * hours)
    busy = range(1, len(model.holdings))
    work = [(model["work", slot, h], 1.0) for h in busy]
    pause, left, long = model["pause", slot], model["left", slot + 1], model["long", slot]
    model.at_least(-window, [(c, -f) for c, f in work], [(long, -window)])
    # Nothing can be held under any pause; something held under one longer than the window is useless.
    useless = max(0.0, job.restart_hours - window)
    model.at_least(
        -window, [(c, -f) for c, f in work], [(pause, -1.0), (left, 1.0), (model["x", slot, 0], useless)]
    )
    for h in busy:
        model.at_least(0.0, [(model["x", slot, h], window), (model["work", slot, h], -1.0)])
    if job.billing == "slot":
        return
    for h in busy:
        held = model["held", slot, h]
        model.at_least(0.0, [(model["x", slot, h], hours), (held, -1.0)])
        model.at_least(0.0, [(held, 1.0), (model["x", slot, h], -hours), (done, hours)])
    model.at_least(
        0.0,
        [(model["held", slot, h], 1.0) for h in busy],
        [(c, -f) for c, f in work],
        [(pause, -1.0), (left, 1.0), (model["x", slot, 0], job.restart_hours)],
        [(long, job.restart_hours)],
    )


def _work(model: Model) -> list[tuple[int, float]]:
    """Return the sum that is the progress made before the deadline."""
    return [
        (model["work", slot, h], model.job.speedup(spot + on_demand))
        for slot in range(model.slots)
        for h, (spot, on_demand) in enumerate(model.holdings)
        if h > 0
    ]


def _end(model: Model) -> None:
    """Let the job end once, and hold nothing after that; the last `done` is the termination configuration."""
    model.binary("done", model.slots, high=0.0 if model.job.hard else 1.0)
    model.equal(1.0, [(model["done", slot], 1.0) for slot in range(model.slots + 1)])
    for slot in range(1, model.slots):
        model.at_least(0.0, [(model["x", slot, 0], 1.0)], [(model["done", t], -1.0) for t in range(slot)])


def _termination(model: Model, pool: Pool, start: int) -> None:
    """Add what a soft deadline allows after itself: the rest of the work, its bill and its lower value."""
    job, hours = model.job, pool.slot_hours
    late, fastest = model["done", model.slots], job.fastest_width
    shrink = job.restart_hours if job.shrink_hours is None else job.shrink_hours
    longest = job.restart_hours + job.work_gpu_hours / job.speedup(fastest)
    rest = model.number("rest", high=job.work_gpu_hours)
    model.at_least(job.work_gpu_hours, _work(model), [(rest, 1.0)])
    model.at_least(0.0, [(late, job.work_gpu_hours), (rest, -1.0)])
    pause = model.number("pause", "late", high=job.restart_hours)
    needed = model.number("needed", high=longest)
    before = model.slots - 1
    model.at_least(0.0, [(pause, 1.0), (model["left", model.slots], -1.0)])
    for h, (spot, on_demand) in enumerate(model.holdings):
        least = job.restart_hours if on_demand < fastest else shrink
        if (spot, on_demand) != (0, fastest):
            model.at_least(0.0, [(pause, 1.0), (model["x", before, h], -least)])
    model.at_least(
        -longest, [(needed, 1.0), (pause, -1.0), (rest, -1.0 / job.speedup(fastest)), (late, -longest)]
    )
    _late_bill(model, pool, start, needed, longest)
    _value(model, hours, needed, longest)


def _late_bill(model: Model, pool: Pool, start: int, needed: int, longest: float) -> None:
    """Fill the slots after the deadline in order and pay them at their own prices."""
    hours, whole = pool.slot_hours, model.job.billing == "slot"
    slots = math.ceil(longest / hours - 1e-9)
    for k in range(slots):
        price = pool.quote(start + model.slots + k).on_demand_usd_per_gpu_hour * model.job.fastest_width
        filled, begun = model.number("late", k, high=hours), model.binary("begun", k)
        model.pay(begun if whole else filled, price * hours if whole else price)
        model.at_least(0.0, [(begun, hours), (filled, -1.0)])
        if k > 0:
            model.at_least(0.0, [(model["late", k - 1], 1.0), (begun, -hours)])
    model.at_least(0.0, [(model["late", k], 1.0) for k in range(slots)], [(needed, -1.0)])


def _value(model: Model, hours: float, needed: int, longest: float) -> None:
    """Add the value: full until the deadline, then along a falling line, at last nothing."""
    job, last = model.job, model.slots - 1
    assert job.worthless_after_hours is not None
    grace = job.worthless_after_hours - job.deadline_hours
    finish = model.number("finish", high=model.slots * hours + longest)
    straddling, late = model["done", last], model["done", last + 1]
    work = [(model["work", last, h], -1.0) for h in range(1, len(model.holdings))]
    model.at_least(
        last * hours - (model.slots * hours),
        [(finish, 1.0), (model["pause", last], -1.0), (model["left", last + 1], 1.0)],
        work,
        [(straddling, -model.slots * hours)],
    )
    begin = model.slots * hours
    model.at_least(0.0, [(finish, 1.0), (needed, -1.0), (late, -begin)])
    value = model.number("value", high=job.value_usd)
    model.gain[value] = 1.0
    slope, worthless = job.value_usd / grace, model.binary("worthless")
    most_late = slope * (begin + longest)
    # value <= v - slope * (finish - deadline), unless worthless
    model.at_least(
        -job.value_usd - slope * job.deadline_hours,
        [(value, -1.0), (finish, -slope), (worthless, most_late)],
    )
    model.at_least(-job.value_usd, [(value, -1.0), (worthless, -job.value_usd)])
