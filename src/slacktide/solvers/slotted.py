"""A job on a grid of slots: the form that solvers read, and the holdings and pauses of their states.

**Holdings** are pairs (spot, on demand); number 0 is to hold nothing.

**Moves** lead from one holding to another. A move that keeps all workers *stays* and keeps the pause that is
left; one that only lets some go *shrinks* and waits for the shrink pause at least; one that adds any
*restarts*.

**Pauses.** When a slot begins, the pause left over is 0, or a restart or a shrink less some whole slots.
Inside a slot the pause is one of these, or a fresh shrink, or a fresh restart. Both sets are finite and small
(one and two values when a restart is shorter than a slot), so a pause is an index and not a number.

The clairvoyant and `expected` number the holdings by `list_holdings` and read `Pauses`. The window programme
runs inside compiled rules, for a job that may be in the middle of any pause: it numbers holdings as cells of
a square and makes a new table of pauses for each window, from the same moves and left-overs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable, inlined
from slacktide.core.errors import InputError, shown
from slacktide.core.quotes import Quote
from slacktide.core.types import TIME_TOLERANCE_HOURS, Job, JobState
from slacktide.physics.ledger import Outcome, live
from slacktide.physics.progress import Terms, terms, work_hours
from slacktide.physics.tariff import Meter, Tariff, tariff_of


class Slotted(NamedTuple):
    """A job and slots of one length as bare numbers; hours are counted from the beginning of slot 0."""

    slot_hours: float
    work_gpu_hours: float
    deadline_hours: float
    deadline_slots: int  # first slot that begins at the deadline or after it
    restart_hours: float
    shrink_hours: float
    checkpoint_hours: float
    whole_slots: bool  # whether a slot in which anything is held is paid in full
    fastest: int
    rate: Floats
    """rate[n]: progress per hour on n GPUs, over all phases: solvers take a job as one phase of mean pace."""
    fit: Ints  # fit[n]: the greatest allowed width within n GPUs
    terms: Terms  # the same as physics reads it
    tariff: Tariff


@compilable
def mean_rate(terms: Terms) -> Floats:
    """Return the pace on each width over all phases: all the work over the time it takes."""
    # One phase, which is the usual case, needs no table of its own.
    rate: Floats = terms.rate[0]
    if len(terms.phase_ends_gpu_hours) == 1:
        return rate
    rate = np.zeros(terms.rate.shape[1])
    for width in range(1, len(rate)):
        rate[width] = terms.work_gpu_hours / work_hours(terms, 0.0, width)
    return rate


@compilable
def on_slots(terms: Terms, tariff: Tariff, origin_hours: float) -> Slotted:
    """Lay a job on slots of which number 0 begins at this time of the market's clock."""
    deadline = terms.deadline_hours - origin_hours
    return Slotted(
        tariff.slot_hours,
        terms.work_gpu_hours,
        deadline,
        math.ceil(deadline / tariff.slot_hours - TIME_TOLERANCE_HOURS),
        terms.restart_hours,
        terms.shrink_hours,
        terms.checkpoint_hours,
        tariff.whole_slots,
        terms.fastest,
        mean_rate(terms),
        terms.fit,
        terms,
        tariff,
    )


def slotted(job: Job, slot_hours: float) -> Slotted:
    """Lay a job with a deadline on slots of this length, the first of which begins when it is submitted."""
    deadline_slots(job, slot_hours)
    return on_slots(terms(job), tariff_of(job.billing, slot_hours), 0.0)


def deadline_slots(job: Job, slot_hours: float) -> int:
    """Return the first of a job's slots that begins at its deadline or after it; raises InputError."""
    if job.deadline_hours == math.inf:
        raise InputError(
            f"job {shown(job.name)} must have a deadline to be planned or back-tested alone, got none; "
            "give it one, or simulate its fleet",
            field="deadline_hours",
        )
    return math.ceil(job.deadline_hours / slot_hours - TIME_TOLERANCE_HOURS)


@compilable
def live_slot(job: Slotted, state: JobState, slot: int, quote: Quote, spot: int, on_demand: int) -> Outcome:
    """Run a job through a whole slot with a holding that is available, without a limit on cost."""
    return live(
        job.terms, job.tariff, math.inf, state, Meter(-1, -1, 0, 0), slot, slot * job.slot_hours,
        job.slot_hours, quote, state.pool, spot, on_demand,
    )  # fmt: skip


SAME_PAUSE_HOURS = 1e-9  # pauses closer than this are the same; one shorter than this is none

STAY, SHRINK, RESTART = range(3)  # the kinds of move from one holding to another, by the pause they cost


@inlined
def kind_of_move(held_spot: int, held_on_demand: int, spot: int, on_demand: int) -> int:
    """Return whether a move keeps all workers, only lets some go, or adds any."""
    kind = SHRINK
    if spot > held_spot or on_demand > held_on_demand:
        kind = RESTART
    elif spot == held_spot and on_demand == held_on_demand:
        kind = STAY
    return kind


@inlined
def pause_ahead(job: Slotted, kind: int, left_hours: float) -> float:
    """Return the pause ahead after a move, if `left_hours` of one were left before it; as in `physics`."""
    if kind == RESTART:
        return job.restart_hours
    return max(left_hours, job.shrink_hours) if kind == SHRINK else left_hours


@compilable
def left_overs(fresh_hours: float, slot_hours: float, most: int) -> Floats:
    """Return what is left of a pause after one slot, after two, and so on; at most `most` values."""
    found = np.empty(most)
    count, rest = 0, fresh_hours - slot_hours
    while count < most and rest > SAME_PAUSE_HOURS:
        found[count] = rest
        count += 1
        rest -= slot_hours
    return found[:count]


def list_holdings(totals: Iterable[int]) -> tuple[Ints, Ints]:
    """Return the spot and on-demand GPUs of every pair that adds up to one of the totals, in that order."""
    pairs = [(spot, total - spot) for total in totals for spot in range(total + 1)]
    spot, on_demand = np.array(pairs, dtype=np.int64).T
    return np.ascontiguousarray(spot), np.ascontiguousarray(on_demand)


class Pauses(NamedTuple):
    """How long a job may pause, and which pause follows which; each set ascends from 0."""

    left_hours: Floats  # the pauses that may be left over when a slot begins
    ahead_hours: Floats  # the pauses that may lie ahead once a slot's holding is settled
    stay: Ints  # stay[left]: the pause ahead if all workers are kept
    shrink: Ints  # shrink[ahead]: the pause ahead instead if workers are lost or let go, and none added
    restart: int  # the pause ahead if any worker is added
    after: Ints  # after[ahead]: what is left over of it when the next slot begins


def list_pauses(job: Slotted) -> Pauses:
    fresh = (job.restart_hours, job.shrink_hours)
    rests = [left_overs(hours, job.slot_hours, math.ceil(hours / job.slot_hours)) for hours in fresh]
    left = distinct([0.0, *np.concatenate(rests)])
    ahead = distinct([*left, *fresh])
    return Pauses(
        left_hours=left,
        ahead_hours=ahead,
        stay=nearest(ahead, left),
        shrink=nearest(ahead, [pause_ahead(job, SHRINK, hours) for hours in ahead]),
        restart=int(nearest(ahead, [job.restart_hours])[0]),
        after=nearest(left, np.maximum(0.0, ahead - job.slot_hours)),
    )


def distinct(hours: Iterable[float]) -> Floats:
    """Return pauses in ascending order, without those within SAME_PAUSE_HOURS of a shorter one."""
    kept: list[float] = []
    for value in sorted(hours):
        if not kept or value - kept[-1] > SAME_PAUSE_HOURS:
            kept.append(value)
    return np.array(kept)


def nearest(values: Floats, wanted: Iterable[float]) -> Ints:
    """Return for each wanted number the index of the nearest value."""
    apart = np.abs(values[None, :] - np.array(list(wanted))[:, None])
    nearest: Ints = apart.argmin(axis=1).astype(np.int64)
    return nearest
