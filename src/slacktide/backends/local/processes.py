"""The training processes of many jobs on this machine: started, watched, stopped, and found again."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from slacktide.backends.base import backends
from slacktide.backends.local.local_job import LocalJob
from slacktide.backends.process_table import carries, scan
from slacktide.backends.workers import environment, reforming
from slacktide.backends.workers import job_folder as folder
from slacktide.backends.workers.environment import CAPACITY
from slacktide.backends.workers.job_table import JobTable
from slacktide.backends.workers.launch import STRAY_GRACE_S, Phase, ProcessStatus, is_name
from slacktide.backends.workers.progress import ReportedProgress
from slacktide.backends.workers.worker import VANISHED, Worker
from slacktide.backends.workers.worker_backend import WorkerBackend
from slacktide.backends.workers.worker_set import WorkerSet
from slacktide.core.errors import InputError
from slacktide.journal.events import Capacity

DONE_SHARE = 1.0 - 1e-6
"""What a job that reports progress must reach to be finished: sums of steps may miss 1 by a few bits."""


def status_of(job: LocalJob, now: float) -> ProcessStatus:
    """Return the status of a job as of its last step."""
    worker_set, order, tail = job.current, job.order, job.tail
    workers = worker_set.workers if worker_set else ()
    present, lost = _present(job), [worker.kind for worker in workers if worker.lost]
    source = job.printed or tail
    progress, reported_at = (source.progress, source.reported_at) if source else (ReportedProgress(), None)
    grown_at = now if source is None or reported_at is None else max(job.began_at, source.grown_at)
    never = (None,) * len(order.kinds) if order and not worker_set else ()
    phase, ended_well = _phase(job), _ended_well(job)
    failed = worker_set.failed_rank if worker_set and not job.is_void and not job.moved else None
    # Progress read from printed lines may end below 1: only a job's own reports have to reach it.
    done = reported_at is None or job.printed is not None or progress.done_share >= DONE_SHARE
    return ProcessStatus(
        attempt=job.attempt,
        phase=phase,
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
        gone=not job.going and phase in ("none", "exited"),
        gone_s=worker_set.gone_s if worker_set and not job.finishing else None,
        before_gone_s=job.before_gone_s,
        done_share=progress.done_share,
        checkpointed_share=min(progress.checkpointed_share, job.safe_share),
        saved=progress.saved,
        reported_s=None if reported_at is None else now - reported_at,
        own_report=worker_set is not None and reported_at is not None and _is_own_report(job, reported_at),
        metrics=tail.metrics if tail else {},
        began_s=now - job.began_at if worker_set and worker_set.attempt else None,
        silent_s=now - grown_at if worker_set and worker_set.present else 0.0,
        setup_exit=None if job.setup.stopped else job.setup.exit_code,
        newest_attempt=job.newest,
        trouble=job.trouble or _damage(job) or _trouble(job),
        reforming=job.reforming is not None and job.reforming.under_way,
        places_sent_s=_places_sent_s(job, now),
        able=worker_set is not None and reforming.are_able(worker_set),
        leaving=bool(job.going),
        notice_s=_notice_s(job, now),
    )


def _notice_s(job: LocalJob, now: float) -> float | None:
    notices = [worker_set.notice_s(now) for worker_set in job.sets]
    return min((left_s for left_s in notices if left_s is not None), default=None)


def _trouble(job: LocalJob) -> str:
    """Return the trouble with the change of a set or with the store; empty if there is none."""
    changing, store = job.reforming, job.stored
    return (changing.trouble if changing else "") or (store.trouble if store else "")


def _places_sent_s(job: LocalJob, now: float) -> float | None:
    places_sent_at = job.reforming.places_sent_at if job.reforming else None
    return None if places_sent_at is None else now - places_sent_at


def _is_own_report(job: LocalJob, reported_at: float) -> bool:
    """Say whether this set sent the report; a re-formed one sent only those since all took their places."""
    formed_at = job.reforming.formed_at if job.reforming else None
    return reported_at >= job.began_at if formed_at is None else reported_at > formed_at


def _present(job: LocalJob) -> list[str]:
    """Return the kinds of all present workers, of any attempt; a set-up holds no GPU."""
    sets = [worker_set for worker_set in job.sets if worker_set.attempt]
    return [worker.kind for worker_set in sets for worker in worker_set.workers if worker.present]


def _pending(job: LocalJob) -> int:
    """Count the workers that were ordered, have not begun and still may."""
    worker_set, unformed = job.current, job.unformed_gpus
    if job.order is not None and job.setup.failed_for == job.order.attempt:
        return 0
    if unformed is not None or worker_set is None:
        return unformed or 0
    return sum(worker.awaited for worker in worker_set.workers) if worker_set.lacking else 0


def _ended_well(job: LocalJob) -> bool:
    """Say whether all exited with 0, not told to stop, and all reports have been read since."""
    behind = job.tail is not None and job.tail.behind
    over = job.current is not None and job.current.succeeded and not job.finishing
    return over and not behind and not job.is_void


def _stopped(job: LocalJob) -> bool:
    """Say whether the attempt of this status will never finish because it was stopped."""
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


class LocalProcesses(JobTable[LocalJob]):
    """Holds for every job the workers that were last ordered, as processes of this machine."""

    def __init__(
        self,
        root: Path,
        owner: str,
        now: Callable[[], float] = time.monotonic,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Look after the jobs under `root`; they see little of `environ`. Raises InputError."""
        super().__init__(root, owner, now)
        self._environ = environ

    def _new_job(self, place: Path) -> LocalJob:
        return LocalJob(place, self._owner, self._environ, self._pick_devices, self._now())

    def fence(self, patience_s: float) -> bool:
        """End all workers within this time, whatever was ordered, and start none; say if any was alive.

        Only an attempt that is ordered later starts workers again.
        """
        return sum(job.fence(patience_s, self._now()) for job in self._jobs.values()) > 0

    def tick(self) -> None:
        now = self._now()
        self._advance(lambda _, job: job.advance(now))

    def look(self, job_id: str) -> ProcessStatus:
        return status_of(self._known(job_id), self._now())

    def sweep(self, keep: Mapping[str, int]) -> None:
        marked = _marked(self._owner)

        def adopt(job_id: str, job: LocalJob) -> None:
            if job.order is None:
                _sweep_job(job, keep.get(job_id), marked.get(job_id, {}), self._now())

        self._sweep([*marked, *filter(is_name, keep)], adopt)

    def close(self) -> None:
        """End the processes that copy checkpoints; workers keep running."""
        for job in self._jobs.values():
            if job.stored is not None:
                job.stored.close()

    def _pick_devices(self, workers: int) -> tuple[str, ...]:
        held = [job.intent for job in self._jobs.values() if job.current and not job.current.gone]
        used = (device for intent in held if intent for device in intent.devices)
        return environment.least_used(environment.machine_devices(self._environ), used, workers)


Marked: TypeAlias = Mapping[str, Mapping[int, Capacity]]
"""Ranks that live and their kinds, by the part of the job they belong to: an attempt's number, or `setup`."""


# Finding what an earlier controller left: notes on disk show every worker that registered. The marker shows
# those that have not yet, those whose folder was removed, and what outlived a supervisor. A worker that is
# about to begin finds the stop note and exits.


def _marked(owner: str) -> dict[str, dict[str, dict[int, Capacity]]]:
    """Return the workers of an owner that live on this machine, by job."""
    found: dict[str, dict[str, dict[int, Capacity]]] = defaultdict(lambda: defaultdict(dict))
    for seen in scan():
        parts = (seen.marker or "").split("/")
        if len(parts) == 4 and parts[0] == owner and parts[3].isdecimal() and is_name(parts[1]):
            ranks, rank = found[parts[1]][parts[2]], int(parts[3])
            # A process that ends while it is read shows no kind, so one process that shows spot is enough.
            is_spot = ranks.get(rank) == "spot" or carries(seen.process.pid, CAPACITY, "spot")
            ranks[rank] = "spot" if is_spot else "on-demand"
    return found


def _sweep_job(job: LocalJob, kept: int | None, living: Marked, now: float) -> None:
    """Adopt one attempt of a job, with its set-up, and begin to end all others; raises InputError or OSError.

    If the job's folder cannot be used, its living workers are found by the marker and ended first.
    """
    job.newest = max([job.newest, *(int(part) for part in living if part.isdecimal())])
    explained = {_part(worker_set) for worker_set in job.going}
    if job.current and job.current.attempt != kept:
        job.going, job.current, job.intent = [*job.going, job.current], None, None
        job.going[-1].stop(now)
        explained.add(_part(job.going[-1]))
    try:
        job.open(now)
        if kept is not None:
            job.setup.adopt(STRAY_GRACE_S, now)
            explained.add("setup")
            if job.current or job.adopt(kept, now):
                explained.add(str(kept))
            else:
                job.not_adopted(kept, lives=str(kept) in living)
                if not any(part.isdecimal() for part in living):
                    job.note_before(kept)
        living = _unclaimed(job, living, job.sets)
        left = _noted(job, living)
    except (OSError, InputError):
        _end_all(job, _marked_only(job, living), explained, now)
        raise
    living = _unclaimed(job, living, left)
    _end_all(job, [*left, *_marked_only(job, living)], explained, now)


def _unclaimed(job: LocalJob, living: Marked, sets: Iterable[WorkerSet]) -> Marked:
    """Return `living` without the workers of these sets, which may have begun in another attempt."""
    claimed = {worker.marker for worker_set in sets for worker in worker_set.workers}
    rest = {
        part: {rank: kind for rank, kind in ranks.items() if f"{job.prefix}/{part}/{rank}" not in claimed}
        for part, ranks in living.items()
    }
    return {part: ranks for part, ranks in rest.items() if ranks}


def _noted(job: LocalJob, living: Marked) -> list[WorkerSet]:
    """Return the sets of workers on disk that may not have ended."""
    taken_over = folder.taken_over(job.place)
    intents = (folder.read_intent(job.place, attempt) for attempt in folder.attempts(job.place))
    sets = [job.worker_set_of(intent, taken_over) for intent in intents if intent]
    setup = job.setup.left(STRAY_GRACE_S)
    if setup:
        sets.append(setup)
    return [
        worker_set
        for worker_set in sets
        if _part(worker_set) in living or any(worker.exit_code is None for worker in worker_set.workers)
    ]


def _marked_only(job: LocalJob, living: Marked) -> list[WorkerSet]:
    """Return sets made of processes of which only the marker is known."""
    sets = []
    for part, ranks in living.items():
        attempt = int(part) if part.isdecimal() else 0
        home = folder.attempt_folder(job.place, attempt)
        workers = [
            Worker(rank, kind, f"{job.prefix}/{part}/{rank}", home / f"rank-{rank}")
            for rank, kind in sorted(ranks.items())
        ]
        for worker in workers:
            worker.exit_code = VANISHED
        sets.append(WorkerSet(attempt, workers, home / "stop", STRAY_GRACE_S))
    return sets


def _end_all(job: LocalJob, left: Iterable[WorkerSet], explained: set[str], now: float) -> None:
    """End sets that are not `explained`; those from disk have to come first, because they know more."""
    for worker_set in left:
        if _part(worker_set) not in explained:
            explained.add(_part(worker_set))
            worker_set.stop(now)
            worker_set.poll(now)
            if not worker_set.gone:
                job.going.append(worker_set)


def _part(worker_set: WorkerSet) -> str:
    return str(worker_set.attempt) if worker_set.attempt else "setup"


@backends.register
@dataclass(slots=True)
class Local(WorkerBackend):
    """Processes of this machine, one for each GPU; those that the market takes are killed."""

    def __post_init__(self) -> None:
        self.workers = LocalProcesses(self.place.folder, self.place.owner)
