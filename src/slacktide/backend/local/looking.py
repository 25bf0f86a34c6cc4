"""What is to be said of a job from what was last seen of it."""

from __future__ import annotations

from slacktide.backend.local.band import Band
from slacktide.backend.local.job import Job
from slacktide.backend.local.progress import Progress
from slacktide.backend.local.sighting import Phase, Sighting

DONE_SHARE = 1.0 - 1e-6
"""What a job must have said to be done, where it says anything: sums of steps may miss 1 by a few bits."""


def sight(job: Job, now: float) -> Sighting:
    """Say what there was at the last step."""
    band, order, tail = job.band, job.order, job.tail
    workers = band.workers if band else ()
    present, lost = _present(job), [worker.kind for worker in workers if worker.lost]
    source = job.printed or tail
    progress, said_at = (source.progress, source.said_at) if source else (Progress(), None)
    heard_at = now if source is None or said_at is None else max(job.began_at, source.grown_at)
    never = (None,) * len(order.kinds) if order and not band else ()
    ended_well = _ended_well(job)
    # What is printed need not reach its end: only a job that reports itself is held to its word.
    done = said_at is None or job.printed is not None or progress.done_share >= DONE_SHARE
    return Sighting(
        attempt=band.attempt if band else order.attempt if order else 0,
        phase=_phase(job),
        spot_gpus=present.count("spot"),
        on_demand_gpus=present.count("on-demand"),
        pending_gpus=_pending(job),
        lost_spot_gpus=lost.count("spot"),
        lost_on_demand_gpus=lost.count("on-demand"),
        exit_codes=tuple(worker.exit_code for worker in workers) or never,
        failed_rank=band.failed_rank if band and not _void(job) and not job.moved else None,
        finished=ended_well and done,
        unfinished=ended_well and not done,
        stopped=_stopped(job),
        gone=not job.going and _phase(job) in ("none", "exited"),
        gone_s=band.gone_s if band else None,
        before_gone_s=job.before_gone_s,
        done_share=progress.done_share,
        checkpointed_share=progress.checkpointed_share,
        saved=progress.saved,
        said_s=None if said_at is None else now - said_at,
        spoken=band is not None and said_at is not None and said_at >= job.began_at,
        metrics=tail.metrics if tail else {},
        began_s=now - job.began_at if band and band.attempt else None,
        silent_s=now - heard_at if band and band.present else 0.0,
        setup_exit=None if job.setup.stopped else job.setup.exit_code,
        broken_lines=tail.broken_lines if tail else 0,
        newest_attempt=job.newest,
        trouble=job.trouble or _damage(job),
    )


def _present(job: Job) -> list[str]:
    """Return the kinds of all workers that are there, of whichever attempt; a set-up holds no GPU."""
    bands = [band for band in (*job.going, job.band) if band is not None and band.attempt]
    return [worker.kind for band in bands for worker in band.workers if worker.present]


def _pending(job: Job) -> int:
    """Count the workers that were ordered, have not begun and still may."""
    band, order = job.band, job.order
    if order is None or order.void or job.setup.failed_for == order.attempt:
        return 0
    if band is None or band.attempt != order.attempt:
        return len(order.kinds)
    return sum(worker.awaited for worker in band.workers) if band.lacking else 0


def _ended_well(job: Job) -> bool:
    """Say whether all ended with 0, untold, and all that they said was read after that."""
    behind = job.tail is not None and job.tail.behind
    return job.band is not None and job.band.succeeded and not behind and not _void(job)


def _stopped(job: Job) -> bool:
    """Say whether the attempt that is spoken of will never finish because it was stopped."""
    if job.band is not None:
        return job.band.stopped or _void(job) or (job.moved and not job.band.succeeded)
    order = job.order
    set_up_stopped = order is not None and job.setup.failed_for == order.attempt and job.setup.stopped
    return order is not None and (order.void or set_up_stopped)


def _void(job: Job) -> bool:
    """Say whether the workers that there are have the number of the order, but are not its own."""
    band, order = job.band, job.order
    return band is not None and order is not None and order.void and band.attempt == order.attempt


def _damage(job: Job) -> str:
    order = job.order
    if order is None or job.damaged != order.attempt or not order.kinds:
        return ""
    return (
        f"attempt.json of attempt {order.attempt} of job {job.place.name} must be readable, "
        "got a damaged file; the attempt is stopped, and a new one continues"
    )


def _phase(job: Job) -> Phase:
    band, order = job.band, job.order
    if band:
        return _phase_of(band, wanted=order is None or bool(order.kinds))
    if job.setup.present:
        return "setting-up" if order and order.kinds else "stopping"
    if order is None or not order.kinds:
        return "none"
    return "exited" if order.void or job.setup.failed_for == order.attempt else "starting"


def _phase_of(band: Band, *, wanted: bool) -> Phase:
    if band.gone:
        return "exited" if wanted else "none"
    ended = all(worker.exit_code is not None for worker in band.workers)
    return "stopping" if band.stopping or ended else "running" if band.begun else "starting"
