"""The jobs of a fleet on a market as tables and columns, as its allocator reads them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from slacktide.allocators.site.job_tables import JobTables, Kinds, kinds_of
from slacktide.budget.classes import JobTemplate
from slacktide.core.arrays import Floats, Ints
from slacktide.core.types import Job, JobState, Phase
from slacktide.engine.fleet.pace import Speed, speed_of, with_speeds
from slacktide.engine.job.account import has_all
from slacktide.engine.job.job_context import JobContext
from slacktide.engine.pending_decisions import PendingDecision, whole
from slacktide.journal.events import Lived
from slacktide.journal.state.journal_state import JobRecord, without_gpus
from slacktide.physics.pace import KNOWN, Pace, mean_restart
from slacktide.policies.view import Places

SHARE_DIGITS = 9  # phases that are the same share of the work up to this many digits are the same
SPARE_KINDS = 32
"""Tables are made anew without the kinds of jobs that are gone once there are more of those than this."""


class KindTables:
    """The kinds of jobs that a fleet has, made anew only when a job of another kind comes."""

    def __init__(self, pools: Sequence[str]) -> None:
        self._pools = tuple(pools)
        self._rows: dict[Hashable, int] = {}
        self._places: list[tuple[Places, list[int]]] = []
        self._kinds: Kinds | None = None
        self._shapes: dict[str, Hashable] = {}

    def of(self, contexts: Sequence[tuple[str, JobContext]]) -> tuple[Kinds, list[int]]:
        """Return the tables, and which row of them each of these jobs is; a job is named with its context."""
        self._shapes = {job: self._shapes.get(job) or _shape(context) for job, context in contexts}
        if len(self._rows) > len(set(self._shapes.values())) + SPARE_KINDS:
            self._rows, self._places, self._kinds = {}, [], None
        for job, context in contexts:
            if self._shapes[job] not in self._rows:
                self._rows[self._shapes[job]] = len(self._rows)
                self._places.append((_places(context), self.where(context)))
                self._kinds = None
        if self._kinds is None:
            places, where = zip(*self._places, strict=True)
            self._kinds = kinds_of(places, where, len(self._pools))
        return self._kinds, [self._rows[self._shapes[job]] for job, _ in contexts]

    def where(self, context: JobContext) -> list[int]:
        """Return which of the fleet's pools are those that a job may use, in the job's own order."""
        return [self._pools.index(name) for name in context.pool_names]


def _places(context: JobContext) -> Places:
    if context.ground is not None:
        return context.ground.places
    return Places((context.job,), np.zeros((1, 1)), np.zeros((1, 1)))


def _shape(context: JobContext) -> Hashable:
    """Return all of a job but its work, its deadline and its worth: jobs that share it are of one kind."""
    job = context.job
    shares = [round(part.work_gpu_hours / job.work_gpu_hours, SHARE_DIGITS) for part in job.parts]
    phases = tuple(Phase(share, part.speedup) for share, part in zip(shares, job.parts, strict=True))
    alike = dataclasses.replace(
        job,
        name="",
        phases=phases,
        deadline_hours=math.inf,
        worthless_after_hours=None,
        value_usd=0.0,
        max_cost_usd=None,
        work_spread=0.0,
    )
    return alike, context.pool_names


class JobStanding(NamedTuple):
    """What a job has, as an allocator is shown it: what is ordered counts as held."""

    state: JobState  # its pool is one of the job's own
    idle_since_hours: float
    spot_until_hours: float


def standing(decision: PendingDecision, context: JobContext, pace: Pace = KNOWN) -> JobStanding:
    """Say what a job has at the moment of a decision; workers that are on their way count, and pause."""
    record = decision.record
    idle_hours, spot_hours = record.holding.idle_since_hours, record.holding.spot_until_hours
    for event in decision.before:
        if isinstance(event, Lived):
            idle_hours, spot_hours = without_gpus(record, event.priced.stretch)
    return JobStanding(ordered(decision, context, pace), idle_hours, spot_hours)


def ordered(decision: PendingDecision, context: JobContext, pace: Pace = KNOWN) -> JobState:
    """Return a job as if all that was ordered for it had come; what the market took is gone."""
    record, state = decision.record, decision.state
    order = record.holding.order
    if order is None or not order.gpus or decision.taken is not None or has_all(record):
        return state
    there = context.named(order.pool)
    pause_hours = mean_restart(pace, there.terms.restart_hours)
    if there.here != state.pool and state.progress_gpu_hours > 0.0:
        pause_hours += float(there.terms.move_hours[state.pool])
    pool = state.pool if context.ground is None else there.here
    return state._replace(
        spot_gpus=order.spot_gpus, on_demand_gpus=order.on_demand_gpus, pool=pool, pause_hours=pause_hours
    )


def lives_of(
    pending: Sequence[PendingDecision],
    contexts: Sequence[JobContext],
    paces: Sequence[Pace],
    tables: KindTables,
    origin_hours: float,
    templates: Mapping[str, JobTemplate],
) -> tuple[Kinds, JobTables]:
    """Write jobs as columns, on the clock of their fleet; `paces` is what is believed of each.

    Where a job says nothing of its priority and patience, the template of its class counts.
    """
    classes = [templates.get(decision.record.submitted.fleet_class) for decision in pending]
    kinds, said = tables.of(
        [(decision.record.job, context) for decision, context in zip(pending, contexts, strict=True)]
    )
    standings = [standing(*one) for one in zip(pending, contexts, paces, strict=True)]
    states = [one.state for one in standings]
    where = [tables.where(context) for context in contexts]
    speeds = [
        speed_of(context, pace, state.progress_gpu_hours, hard=is_hard(context.job))
        for context, pace, state in zip(contexts, paces, states, strict=True)
    ]
    paced = with_speeds(kinds, said, speeds, where)
    submitted = _since([decision.record.began_hours for decision in pending], origin_hours)
    jobs = [context.job for context in contexts]
    pools = [there[state.pool] for there, state in zip(where, states, strict=True)]
    return paced.kinds, JobTables(
        kind=paced.kind,
        safe_kind=paced.safe_kind,
        said_kind=whole(said),
        measure_gpus=_measure_gpus(speeds, where, kinds.fastest.shape[1]),
        ends_gpu_hours=_ends(contexts, kinds.phase_share.shape[1]),
        submitted_hours=submitted,
        deadline_hours=submitted + np.array([job.deadline_hours for job in jobs]),
        worthless_hours=submitted + np.array([_worthless_hours(job) for job in jobs]),
        value_usd=np.array([job.value_usd for job in jobs]),
        weight=np.array([_weight(*one) for one in zip(contexts, classes, strict=True)]),
        patience_hours=np.array([_patience_hours(*one) for one in zip(contexts, classes, strict=True)]),
        pool=whole(pools),
        spot_gpus=whole([state.spot_gpus for state in states]),
        on_demand_gpus=whole([state.on_demand_gpus for state in states]),
        pause_hours=np.array([state.pause_hours for state in states]),
        progress_gpu_hours=np.array([state.progress_gpu_hours for state in states]),
        checkpointed_gpu_hours=np.array([state.checkpointed_gpu_hours for state in states]),
        since_checkpoint_hours=np.array([state.since_checkpoint_hours for state in states]),
        cost_usd=np.array([state.cost_usd for state in states]),
        added_hours=np.maximum(
            _since([decision.record.holding.spot_added_hours for decision in pending], origin_hours), 0.0
        ),
        idle_since_hours=_since([one.idle_since_hours for one in standings], origin_hours),
        spot_until_hours=_since([one.spot_until_hours for one in standings], origin_hours),
    )


def _since(hours: Sequence[float], origin_hours: float) -> Floats:
    since: Floats = np.array(hours, dtype=np.float64) - origin_hours
    return since


def _ends(contexts: Sequence[JobContext], phases: int) -> Floats:
    """Return the progress at which each phase of each job is over; after the last one, all its work."""
    ends = np.empty((len(contexts), phases))
    for row, context in zip(ends, contexts, strict=True):
        own = context.terms.phase_ends_gpu_hours
        row[:] = own[-1]
        row[: len(own)] = own
    return ends


def _measure_gpus(speeds: Sequence[Speed | None], where: Sequence[Sequence[int]], pools: int) -> Ints:
    """Return the least that each job must hold in each pool until its pace was measured."""
    least = np.zeros((len(speeds), pools), dtype=np.int64)
    for row, speed, there in zip(least, speeds, where, strict=True):
        if speed is not None:
            row[there] = speed.measure_gpus
    return least


def _worthless_hours(job: Job) -> float:
    late = job.worthless_after_hours
    return job.deadline_hours if late is None else late


def is_hard(job: Job) -> bool:
    """Whether a job must be done by its deadline."""
    return job.deadline_hours < math.inf and _worthless_hours(job) <= job.deadline_hours


def _weight(context: JobContext, template: JobTemplate | None) -> float:
    """Return how much an hour of a job's waiting counts."""
    if context.file is not None and context.file.priority is not None:
        return context.file.priority
    return 1.0 if template is None else template.weight


def _patience_hours(context: JobContext, template: JobTemplate | None) -> float:
    """Return how long a job may wait before it rents on demand; not a number: as the allocator thinks."""
    if context.file is not None and context.file.patience_hours is not None:
        return context.file.patience_hours
    return math.nan if template is None else template.patience_hours


def kept_in(decision: PendingDecision, context: JobContext, pool: str) -> tuple[int, int]:
    """Return what a job has in a pool, of spot and on demand."""
    state = ordered(decision, context)
    return (
        (state.spot_gpus, state.on_demand_gpus) if context.pool_names[_at(context, state)] == pool else (0, 0)
    )


def _at(context: JobContext, state: JobState) -> int:
    return 0 if context.ground is None else state.pool


def leaving(record: JobRecord, pool: str) -> tuple[int, int]:
    """Return what real workers still hold in a pool, of spot and on demand, whatever is ordered."""
    held = record.holding.held
    return (0, 0) if held is None or not held.gpus or record.held_pool != pool else (held[0], held[1])
