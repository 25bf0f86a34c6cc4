"""Stretches of time in which nothing changes, and the bills and audits that are computed from them.

A `Stretch` says who held which GPUs from when to when, at which quote, and how long they paused and worked.
Back-test, simulator and engine all let time pass with `live` and keep `Priced` stretches; bills, GPU-hours
and tables are sums over them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from functools import reduce
from operator import add
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from slacktide.core.compiled import inlined
from slacktide.core.quotes import Quote
from slacktide.core.types import STOP, TIME_TOLERANCE_HOURS, JobState
from slacktide.physics.progress import Passed, Terms, next_end_hours, pass_time
from slacktide.physics.tariff import Charge, Meter, Tariff, price, reach_hours

CENT_USD = 0.005  # two sums that differ by less than this are the same to the cent

Use: TypeAlias = Literal["work", "boot", "idle", "rounding"]
"""Machines without work cost money too: they boot, are kept idle, or are the unused rest of a rented node."""


class Stretch(NamedTuple):
    """A time in which nothing changed: who held which GPUs, at which quote, and what they did."""

    payer: str  # the job's id; empty for the site itself, which pays for machines that boot, idle or round up
    use: Use
    slot: int  # of the market; the same number for everybody
    from_hours: float
    to_hours: float
    held_hours: float
    """What is paid by the second; kept as a number because `to - from` differs from it in the last bits."""
    pool: str
    spot_gpus: int
    on_demand_gpus: int  # what was really held and is paid, not what was ordered
    quote: Quote
    pause_hours: float = 0.0
    productive_hours: float = 0.0
    gained_gpu_hours: float = 0.0
    estimated: bool = False  # whether progress was computed by physics rather than reported

    @property
    def gpus(self) -> int:
        """The width held: spot and on demand together."""
        return self.spot_gpus + self.on_demand_gpus


class Priced(NamedTuple):
    """A stretch with what it cost. The journal keeps this, so a later tariff cannot rewrite a bill."""

    stretch: Stretch
    charge: Charge


class Outcome(NamedTuple):
    """What `live` did: the job and its meter afterwards, what it cost, and how the time was spent."""

    state: JobState
    meter: Meter
    charge: Charge
    passed: Passed


@inlined
def live(
    terms: Terms,
    tariff: Tariff,
    max_cost_usd: float,
    state: JobState,
    meter: Meter,
    slot: int,
    from_hours: float,
    hours: float,
    quote: Quote,
    pool: int,
    spot: int,
    on_demand: int,
    move_usd: float = 0.0,
) -> Outcome:
    """Let up to `hours` of one slot pass with one holding, and price them and a move to its pool, if any.

    The stretch is shorter if the work is done before, or if the money runs out or a job reaches the deadline
    at which it stops: in these two cases the job checkpoints, stops and is exhausted.
    """
    # A job that stops at its deadline is cut a tolerance after it, so that work due right then is done.
    ends = terms.deadline_hours + TIME_TOLERANCE_HOURS - from_hours
    last = terms.after_deadline == STOP and ends <= hours + 2 * TIME_TOLERANCE_HOURS
    limit = min(hours, max(0.0, ends)) if last else hours
    reach = np.inf
    # The move is paid as the stretch begins, so it shortens what the money reaches.
    if max_cost_usd < np.inf:
        left = max_cost_usd - state.cost_usd - move_usd
        reach = reach_hours(tariff, meter, slot, pool, quote, spot, on_demand, left)
    after, passed = pass_time(terms, state, from_hours, min(limit, reach), pool, spot, on_demand)
    held = passed.hours if spot + on_demand > 0 else 0.0
    charge, meter = price(tariff, meter, slot, pool, quote, spot, on_demand, held, move_usd)
    # Work that ends within the tolerance after the deadline is in time, so the job may finish it.
    stops = reach < limit or (last and next_end_hours(terms, after) > TIME_TOLERANCE_HOURS)
    exhausted = stops and after.finish_hours == np.inf
    return Outcome(_paid(after, charge, exhausted), meter, charge, passed)


def priced(
    payer: str,
    pool: str,
    slot: int,
    from_hours: float,
    quote: Quote,
    spot: int,
    on_demand: int,
    charge: Charge,
    passed: Passed,
    gained_gpu_hours: float,
    *,
    estimated: bool,
) -> Priced:
    """Return the stretch of work that `live` let pass, with what it cost."""
    stretch = Stretch(
        payer=payer,
        use="work",
        slot=int(slot),
        from_hours=float(from_hours),
        to_hours=float(from_hours + passed.hours),
        held_hours=float(passed.hours) if spot + on_demand else 0.0,
        pool=pool,
        spot_gpus=int(spot),
        on_demand_gpus=int(on_demand),
        quote=quote,
        pause_hours=float(passed.pause_hours),
        productive_hours=float(passed.productive_hours),
        gained_gpu_hours=float(gained_gpu_hours),
        estimated=estimated,
    )
    return Priced(stretch, Charge(*map(float, charge)))


@inlined
def _paid(state: JobState, charge: Charge, exhausted: bool) -> JobState:
    """Return the state with a charge added; an exhausted job has checkpointed and let go of its GPUs."""
    cost = state.cost_usd + charge.usd
    done = state.progress_gpu_hours
    return JobState(
        0 if exhausted else state.spot_gpus,
        0 if exhausted else state.on_demand_gpus,
        state.pool,
        0.0 if exhausted else state.pause_hours,
        done,
        done if exhausted else state.checkpointed_gpu_hours,
        0.0 if exhausted else state.since_checkpoint_hours,
        cost,
        state.finish_hours,
        exhausted,
    )


@dataclass(frozen=True, slots=True)
class StretchSums:
    """Sums over stretches: of a job, a class, a month or a whole site."""

    spot_usd: float = 0.0
    on_demand_usd: float = 0.0
    move_usd: float = 0.0
    spot_gpu_hours: float = 0.0
    on_demand_gpu_hours: float = 0.0
    pause_gpu_hours: float = 0.0  # of these, held without progress
    idle_gpu_hours: float = 0.0  # of these, held by no job: machines that boot, idle or round up
    rounding_gpu_hours: float = 0.0  # of the idle ones, those on nodes that are partly used

    @property
    def cost_usd(self) -> float:
        """Spot, on demand and moves together."""
        return self.spot_usd + self.on_demand_usd + self.move_usd

    @property
    def gpu_hours(self) -> float:
        """Spot and on demand together."""
        return self.spot_gpu_hours + self.on_demand_gpu_hours

    def plus(self, other: StretchSums) -> StretchSums:
        """Return both together."""
        return StretchSums(*map(add, astuple(self), astuple(other)))


def added(bill: StretchSums, one: Priced) -> StretchSums:
    """Return a bill with one more stretch on it."""
    stretch, charge = one
    held = stretch.held_hours
    return StretchSums(
        bill.spot_usd + charge.spot_usd,
        bill.on_demand_usd + charge.on_demand_usd,
        bill.move_usd + charge.move_usd,
        bill.spot_gpu_hours + stretch.spot_gpus * held,
        bill.on_demand_gpu_hours + stretch.on_demand_gpus * held,
        bill.pause_gpu_hours + stretch.gpus * stretch.pause_hours,
        bill.idle_gpu_hours + (0.0 if stretch.use == "work" else stretch.gpus * held),
        bill.rounding_gpu_hours + (stretch.gpus * held if stretch.use == "rounding" else 0.0),
    )


def bill(stretches: Iterable[Priced]) -> StretchSums:
    """Add stretches up."""
    return reduce(added, stretches, StretchSums())


@dataclass(frozen=True, slots=True)
class Audit:
    """What a check of stretches found: each was priced again, and none may overlap another of its payer."""

    cost_usd: float  # the sum at the prices of the stretches' own quotes
    gaps: tuple[str, ...] = ()  # stretches of one payer that overlap
    wrong: tuple[str, ...] = ()  # stretches whose charge is not what the tariff says, to the cent
    oversold: tuple[str, ...] = ()
    """Moments at which all payers together held more spot than the pool offered."""

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.gaps or self.wrong or self.oversold)


def audit(
    stretches: Iterable[Priced],
    tariff: Callable[[str], Tariff],
    *,
    name: Callable[[int], str] = lambda number: f"stretch {number}",
) -> Audit:
    """Price every stretch again, in their order, and check that those of each payer do not overlap.

    `tariff` says how a payer is billed; `name` is what messages call a stretch. Whether spot was oversold
    shows only where the stretches of all payers are given.
    """
    stretches = list(stretches)
    gaps, wrong, total = list[str](), list[str](), 0.0
    meters, until, pools = dict[str, Meter](), dict[str, float](), dict[str, int]()
    for number, (stretch, charge) in enumerate(stretches):
        # Each use is metered by itself: the site's idle and booting machines share a slot and a pool.
        payer = f"{stretch.payer}/{stretch.use}"
        pool = pools.setdefault(stretch.pool, len(pools))
        fair, meters[payer] = price(
            tariff(stretch.payer), meters.get(payer, Meter()), stretch.slot, pool, stretch.quote,
            stretch.spot_gpus, stretch.on_demand_gpus, stretch.held_hours, charge.move_usd,
        )  # fmt: skip
        # A move is taken as it was charged: a stretch does not say where its job came from.
        if abs(fair.usd - charge.usd) >= CENT_USD:
            wrong.append(f"{name(number)}: {charge.usd:.4f} USD, not {fair.usd:.4f}")
        ended = until.get(payer, -np.inf)
        if stretch.from_hours < ended - TIME_TOLERANCE_HOURS:
            gaps.append(
                f"{name(number)}: begins at {stretch.from_hours:.6f} h, the last ended at {ended:.6f} h"
            )
        until[payer] = stretch.to_hours
        total += fair.usd
    return Audit(total, tuple(gaps), tuple(wrong), tuple(oversold([row.stretch for row in stretches])))


def oversold(stretches: list[Stretch]) -> list[str]:
    """Return the beginnings of stretches at which more spot was held in a pool than it offered."""
    moments = list[str]()
    held: Counter[str] = Counter()
    # Ends are moved back by this much, so that rounding cannot make a stretch overlap the one that begins at
    # its end; shorter stretches are left out, because they would end before they begin.
    brief = 2 * TIME_TOLERANCE_HOURS
    spot = [row for row in stretches if row.spot_gpus > 0 and row.to_hours - row.from_hours > brief]
    # Of an end and a beginning at the same moment, the end comes first.
    ends = [(row.to_hours - brief, False, number) for number, row in enumerate(spot)]
    begins = [(row.from_hours, True, number) for number, row in enumerate(spot)]
    for _, beginning, number in sorted(ends + begins):
        row = spot[number]
        held[row.pool] += row.spot_gpus if beginning else -row.spot_gpus
        if beginning and held[row.pool] > row.quote.spot_gpus:
            moments.append(
                f"hour {row.from_hours:.6f}: {held[row.pool]} spot GPUs held in {row.pool}, of "
                f"{row.quote.spot_gpus} offered"
            )
    return moments
