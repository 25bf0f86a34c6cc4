"""What a job's open stretch has done and cost so far: by what the back end reports, at the job's tariff.

In a dry run the back end reports nothing, and `ledger.live` computes the stretch, as in a back-test. With
real workers, time and money are what really passed, and progress is what they report; it is estimated only
for a job that never reports.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from slacktide.backends.base import BackendStatus, JobProgress
from slacktide.core.types import TIME_TOLERANCE_HOURS, JobState
from slacktide.engine.job.job_context import JobContext
from slacktide.journal.state.journal_state import Begun, JobRecord
from slacktide.physics import ledger
from slacktide.physics import progress as physics
from slacktide.physics.ledger import Priced
from slacktide.physics.pace import mean_factor, mean_restart
from slacktide.physics.progress import Passed
from slacktide.physics.tariff import price

BARE = (int, int, int, float, float, float, float, float, float, bool)  # the fields of a JobState


class StretchAccount(NamedTuple):
    """A stretch from its beginning to a moment, and the job at its end."""

    priced: Priced
    state: JobState

    @property
    def to_hours(self) -> float:
        """When it ended: at the given moment, or earlier if the job ended before."""
        return self.priced.stretch.to_hours

    @property
    def unsaved_gpu_hours(self) -> float:
        """The work that would be lost with its workers now."""
        return self.state.progress_gpu_hours - self.state.checkpointed_gpu_hours

    @property
    def hours(self) -> float:
        """How long it is."""
        return self.priced.stretch.to_hours - self.priced.stretch.from_hours


def account(context: JobContext, record: JobRecord, facts: BackendStatus, to_hours: float) -> StretchAccount:
    """Return what a job's open stretch did and cost until a moment of its slot."""
    begun, order, before = record.begun, record.order, record.progress.state
    ends = to_hours
    if has_finished(record, facts):  # if the work was done before that moment, the stretch ends there
        ends = min(to_hours, max(facts.until_hours, begun.from_hours))
    hours, here = _hours(context, begun, ends), _pool(context, record)
    move_usd = context.move_usd(before) if here == context.here else 0.0
    pool, quote = order.pool, begun.quote
    if facts.finished is None:
        spot, on_demand = order.spot_gpus, order.on_demand_gpus
        state, _, charge, passed = ledger.live(
            context.terms, context.tariff, context.job.money_usd, before, record.money.meter, begun.slot,
            begun.from_hours, hours, quote, here, spot, on_demand, move_usd,
        )  # fmt: skip
    else:
        spot, on_demand = record.holding.held or (order.spot_gpus, order.on_demand_gpus)
        if context.may_move and record.paid_pool != pool:
            pool = record.paid_pool  # an older set in another pool has not ended yet
            quote = context.named(pool).quote(begun.slot)
        state, passed = _worked(context, record, facts, hours)
        held = hours if spot + on_demand else 0.0
        at = context.index(pool)
        charge, _ = price(
            context.tariff, record.money.meter, begun.slot, at, quote, spot, on_demand, held, move_usd
        )
        state = state._replace(cost_usd=before.cost_usd + charge.usd)
    priced = ledger.priced(
        record.job, pool, begun.slot, begun.from_hours, quote, spot, on_demand, charge, passed,
        state.progress_gpu_hours - before.progress_gpu_hours, estimated=facts.progress is None,
    )  # fmt: skip
    if not state.ended:
        priced = priced._replace(stretch=priced.stretch._replace(to_hours=float(to_hours)))
    return StretchAccount(priced, bare(state))


def _pool(context: JobContext, record: JobRecord) -> int:
    """Return the pool that a job is in: the last one, until all workers have come in the next one."""
    came = record.order.gpus > 0 and has_all(record)
    return context.here if came else record.progress.state.pool


def has_finished(record: JobRecord, facts: BackendStatus) -> bool:
    """Whether real workers of what was ordered have done all the work."""
    order = record.order
    return bool(facts.finished and facts.attempt == order.attempt and order.gpus and not order.ending)


def known_safe_gpu_hours(facts: BackendStatus, state: JobState) -> float:
    """Return the work that is known to be saved: none if workers report nothing and it is only estimated."""
    estimated = facts.progress is None and facts.finished is not None
    return 0.0 if estimated else state.checkpointed_gpu_hours


def bare(state: JobState) -> JobState:
    """Return the same state in plain numbers: the physics may have left NumPy's in it."""
    return JobState(*(kind(value) for kind, value in zip(BARE, state, strict=True)))


def _hours(context: JobContext, begun: Begun, to_hours: float) -> float:
    """Return how long a stretch is; a whole slot is exactly as long as in a back-test."""
    begins, ends = context.begins(begun.slot), context.begins(begun.slot + 1)
    if max(abs(begun.from_hours - begins), abs(to_hours - ends)) < TIME_TOLERANCE_HOURS:
        return context.slot_hours
    return max(0.0, to_hours - begun.from_hours)


def _worked(
    context: JobContext, record: JobRecord, facts: BackendStatus, hours: float
) -> tuple[JobState, Passed]:
    """Return a job with real workers after these hours, its cost not yet added."""
    to_hours = record.begun.from_hours + hours
    if facts.progress is None:
        state, passed = _estimated(context, record, hours)
    else:
        spoken = facts.attempt == record.order.attempt and facts.progress.at_hours > -math.inf
        state, passed = _reported(context, record, facts.progress, hours, spoken=spoken)
    ends = to_hours >= facts.until_hours - TIME_TOLERANCE_HOURS or math.isinf(facts.until_hours)
    if ends and has_finished(record, facts):
        work = context.terms.work_gpu_hours
        state = state._replace(
            spot_gpus=0, on_demand_gpus=0, pause_hours=0.0, progress_gpu_hours=work,
            checkpointed_gpu_hours=work, since_checkpoint_hours=0.0, finish_hours=to_hours,
        )  # fmt: skip
    return state, passed


def _estimated(context: JobContext, record: JobRecord, hours: float) -> tuple[JobState, Passed]:
    """Estimate by physics what silent workers do; only they themselves can say that they have finished.

    Workers that were started again inside the stretch begin where the stretch had its last checkpoint.
    """
    order, state, begun = record.order, record.progress.state, record.begun.from_hours
    to_hours, restarted, work = begun + hours, record.holding.attempt_hours, context.terms.work_gpu_hours
    if not has_all(record):
        waiting = _between_pools(context, record) or state
        return waiting, Passed(hours, hours if order.gpus else 0.0, 0.0)
    if begun < restarted <= to_hours:
        safe = state.checkpointed_gpu_hours
        state = state._replace(spot_gpus=0, on_demand_gpus=0, progress_gpu_hours=safe)
        begun = restarted
    ends = context.terms.phase_ends_gpu_hours.copy()
    ends[-1] = math.inf
    endless = context.terms._replace(work_gpu_hours=math.inf, phase_ends_gpu_hours=ends)
    state, passed = physics.pass_time(
        endless, state, begun, to_hours - begun, _pool(context, record), order.spot_gpus, order.on_demand_gpus
    )
    state = state._replace(
        progress_gpu_hours=min(state.progress_gpu_hours, work),
        checkpointed_gpu_hours=min(state.checkpointed_gpu_hours, work),
    )
    paused = hours - passed.productive_hours if order.gpus else 0.0
    return state, Passed(hours, paused, passed.productive_hours)


def _reported(
    context: JobContext, record: JobRecord, progress: JobProgress, hours: float, *, spoken: bool
) -> tuple[JobState, Passed]:
    """Return a job as its workers report it; until they do, only what is checkpointed counts."""
    terms, order, before, pace = context.terms, record.order, record.progress.state, record.progress.pace
    rate = float(terms.rate[physics.phase_of(terms, before.progress_gpu_hours), order.gpus])
    safe = _safe_gpu_hours(terms, before, progress, rate, spoken=spoken)
    done = progress.done_share * terms.work_gpu_hours if spoken else safe
    restart = terms.restart_hours
    if pace is not None:
        rate *= mean_factor(pace, order.gpus) if order.gpus else 1.0
        restart = mean_restart(pace, restart)
    if before.progress_gpu_hours > 0.0:
        restart += float(terms.move_hours[record.holding.left_pool])
    gained = max(0.0, done - before.progress_gpu_hours)
    productive = min(hours, gained / rate) if rate > 0 else 0.0
    waited = record.begun.from_hours + hours - record.holding.attempt_hours
    there = order if has_all(record) else _between_pools(context, record) or before
    state = before._replace(
        spot_gpus=there.spot_gpus,
        on_demand_gpus=there.on_demand_gpus,
        pool=_pool(context, record),
        pause_hours=max(0.0, restart - waited) if not spoken and order.gpus else 0.0,
        progress_gpu_hours=done,
        checkpointed_gpu_hours=safe,
        since_checkpoint_hours=(done - safe) / rate if rate > 0 else 0.0,
    )
    return state, Passed(hours, hours - productive if order.gpus else 0.0, productive)


def _safe_gpu_hours(
    terms: physics.Terms, before: JobState, progress: JobProgress, rate: float, *, spoken: bool
) -> float:
    """Return the work that would survive a loss now: as workers reported it, else as the job's file implies.

    A job without checkpoints that reports only how much is done has nothing saved. If progress was read from
    the output of a job, what is saved is at most one interval of checkpoints behind it.
    """
    done = progress.done_share * terms.work_gpu_hours
    known = min(before.checkpointed_gpu_hours, done)
    if progress.saved == "said" or (progress.saved == "assumed" and terms.checkpoint_hours < math.inf):
        return progress.checkpointed_share * terms.work_gpu_hours
    if progress.saved == "assumed" or not spoken or math.isinf(terms.checkpoint_hours):
        return known
    return max(known, done - terms.checkpoint_hours * rate)


def has_all(record: JobRecord) -> bool:
    """Whether everything that was ordered is held; until then the job makes no progress."""
    order, held = record.order, record.holding.held
    if held is None:
        return True
    elsewhere = held.gpus > 0 and record.held_pool != order.pool
    return held == (order.spot_gpus, order.on_demand_gpus) and not elsewhere


def _between_pools(context: JobContext, record: JobRecord) -> JobState | None:
    """Return the state of a job between two pools, without workers in either; None if it is not between."""
    state = record.progress.state
    if not record.order.gpus or context.here == state.pool:
        return None
    return state._replace(spot_gpus=0, on_demand_gpus=0, pause_hours=0.0)
