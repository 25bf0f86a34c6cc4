"""Jobs of a fleet and what pools offer, as tables that compiled rules read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import inlined
from slacktide.core.types import JobState
from slacktide.physics import progress as physics
from slacktide.physics.progress import Terms

if TYPE_CHECKING:
    from slacktide.policies.view import Places


class Kinds(NamedTuple):
    """Jobs that are alike but for their work, deadline and value, one row each; compiled code reads it."""

    rate: Floats  # [kind, pool, phase, gpus]: progress per hour; 0 where the width is not allowed
    fit: Ints  # [kind, pool, gpus]: the widest allowed width within this many GPUs
    phase_share: Floats  # [kind, phase]: the share of the work that is done when a phase ends
    phases: Ints  # [kind]: how many phases it has
    restart_hours: Floats
    shrink_hours: Floats
    checkpoint_hours: Floats
    after_deadline: Ints
    fastest: Ints  # [kind, pool]: the width for emergencies; 0 where it may not be in the pool
    move_hours: Floats  # [kind, from, to]
    move_usd: Floats  # [kind, from, to]
    whole_slots: Ints  # [kind]: 1 where every slot is paid in full


def kinds_of(places: Sequence[Places], pools: Sequence[Sequence[int]], pool_count: int) -> Kinds:
    """Write jobs as tables, a row each; `pools[row]` has the site's number for each pool of the places."""
    terms_of_kinds = [_terms(one) for one in places]
    widest = max(len(terms.fit) for each in terms_of_kinds for terms in each)
    phases = max(len(each[0].phase_ends_gpu_hours) for each in terms_of_kinds)
    kinds = _room(len(places), pool_count, phases, widest)
    for kind, (one, at, terms) in enumerate(zip(places, pools, terms_of_kinds, strict=True)):
        _fill(kinds, kind, one, at, terms)
    return kinds


def _terms(one: Places) -> list[Terms]:
    return [physics.terms(job, move_hours=one.move_hours[:, pool]) for pool, job in enumerate(one.jobs)]


def _room(kinds: int, pools: int, phases: int, widest: int) -> Kinds:
    return Kinds(
        rate=np.zeros((kinds, pools, phases, widest)),
        fit=np.zeros((kinds, pools, widest), dtype=np.int64),
        phase_share=np.ones((kinds, phases)),
        phases=np.ones(kinds, dtype=np.int64),
        restart_hours=np.zeros(kinds),
        shrink_hours=np.zeros(kinds),
        checkpoint_hours=np.zeros(kinds),
        after_deadline=np.zeros(kinds, dtype=np.int64),
        fastest=np.zeros((kinds, pools), dtype=np.int64),
        move_hours=np.zeros((kinds, pools, pools)),
        move_usd=np.zeros((kinds, pools, pools)),
        whole_slots=np.zeros(kinds, dtype=np.int64),
    )


def _fill(kinds: Kinds, kind: int, one: Places, at: Sequence[int], terms: Sequence[Terms]) -> None:
    first = terms[0]
    ends = first.phase_ends_gpu_hours
    kinds.phases[kind] = len(ends)
    kinds.phase_share[kind, : len(ends)] = ends / ends[-1]
    kinds.restart_hours[kind], kinds.shrink_hours[kind] = first.restart_hours, first.shrink_hours
    kinds.checkpoint_hours[kind], kinds.after_deadline[kind] = first.checkpoint_hours, first.after_deadline
    kinds.whole_slots[kind] = one.jobs[0].billing == "slot"
    kinds.move_hours[kind][np.ix_(at, at)] = one.move_hours
    kinds.move_usd[kind][np.ix_(at, at)] = one.move_usd
    for pool, (place, job) in zip(at, zip(terms, one.jobs, strict=True), strict=True):
        widths = list(job.widths)
        kinds.rate[kind, pool, : len(ends), widths] = place.rate[:, widths].T
        fit = np.zeros(kinds.fit.shape[2], dtype=np.int64)
        fit[widths] = widths
        kinds.fit[kind, pool] = np.maximum.accumulate(fit)
        kinds.fastest[kind, pool] = place.fastest


class JobTables(NamedTuple):
    """Jobs of a fleet as columns: what each is, holds and has done; compiled code reads it."""

    kind: Ints  # the row of the tables that says how fast it is believed to be
    safe_kind: Ints  # the row that says how slow it may turn out to be: promises go by it
    said_kind: Ints
    """The row that says how fast it is by its file; all three are the same if the file is believed."""
    measure_gpus: Ints
    """[job, pool]: the least that it must hold until its pace was measured; 0 if that is not needed."""
    ends_gpu_hours: Floats
    """[job, phase]: the progress at which a phase is over; the last of its kind's phases is all the work."""
    submitted_hours: Floats
    deadline_hours: Floats  # on the clock of the run; infinite without one
    worthless_hours: Floats  # when a late result is worth nothing; the deadline itself where that is hard
    value_usd: Floats
    weight: Floats  # how much an hour of its waiting counts, against other jobs' hours
    patience_hours: Floats
    """How long it may go without GPUs before it rents on demand; NaN leaves that to the allocator."""
    pool: Ints
    spot_gpus: Ints
    on_demand_gpus: Ints
    pause_hours: Floats
    progress_gpu_hours: Floats
    checkpointed_gpu_hours: Floats
    since_checkpoint_hours: Floats
    cost_usd: Floats
    added_hours: Floats  # when spot was last added to what it holds
    idle_since_hours: Floats  # since when it has held nothing; infinite for a job that holds something
    spot_until_hours: Floats  # when it last held spot; when it was submitted where it never has

    @property
    def gpus(self) -> Ints:
        """The width that each holds."""
        width: Ints = self.spot_gpus + self.on_demand_gpus
        return width


def work_of(kinds: Kinds, jobs: JobTables) -> Floats:
    """Return all the work of each job."""
    work: Floats = jobs.ends_gpu_hours[np.arange(len(jobs.kind)), kinds.phases[jobs.kind] - 1]
    return work


class PoolOffers(NamedTuple):
    """What each pool offers to all jobs: [pool]."""

    spot_usd: Floats
    on_demand_usd: Floats
    spot_gpus: Ints
    on_demand_gpus: Ints


class SiteMoment(NamedTuple):
    """The jobs of a fleet and what pools offer at a moment, as compiled rules read it."""

    kinds: Kinds
    jobs: JobTables
    prices: PoolOffers
    now_hours: float
    hours: float  # until the market changes
    slot_hours: float


@inlined
def terms_of(kinds: Kinds, jobs: JobTables, job: int, pool: int) -> Terms:
    """Return a job in a pool as bare numbers, at its believed pace."""
    return _terms_at_pace_of(kinds, jobs, jobs.kind[job], job, pool)


@inlined
def safe_terms_of(kinds: Kinds, jobs: JobTables, job: int, pool: int) -> Terms:
    """Return a job in a pool as bare numbers, at its safe pace: as slow as it may turn out to be."""
    return _terms_at_pace_of(kinds, jobs, jobs.safe_kind[job], job, pool)


@inlined
def _terms_at_pace_of(kinds: Kinds, jobs: JobTables, kind: int, job: int, pool: int) -> Terms:
    phases, ends = kinds.phases[kind], jobs.ends_gpu_hours[job]
    return Terms(
        ends[phases - 1],
        jobs.submitted_hours[job],
        jobs.deadline_hours[job],
        kinds.restart_hours[kind],
        kinds.shrink_hours[kind],
        kinds.checkpoint_hours[kind],
        kinds.move_hours[kind, :, pool],
        kinds.after_deadline[kind],
        kinds.fastest[kind, pool],
        ends[:phases],
        kinds.rate[kind, pool, :phases],
        kinds.fit[kind, pool],
    )


@inlined
def state_of(jobs: JobTables, job: int) -> JobState:
    """Return what a job holds and has done."""
    return JobState(
        jobs.spot_gpus[job],
        jobs.on_demand_gpus[job],
        jobs.pool[job],
        jobs.pause_hours[job],
        jobs.progress_gpu_hours[job],
        jobs.checkpointed_gpu_hours[job],
        jobs.since_checkpoint_hours[job],
        jobs.cost_usd[job],
        np.inf,
        False,
    )
