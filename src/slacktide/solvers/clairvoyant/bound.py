"""How good a plan could be at the most: a bound that needs neither holdings nor a grid.

Let restarts cost nothing, and let work have a price of λ USD per GPU-hour. Then slots do not depend on each
other: with s(n) the concave hull of the speedup, a slot of d hours is worth

    d * max_n ( λ s(n) - what n GPUs cost per hour, spot first where it is cheaper )

and whatever is not done by the deadline is left to the termination configuration. For *every* λ >= 0

    max_R ( V(R) + λ R )  -  λ W  +  the sum over slots of what they are worth

is at least the value less cost of any plan that does the work W, where V(R) is the value less cost of
finishing R GPU-hours after the deadline (Lagrange: a real plan does W - R before it, pays for its pauses
as well, and cannot do better in a slot than the best). The bound is the least over λ. No plan reaches it if
restarts cost something; `lagrangian` has a closer one that takes longer.

As everywhere in the solver, the value of a result that meets a hard deadline is left out of the utility.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.speedup import concave_hull
from slacktide.core.types import Job
from slacktide.solvers.clairvoyant.frame import Future, Numbers, window_hours, worth

STEPS = 60  # steps in the search for the best price of work; each makes its interval smaller by a third
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


class Offers(NamedTuple):
    """What the slots before the deadline offer, by slot."""

    hours: Floats
    cheap_usd: Floats  # per GPU-hour of spot; of on demand where that is cheaper
    usual_usd: Floats
    cheap_gpus: Ints  # how many GPUs there are at the cheap price


class SpeedupHull(NamedTuple):
    """The concave hull of a job's speedup, from no GPU to the widest."""

    gpus: Floats
    rate: Floats

    def best(self, usd: Floats, price: float) -> Floats:
        """Return the most GPUs that pay if a GPU-hour costs `usd` and one of work is worth `price`."""
        falls = -np.diff(self.rate) / np.diff(self.gpus)
        return np.asarray(self.gpus[np.searchsorted(falls, -usd / price)])


class Bound(NamedTuple):
    """The most that the value of a result less its cost can be, and the price of work that shows it."""

    utility_usd: float
    price_usd: float


class Late(NamedTuple):
    """Amounts of work left at the deadline, and what finishing each of them is worth less its cost.

    Between two of them the worth is a straight line, because prices change only from slot to slot.
    """

    gpu_hours: Floats
    utility_usd: Floats

    def head(self, price: float) -> tuple[float, float]:
        """Return the greatest sum of worth and `price` times work, and the amount of work that has it."""
        sums = self.utility_usd + price * self.gpu_hours
        at = int(np.argmax(sums))
        return float(sums[at]), float(self.gpu_hours[at])


def bound(job: Job, frame: Numbers, future: Future) -> Bound:
    """Return what the value of the result less its cost can be at the most, for any plan.

    With a hard deadline only cost counts, and only plans that meet it: if none can, the bound says nothing.
    """
    # Below the lower end no GPU pays, above the upper one all do. The search is over the logarithm, because
    # the ends are many orders of magnitude apart.
    offers, curve, late = _offers(frame, future), _curve(job, frame), late_work(frame, future)
    steepest = max(curve.rate[1] / curve.gpus[1], 1e-300)
    flattest = max(float((np.diff(curve.rate) / np.diff(curve.gpus)).min()), 1e-9 * steepest)
    highest = max(float(offers.usual_usd.max()), 1e-9)

    def above(log_price: float) -> float:
        price = math.exp(log_price)
        return late.head(price)[0] - price * frame.terms.work_gpu_hours + _worth(offers, curve, price)

    at = _least_at(above, math.log(1e-9 * highest / steepest), math.log(4.0 * highest / flattest))
    return Bound(above(at), math.exp(at))


def _least_at(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that first falls and then rises is least, by golden section."""
    inner, outer = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_inner, at_outer = function(inner), function(outer)
    for _ in range(STEPS):
        if at_inner < at_outer:
            high, outer, at_outer = outer, inner, at_inner
            inner = high - _GOLDEN * (high - low)
            at_inner = function(inner)
        else:
            low, inner, at_inner = inner, outer, at_outer
            outer = low + _GOLDEN * (high - low)
            at_outer = function(outer)
    return inner if at_inner < at_outer else outer


def _worth(offers: Offers, curve: SpeedupHull, price: float) -> float:
    """Return what all slots are worth together, with work at a price."""
    cheap, usual = curve.best(offers.cheap_usd, price), curve.best(offers.usual_usd, price)
    gpus = np.maximum(usual, np.minimum(cheap, offers.cheap_gpus))
    bought = np.minimum(gpus, offers.cheap_gpus)
    cost = offers.cheap_usd * bought + offers.usual_usd * (gpus - bought)
    rate = np.interp(gpus, curve.gpus, curve.rate)
    return float((offers.hours * (price * rate - cost)).sum())


def _offers(frame: Numbers, future: Future) -> Offers:
    slots = frame.terms.deadline_slots
    hours = np.full(slots, frame.terms.slot_hours)
    hours[-1] = window_hours(frame, slots - 1)
    spot, on_demand = future.spot_usd[:slots], future.on_demand_usd[:slots]
    gpus = np.where(spot < on_demand, future.spot_gpus[:slots], 0)
    return Offers(hours, np.minimum(spot, on_demand), on_demand, gpus)


def _curve(job: Job, frame: Numbers) -> SpeedupHull:
    points = ((0.0, 0.0), *((float(width), float(frame.terms.rate[width])) for width in job.widths))
    corners = concave_hull(points)
    fastest = max(range(len(corners)), key=lambda place: corners[place][1])
    gpus, rate = (np.array(column) for column in zip(*corners[: fastest + 1], strict=True))
    return SpeedupHull(gpus, rate)


def late_work(frame: Numbers, future: Future) -> Late:
    """Return what finishing work after the deadline is worth; with a hard deadline no work may be left."""
    if frame.hard:
        return Late(np.zeros(1), np.zeros(1))
    terms = frame.terms
    begin, rate = terms.deadline_slots * terms.slot_hours, terms.rate[terms.fastest]
    longest = terms.work_gpu_hours / rate
    hours = np.append(np.arange(0.0, longest, terms.slot_hours), longest)
    worthless = frame.worthless_after_hours - begin
    if 0.0 < worthless < longest:
        hours = np.append(hours, worthless)
    owed = np.interp(hours, np.arange(len(future.owed_usd)) * terms.slot_hours, future.owed_usd)
    values = np.array([worth(frame, begin + one) for one in hours.tolist()])
    worths = values - terms.fastest * owed
    return Late(np.append(0.0, hours * rate), np.append(frame.value_usd, worths))
