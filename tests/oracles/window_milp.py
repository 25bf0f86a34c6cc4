"""The window programme once more, as a mixed-integer linear programme for HiGHS.

A second opinion for small windows: it shares the job's own numbers with the dynamic programme, and
the way a programme is written down and handed to HiGHS with the clairvoyant's (`milp`), nothing
else. Per slot k of the window, h running over holdings:

- x[k,h] in {0,1}: the slot's holding;
- add[k], lost[k] in {0,1}: workers came or went; the holding at the window's start is given;
- pause[k] >= restart * add[k], shrink * lost[k], left[k]: as no pause exceeds a restart, the three
  cases of the physics are the greatest of the three;
- long[k] in {0,1}: the pause fills the slot, which then does no work; left[k+1] is the rest of it;
- work[k,h] hours of progress, held[k,h] hours paid; done[k] in {0,1}: the job ends in this slot,
  which is then paid until the work is done, and nothing is held after it.
"""

from __future__ import annotations

from dataclasses import dataclass

from slacktide.core.quotes import Quote
from slacktide.core.types import Job, JobState
from slacktide.solvers.slotted import slotted
from tests.oracles.milp import Limits, Model, Status, run

MOST_WORK_USD = 1e5
"""What a GPU-hour is worth where nothing but work counts, and cost among equals."""


@dataclass(frozen=True, slots=True)
class Window:
    """A job in the middle of its work, and quotes for the slots to come."""

    job: Job
    slot_hours: float
    state: JobState
    """What the first slot's market has left of what was held."""
    slot: int
    quotes: tuple[Quote, ...]
    reserve_usd: float
    """What a GPU-hour of work beyond the line is worth."""

    @property
    def slots(self) -> int:
        """How many slots lie before the deadline."""
        return min(len(self.quotes), slotted(self.job, self.slot_hours).deadline_slots - self.slot)

    def hours(self, k: int) -> float:
        """How much of a slot of the window lies before the deadline."""
        return min(self.slot_hours, self.job.deadline_hours - (self.slot + k) * self.slot_hours)

    @property
    def line_gpu_hours(self) -> float:
        """The work to be done by the end of the window."""
        return self.job.line_gpu_hours((self.slot + self.slots) * self.slot_hours)


@dataclass(frozen=True, slots=True)
class Optimum:
    """What the best plan comes to."""

    reachable: bool
    """Whether any plan ends on the line."""
    progress_gpu_hours: float
    cost_usd: float


def solve(window: Window, *, limits: Limits | None = None) -> Optimum:
    """Return what the best plan of a window comes to."""
    limits = limits or Limits()
    done = window.state.progress_gpu_hours
    model = build(window)
    work = _work(window, model)
    model.at_least(window.line_gpu_hours - done, work)
    for column, rate in work:
        model.gain[column] = model.gain.get(column, 0.0) + window.reserve_usd * rate
    status, columns, value = run(model, limits)
    if status is Status.OPTIMAL:
        progress = sum(float(columns[column]) * rate for column, rate in work)
        return Optimum(True, done + progress, window.reserve_usd * progress - value)
    return _most_progress(window, limits)


def _most_progress(window: Window, limits: Limits) -> Optimum:
    """Return the cheapest of the plans of most progress."""
    model = build(window)
    work = _work(window, model)
    prices = dict(model.gain)
    for column, rate in work:
        model.gain[column] = MOST_WORK_USD * rate
    _, columns, _ = run(model, limits)
    progress = sum(float(columns[column]) * rate for column, rate in work)
    cost = -sum(float(columns[column]) * price for column, price in prices.items())
    return Optimum(False, window.state.progress_gpu_hours + progress, cost)


def build(window: Window) -> Model:
    """Write a window as a programme without its limits on progress."""
    job = window.job
    pairs = [(0, 0)] + [(spot, width - spot) for width in job.widths for spot in range(width + 1)]
    model = Model(job, window.slots, pairs)
    model.number("left", 0, low=window.state.pause_hours, high=window.state.pause_hours)
    for k in range(window.slots):
        _hold(window, model, k)
        _change(window, model, k)
        _pause(window, model, k)
        _produce(window, model, k)
    ends = [model["done", k] for k in range(window.slots)]
    left = job.work_gpu_hours - window.state.progress_gpu_hours
    work = _work(window, model)
    model.at_least(-left, [(column, -rate) for column, rate in work])
    model.at_least(-1.0, [(end, -1.0) for end in ends])
    model.at_least(0.0, work, [(end, -left) for end in ends])
    for k in range(1, window.slots):
        model.at_least(0.0, [(model["x", k, 0], 1.0)], [(end, -1.0) for end in ends[:k]])
    return model


def _work(window: Window, model: Model) -> list[tuple[int, float]]:
    """Return the sum that is the window's progress."""
    return [
        (model["work", k, h], window.job.speedup(sum(pair)))
        for k in range(window.slots)
        for h, pair in enumerate(model.holdings)
        if h > 0
    ]


def _hold(window: Window, model: Model, k: int) -> None:
    """Choose a slot's holding and say what it costs per hour."""
    quote, hours = window.quotes[k], window.hours(k)
    for h, (spot, on_demand) in enumerate(model.holdings):
        x = model.binary("x", k, h, high=1.0 if spot <= quote.spot_gpus else 0.0)
        model.number("work", k, h, high=hours)
        usd_per_hour = quote.spot_usd_per_gpu_hour * spot + quote.on_demand_usd_per_gpu_hour * on_demand
        if window.job.billing == "slot":
            model.pay(x, usd_per_hour * window.slot_hours)
        else:
            model.pay(model.number("held", k, h, high=hours), usd_per_hour)
    model.equal(1.0, [(model["x", k, h], 1.0) for h in range(len(model.holdings))])
    model.binary("done", k)


def _change(window: Window, model: Model, k: int) -> None:
    """Note whether workers came or went: for each n, are there more than n now, were there before?"""
    add, lost = model.binary("add", k), model.binary("lost", k)
    start = (window.state.spot_gpus, window.state.on_demand_gpus)
    for kind in (0, 1):
        for n in range(window.job.max_gpus):
            more = [h for h, pair in enumerate(model.holdings) if pair[kind] > n]
            now = [(model["x", k, h], 1.0) for h in more]
            before = [(model["x", k - 1, h], 1.0) for h in more] if k > 0 else []
            given = float(start[kind] > n) if k == 0 else 0.0
            model.at_least(-given, [(add, 1.0)], [(c, -1.0) for c, _ in now], before)
            model.at_least(given, [(lost, 1.0)], now, [(c, -1.0) for c, _ in before])


def _pause(window: Window, model: Model, k: int) -> None:
    """Tie a slot's pause to its causes, and what is left of it to the next slot."""
    bare, hours = slotted(window.job, window.slot_hours), window.hours(k)
    pause = model.number("pause", k, high=bare.restart_hours)
    model.at_least(0.0, [(pause, 1.0), (model["add", k], -bare.restart_hours)])
    model.at_least(0.0, [(pause, 1.0), (model["lost", k], -bare.shrink_hours)])
    model.at_least(0.0, [(pause, 1.0), (model["left", k], -1.0)])
    overflow = max(0.0, bare.restart_hours - hours)
    left = model.number("left", k + 1, high=overflow)
    long = model.binary("long", k, high=1.0 if overflow > 0.0 else 0.0)
    model.at_least(-hours, [(left, 1.0), (pause, -1.0)])
    model.at_least(0.0, [(long, overflow), (left, -1.0)])


def _produce(window: Window, model: Model, k: int) -> None:
    """Bound a slot's work by its holding and its pause, and say what is paid."""
    hours, restart = window.hours(k), window.job.restart_hours
    busy = range(1, len(model.holdings))
    work = [(model["work", k, h], 1.0) for h in busy]
    idle, done, long = model["x", k, 0], model["done", k], model["long", k]
    served = [(model["pause", k], 1.0), (model["left", k + 1], -1.0)]
    model.at_least(-hours, [(c, -f) for c, f in [*work, *served]], [(idle, restart)])
    model.at_least(-hours, [(c, -f) for c, f in work], [(long, -hours)])
    for h in busy:
        model.at_least(0.0, [(model["x", k, h], hours), (model["work", k, h], -1.0)])
    if window.job.billing == "slot":
        return
    for h in busy:
        held = model["held", k, h]
        model.at_least(0.0, [(model["x", k, h], hours), (held, -1.0)])
        model.at_least(0.0, [(held, 1.0), (model["x", k, h], -hours), (done, hours)])
    held_hours = [(model["held", k, h], 1.0) for h in busy]
    model.at_least(
        0.0, held_hours, [(c, -f) for c, f in [*work, *served]], [(idle, restart), (long, restart)]
    )
