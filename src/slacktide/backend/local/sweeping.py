"""What an earlier controller left on this machine: found by the notes on disk and by the marker in memory.

The notes find every worker that registered. The marker finds those that have not yet, those whose folder was
removed, and what outlived a supervisor. One that is about to begin finds the stop note and leaves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

from slacktide.backend.local import folder, machine
from slacktide.backend.local.band import Band
from slacktide.backend.local.job import Job
from slacktide.backend.local.worker import VANISHED, Worker

STRAY_GRACE_S = 10.0
"""The patience with a process of which nothing but its marker is known."""

Marked: TypeAlias = Mapping[str, set[int]]
"""Ranks that live, by the part of the job they belong to: the number of an attempt, or `setup`."""


def marked(owner: str) -> dict[str, dict[str, set[int]]]:
    """Return what of an owner's lives on this machine, by job."""
    found: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for seen in machine.scan():
        parts = (seen.marker or "").split("/")
        if len(parts) == 4 and parts[0] == owner and parts[3].isdecimal():
            found[parts[1]][parts[2]].add(int(parts[3]))
    return found


def sweep(job: Job, kept: int | None, living: Marked, now: float) -> None:
    """Adopt one attempt of a job, with its set-up, and begin to end all else.

    A job that has an order is not touched: its workers are ours, nobody left them.
    """
    if job.order is not None:
        return
    explained = {_part(band) for band in job.going}
    if kept is not None:
        job.setup.adopt(STRAY_GRACE_S, now)
        explained.add("setup")
        if (job.band and job.band.attempt == kept) or job.adopt(kept, now):
            explained.add(str(kept))
    for part, band in _left(job, living):
        if part not in explained:
            explained.add(part)
            _end(job, band, now)


def _left(job: Job, living: Marked) -> list[tuple[str, Band]]:
    """Return everything of a job that may not have ended: what is on disk first, as it knows more."""
    attempts = [
        (str(attempt), folder.read_intent(job.place, attempt)) for attempt in folder.attempts(job.place)
    ]
    noted = [(part, job.band_of(intent)) for part, intent in attempts if intent]
    setup = job.setup.left(STRAY_GRACE_S)
    if setup:
        noted.append(("setup", setup))
    unfinished = [
        (part, band)
        for part, band in noted
        if part in living or any(worker.exit_code is None for worker in band.workers)
    ]
    return unfinished + [(part, _nameless(job, part, ranks)) for part, ranks in living.items()]


def _nameless(job: Job, part: str, ranks: set[int]) -> Band:
    """Return a band for processes of which only the marker is known."""
    attempt = int(part) if part.isdecimal() else 0
    home = folder.attempt_folder(job.place, attempt)
    workers = [
        Worker(rank, "on-demand", f"{job.prefix}/{part}/{rank}", home / f"rank-{rank}")
        for rank in sorted(ranks)
    ]
    for worker in workers:
        worker.exit_code = VANISHED
    return Band(attempt, workers, home / "stop", STRAY_GRACE_S)


def _part(band: Band) -> str:
    return str(band.attempt) if band.attempt else "setup"


def _end(job: Job, band: Band, now: float) -> None:
    band.stop(now)
    band.poll(now)
    if not band.gone:
        job.going.append(band)
