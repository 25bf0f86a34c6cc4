"""Live jobs that must be decided about, and the views of them that policies and allocators get."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from slacktide.allocators.site.spot import Spot
from slacktide.allocators.view import FleetView, JobColumns
from slacktide.core.arrays import Ints
from slacktide.core.quotes import Sighting
from slacktide.core.types import TIME_TOLERANCE_HOURS, JobState
from slacktide.core.units import MAX_GPUS
from slacktide.engine.job.job_context import JobContext
from slacktide.engine.job.journal_market import hours_since
from slacktide.journal.events import Event, Submitted
from slacktide.journal.state.journal_state import Begun, JobRecord
from slacktide.physics import progress as physics
from slacktide.physics.pace import KNOWN, Pace, prior
from slacktide.policies.view import View, look
from slacktide.simulation.playback import TriedMoment


class PendingDecision(NamedTuple):
    """A job that must be decided about: its state, and what is written before the decision."""

    record: JobRecord
    state: JobState  # what it holds and has done, without the spot that the market has just taken
    begun: Begun  # the stretch that begins with the decision
    before: tuple[Event, ...] = ()
    taken: int | None = None  # how much spot the market left, where it took some
    inside: bool = False  # whether it is inside a stretch, which may go on unchanged
    pace: Pace | None = None  # what was just learned of its speed; None where nothing was
    notice_hours: float | None = None  # in how many hours it will lose spot, if it was warned


class Shown:
    """Makes the views of jobs one by one, when they are read."""

    def __init__(
        self, pending: Sequence[PendingDecision], context_of: Callable[[JobRecord], JobContext]
    ) -> None:
        self._pending, self._context_of = pending, context_of

    def name(self, place: int) -> str:
        """Return the name of the job at a place."""
        return self._pending[place].record.job

    def view(self, place: int, spot: Spot) -> View:
        """Return its view; what other jobs hold, by `spot`, is not offered to it."""
        decision = self._pending[place]
        return view_of(self._context_of(decision.record), decision, spot)


def view_of(context: JobContext, decision: PendingDecision, spot: Spot) -> View:
    """Return what the policy of a job may know; what other jobs hold is not offered to it."""
    record, begun, state = decision.record, decision.begun, decision.state
    moment = context.moment(begun.slot, state.pool)
    moment = moment.sharing(spot.by_others(record.job), spot.on_demand_by_others(record.job))
    moment = moment.warned(decision.notice_hours)
    places = context.pools.places if context.may_move else None
    slot, pace = begun.slot - context.start_slot, believed_of(context, decision)
    memory = record.progress.memory
    view = look(context.job, moment, state, slot, context.slot_hours, memory, record.job, pace, places)
    if places is not None and context.sight == "tried":
        seen = _seen(decision)
        sightings = [_since_start(context, seen.get(name, ())) for name in context.pool_names]
        tried = TriedMoment(moment, sightings)
        view = dataclasses.replace(view, pools=tried, known=tried)
    return _from_within(context, view, begun)


def first_view(context: JobContext, submitted: Submitted) -> View:
    """Return the view from which a job's policy decides for the first time, at submission."""
    slot = context.start_slot
    begun = Begun(slot, submitted.at_hours, context.quote(slot))
    return view_of(context, PendingDecision(JobRecord.of(submitted), JobState(), begun), Spot())


def _since_start(context: JobContext, seen: Iterable[Sighting]) -> list[Sighting]:
    """Return what was seen of a pool, its hours counted from when the job's first slot began."""
    hours = partial(hours_since, origin_hours=context.origin_hours, slot_hours=context.slot_hours)
    return [sighting._replace(at_hours=hours(sighting.at_hours)) for sighting in seen]


def _from_within(context: JobContext, view: View, begun: Begun) -> View:
    """Return the view of a slot from a moment inside it, its hours counted from submission."""
    waited = begun.from_hours - context.begins(begun.slot)
    early = context.terms.submitted_hours - context.origin_hours
    if max(waited, early) < TIME_TOLERANCE_HOURS:
        return view
    now = view.now_hours + (waited if waited >= TIME_TOLERANCE_HOURS else 0.0) - early
    return dataclasses.replace(view, now_hours=now, next_hours=view.next_hours - early)


def _seen(decision: PendingDecision) -> Mapping[str, tuple[Sighting, ...]]:
    """Return what a job has seen of its pools, including what this moment shows of its own one."""
    record, hours = decision.record, decision.begun.from_hours
    if record.submitted.sight != "tried" or not (decision.state.spot_gpus or decision.taken is not None):
        return record.holding.sightings
    most = MAX_GPUS if decision.taken is None else decision.state.spot_gpus
    here = record.submitted.pools[decision.state.pool]
    now = Sighting(hours, decision.state.spot_gpus, most)
    return {**record.holding.sightings, here: (*record.holding.sightings.get(here, ()), now)}


def believed_of(context: JobContext, decision: PendingDecision) -> Pace:
    """Return the pace that decisions assume for a job: that of its file until it is measured.

    The file of a fleet's job counts as exact here; `StepContext.belief` knows the jobs for which it does not.
    """
    record = decision.record
    known = record.progress.pace if decision.pace is None else decision.pace
    if known is not None:
        return known
    return KNOWN if record.fleet else prior(context.job.work_spread)


def view_of_all(
    pending: Sequence[PendingDecision],
    now_hours: float,
    spot: Spot,
    context_of: Callable[[JobRecord], JobContext],
) -> FleetView:
    """Return the view of jobs without a fleet: each is a kind of its own, and rents what it holds."""
    gpus = sum(decision.state.gpus for decision in pending)
    return FleetView(
        now_hours=now_hours,
        fleet=None,
        jobs=columns(pending, context_of),
        due=range(len(pending)),
        ready_gpus=gpus,
        rented_gpus=gpus,
        spent_gpu_hours=sum(decision.record.money.bill.gpu_hours for decision in pending),
        spot=spot,
        shown=Shown(pending, context_of),
    )


def columns(pending: Sequence[PendingDecision], context_of: Callable[[JobRecord], JobContext]) -> JobColumns:
    """Return jobs as columns, each as a kind of its own."""
    places = np.arange(len(pending))
    states = [decision.state for decision in pending]
    terms = [context_of(decision.record).terms for decision in pending]
    pairs = zip(terms, states, strict=True)
    return JobColumns(
        ids=places,
        kind=places,
        number=np.zeros(len(pending), dtype=np.int64),
        phase=whole([physics.phase_of(job_terms, state.progress_gpu_hours) for job_terms, state in pairs]),
        submitted_hours=np.array([job_terms.submitted_hours for job_terms in terms]),
        spot_gpus=whole([state.spot_gpus for state in states]),
        on_demand_gpus=whole([state.on_demand_gpus for state in states]),
        pause_hours=np.array([state.pause_hours for state in states]),
        progress_gpu_hours=np.array([state.progress_gpu_hours for state in states]),
        work_gpu_hours=np.array([job_terms.work_gpu_hours for job_terms in terms]),
    )


def whole(numbers: Sequence[int]) -> Ints:
    """Return whole numbers as a column."""
    return np.array(numbers, dtype=np.int64)
