"""Makes the status of a job from the last look at its processes."""

from __future__ import annotations

from slacktide.backends.local.job import LocalJob
from slacktide.backends.workers import reforming
from slacktide.backends.workers.process_status import Phase, ProcessStatus
from slacktide.backends.workers.progress import ReportedProgress
from slacktide.backends.workers.worker_set import WorkerSet

DONE_SHARE = 1.0 - 1e-6
"""What a job must have said to be done, where it says anything: sums of steps may miss 1 by a few bits."""


def status_of(job: LocalJob, now: float) -> ProcessStatus:
    """Say what there was at the last step."""
    worker_set, order, tail = job.current, job.order, job.tail
    workers = worker_set.workers if worker_set else ()
    present, lost = _present(job), [worker.kind for worker in workers if worker.lost]
    source = job.printed or tail
    progress, said_at = (source.progress, source.said_at) if source else (ReportedProgress(), None)
    grown_at = now if source is None or said_at is None else max(job.began_at, source.grown_at)
    never = (None,) * len(order.kinds) if order and not worker_set else ()
    ended_well = _ended_well(job)
    failed = worker_set.failed_rank if worker_set and not job.is_void and not job.moved else None
    # What is printed need not reach its end: only a job that reports itself is held to its word.
    done = said_at is None or job.printed is not None or progress.done_share >= DONE_SHARE
    return ProcessStatus(
        attempt=job.attempt,
        phase=_phase(job),
        spot_gpus=present.count("spot"),
        on_demand_gpus=present.count("on-demand"),
        pending_gpus=_pending(job),
        lost_spot_gpus=lost.count("spot"),
        lost_on_demand_gpus=lost.count("on-demand"),
        exit_codes=tuple(worker.exit_code for worker in workers) or never,
        failed_rank=failed,
        failed_code=next((worker.exit_code for worker in workers if worker.rank == failed), None),
        finished=ended_well and done,
        unfinished=ended_well and not done,
        stopped=_stopped(job),
        gone=not job.going and _phase(job) in ("none", "exited"),
        gone_s=worker_set.gone_s if worker_set and not job.finishing else None,
        before_gone_s=job.before_gone_s,
        done_share=progress.done_share,
        checkpointed_share=min(progress.checkpointed_share, job.safe_share),
        saved=progress.saved,
        said_s=None if said_at is None else now - said_at,
        spoken=worker_set is not None and said_at is not None and _is_ours(job, said_at),
        metrics=tail.metrics if tail else {},
        began_s=now - job.began_at if worker_set and worker_set.attempt else None,
        silent_s=now - grown_at if worker_set and worker_set.present else 0.0,
        setup_exit=None if job.setup.stopped else job.setup.exit_code,
        broken_lines=tail.broken_lines if tail else 0,
        newest_attempt=job.newest,
        trouble=job.trouble or _damage(job) or _trouble(job),
        reforming=job.reforming is not None and job.reforming.under_way,
        places_sent_s=_places_sent_s(job, now),
        able=worker_set is not None and reforming.are_able(worker_set),
        leaving=bool(job.going),
        notice_s=_notice_s(job, now),
    )


def _notice_s(job: LocalJob, now: float) -> float | None:
    return min((left for one in job.sets if (left := one.notice_s(now)) is not None), default=None)


def _trouble(job: LocalJob) -> str:
    """Return what the change of a set, or the store, has to say."""
    changing, store = job.reforming, job.stored
    return (changing.trouble if changing else "") or (store.trouble if store else "")


def _places_sent_s(job: LocalJob, now: float) -> float | None:
    places_sent_at = job.reforming.places_sent_at if job.reforming else None
    return None if places_sent_at is None else now - places_sent_at


def _is_ours(job: LocalJob, said_at: float) -> bool:
    """Say whether the set has said something: one that was made from another, after it was."""
    formed_at = job.reforming.formed_at if job.reforming else None
    return said_at >= job.began_at if formed_at is None else said_at > formed_at


def _present(job: LocalJob) -> list[str]:
    """Return the kinds of all workers that are there, of whichever attempt; a set-up holds no GPU."""
    sets = [one for one in job.sets if one.attempt]
    return [worker.kind for one in sets for worker in one.workers if worker.present]


def _pending(job: LocalJob) -> int:
    """Count the workers that were ordered, have not begun and still may."""
    worker_set, unformed = job.current, job.unformed_gpus
    if job.order is not None and job.setup.failed_for == job.order.attempt:
        return 0
    if unformed is not None or worker_set is None:
        return unformed or 0
    return sum(worker.awaited for worker in worker_set.workers) if worker_set.lacking else 0


def _ended_well(job: LocalJob) -> bool:
    """Say whether all ended with 0, untold, and all that they said was read after that."""
    behind = job.tail is not None and job.tail.behind
    over = job.current is not None and job.current.succeeded and not job.finishing
    return over and not behind and not job.is_void


def _stopped(job: LocalJob) -> bool:
    """Say whether the attempt that is spoken of will never finish because it was stopped."""
    if job.current is not None:
        return job.current.stopped or job.is_void or (job.moved and not job.current.succeeded)
    order = job.order
    set_up_stopped = order is not None and job.setup.failed_for == order.attempt and job.setup.stopped
    return order is not None and (order.void or set_up_stopped)


def _damage(job: LocalJob) -> str:
    order = job.order
    if order is None or job.damaged != order.attempt or not order.kinds:
        return ""
    return (
        f"attempt.json of attempt {order.attempt} of job {job.place.name} must be readable, "
        "got a damaged file; the attempt is stopped, and a new one continues"
    )


def _phase(job: LocalJob) -> Phase:
    worker_set, order = job.current, job.order
    if worker_set:
        wanted = order is None or bool(order.kinds)
        return "stopping" if job.finishing else _phase_of(worker_set, wanted=wanted)
    if job.setup.present:
        return "setting-up" if order and order.kinds else "stopping"
    if order is None or not order.kinds:
        return "none"
    return "exited" if order.void or job.setup.failed_for == order.attempt else "starting"


def _phase_of(worker_set: WorkerSet, *, wanted: bool) -> Phase:
    if worker_set.gone:
        return "exited" if wanted else "none"
    ended = all(worker.exit_code is not None for worker in worker_set.workers)
    return "stopping" if worker_set.stopping or ended else "running" if worker_set.begun else "starting"
