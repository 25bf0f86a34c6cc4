"""A job on a grid of slots: the form that solvers read, which plan slot by slot from the job's first one."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable
from slacktide.core.errors import InputError, shown
from slacktide.core.quotes import Quote
from slacktide.core.types import TIME_TOLERANCE_HOURS, Job, JobState
from slacktide.physics.ledger import Outcome, live
from slacktide.physics.physics import Terms, terms, work_hours
from slacktide.physics.tariff import Meter, Tariff, tariff_of


class Slotted(NamedTuple):
    """A job and slots of one length as bare numbers; hours are counted from the beginning of slot 0."""

    slot_hours: float
    work_gpu_hours: float
    deadline_hours: float
    deadline_slots: int
    """First slot that begins at the deadline or after it."""
    restart_hours: float
    shrink_hours: float
    checkpoint_hours: float
    whole_slots: bool
    """Whether a slot in which anything is held is paid in full."""
    fastest: int
    rate: Floats
    """rate[n]: progress per hour on n GPUs, over all phases: solvers take a job as one phase of mean pace."""
    fit: Ints
    """fit[n]: the greatest allowed width within n GPUs."""
    terms: Terms
    """The same as physics reads it."""
    tariff: Tariff


@compilable
def mean_rate(terms: Terms) -> Floats:
    """Return the pace on each width over all phases: all the work over the time it takes."""
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
    """Live through a whole slot with a holding that can be had; money never ends."""
    return live(
        job.terms, job.tariff, math.inf, state, Meter(-1, -1, 0, 0), slot, slot * job.slot_hours,
        job.slot_hours, quote, state.pool, spot, on_demand,
    )  # fmt: skip
