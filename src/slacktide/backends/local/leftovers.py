"""What an earlier controller left on this machine: found by the notes on disk and by the marker in memory.

The notes find every worker that registered. The marker finds those that have not yet, those whose folder was
removed, and what outlived a supervisor. One that is about to begin finds the stop note and leaves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from slacktide.backends.local.job import LocalJob
from slacktide.backends.processes import process_table
from slacktide.backends.workers import job_folder as folder
from slacktide.backends.workers.launch import Kind, is_name
from slacktide.backends.workers.process_status import STRAY_GRACE_S
from slacktide.backends.workers.worker import VANISHED, Worker
from slacktide.backends.workers.worker_set import WorkerSet
from slacktide.core.errors import InputError

Marked: TypeAlias = Mapping[str, Mapping[int, Kind]]
"""Ranks that live and their kinds, by the part of the job they belong to: an attempt's number, or `setup`."""


def marked(owner: str) -> dict[str, dict[str, dict[int, Kind]]]:
    """Return what of an owner's lives on this machine, by job."""
    found: dict[str, dict[str, dict[int, Kind]]] = defaultdict(lambda: defaultdict(dict))
    for seen in process_table.scan():
        parts = (seen.marker or "").split("/")
        if len(parts) == 4 and parts[0] == owner and parts[3].isdecimal() and is_name(parts[1]):
            ranks, rank = found[parts[1]][parts[2]], int(parts[3])
            # One of its processes may end while it is read, and then says nothing.
            ranks[rank] = "spot" if ranks.get(rank) == "spot" else _kind(seen.process.pid)
    return found


def sweep(job: LocalJob, kept: int | None, living: Marked, now: float) -> None:
    """Adopt one attempt of a job, with its set-up, and begin to end all else; raises InputError or OSError.

    When the job's folder is not ours to read, all that lives is ended by its marker before that is raised.
    """
    job.newest = max([job.newest, *(int(part) for part in living if part.isdecimal())])
    explained = {_part(worker_set) for worker_set in job.going}
    if job.worker_set and job.worker_set.attempt != kept:
        job.going, job.worker_set, job.intent = [*job.going, job.worker_set], None, None
        job.going[-1].stop(now)
        explained.add(_part(job.going[-1]))
    try:
        job.open(now)
        if kept is not None:
            job.setup.adopt(STRAY_GRACE_S, now)
            explained.add("setup")
            if job.worker_set or job.adopt(kept, now):
                explained.add(str(kept))
            else:
                job.not_adopted(kept, lives=str(kept) in living)
                if not any(part.isdecimal() for part in living):
                    job.note_before(kept)
        living = _unclaimed(job, living, filter(None, (job.worker_set, *job.going)))
        left = _noted(job, living)
    except (OSError, InputError):
        _end_all(job, _marked_only(job, living), explained, now)
        raise
    living = _unclaimed(job, living, (worker_set for _, worker_set in left))
    _end_all(job, [*left, *_marked_only(job, living)], explained, now)


def _unclaimed(job: LocalJob, living: Marked, sets: Iterable[WorkerSet]) -> Marked:
    """Return what lives without the workers of these sets, which may have begun in another attempt."""
    claimed = {worker.marker for worker_set in sets for worker in worker_set.workers}
    rest = {
        part: {rank: kind for rank, kind in ranks.items() if f"{job.prefix}/{part}/{rank}" not in claimed}
        for part, ranks in living.items()
    }
    return {part: ranks for part, ranks in rest.items() if ranks}


def _noted(job: LocalJob, living: Marked) -> list[tuple[str, WorkerSet]]:
    """Return everything on disk that may not have ended."""
    attempts = [
        (str(attempt), folder.read_intent(job.place, attempt)) for attempt in folder.attempts(job.place)
    ]
    taken_over = folder.taken_over(job.place)
    noted = [(part, job.worker_set_of(intent, taken_over)) for part, intent in attempts if intent]
    setup = job.setup.left(STRAY_GRACE_S)
    if setup:
        noted.append(("setup", setup))
    return [
        (part, worker_set)
        for part, worker_set in noted
        if part in living or any(worker.exit_code is None for worker in worker_set.workers)
    ]


def _marked_only(job: LocalJob, living: Marked) -> list[tuple[str, WorkerSet]]:
    """Return sets for processes of which only the marker is known."""
    return [(part, _nameless(job, part, ranks)) for part, ranks in living.items()]


def _nameless(job: LocalJob, part: str, ranks: Mapping[int, Kind]) -> WorkerSet:
    attempt = int(part) if part.isdecimal() else 0
    home = folder.attempt_folder(job.place, attempt)
    workers = [
        Worker(rank, kind, f"{job.prefix}/{part}/{rank}", home / f"rank-{rank}")
        for rank, kind in sorted(ranks.items())
    ]
    for worker in workers:
        worker.exit_code = VANISHED
    return WorkerSet(attempt, workers, home / "stop", STRAY_GRACE_S)


def _end_all(job: LocalJob, left: Iterable[tuple[str, WorkerSet]], explained: set[str], now: float) -> None:
    """End what is not explained; what is on disk comes first, as it knows more."""
    for part, worker_set in left:
        if part not in explained:
            explained.add(part)
            _end(job, worker_set, now)


def _end(job: LocalJob, worker_set: WorkerSet, now: float) -> None:
    worker_set.stop(now)
    worker_set.poll(now)
    if not worker_set.gone:
        job.going.append(worker_set)


def _part(worker_set: WorkerSet) -> str:
    return str(worker_set.attempt) if worker_set.attempt else "setup"


def _kind(pid: int) -> Kind:
    """Return what a process's GPU is rented as, by its own variables; on demand when it does not say."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            spot = b"SLACKTIDE_CAPACITY_TYPE=spot" in file.read().split(b"\0")
    except OSError:  # gone meanwhile
        spot = False
    return "spot" if spot else "on-demand"
