"""Follows jobs on a server until all have ended: their events, and the state of each."""

from __future__ import annotations

import contextlib
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slacktide.app.jobs.submission import Submission
from slacktide.app.journal.listing import SHOWN_SLOTS, projected
from slacktide.client.http import ServerError
from slacktide.client.remote import RemoteJournal
from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote
from slacktide.core.types import Job
from slacktide.files.job import parse_job
from slacktide.journal.events import Ended, Record
from slacktide.results.status import Standing


class RemoteRun:
    """Follows jobs of a server; events come from the server's journal, in its order."""

    def __init__(self, journal: RemoteJournal, jobs: Sequence[str]) -> None:
        self._journal, self.jobs = journal, tuple(jobs)
        self._after = dict.fromkeys(jobs, 0)
        self._files: dict[str, Job] = {}
        self._ended: set[str] = set()
        self.speed = journal.speed()

    @property
    def over(self) -> bool:
        return len(self._ended) == len(self._after)

    def news(self) -> Iterator[Record]:
        for job in self.jobs:
            if job in self._ended:
                continue
            for record, _ in self._journal.events(job, after=self._after[job]):
                self._after[job] = record.seq
                if isinstance(record.event, Ended):
                    self._ended.add(job)
                yield record

    def cancel(self) -> None:
        """Request that all jobs be ended: their workers may checkpoint, then their GPUs are released."""
        for job in self.jobs:
            if job not in self._ended:
                cancel(self._journal, job)

    def standing(self, job: str) -> Standing | None:
        """Return where a job stands, as of its last event; None before it held anything."""
        row, course = self._journal.job(job), self._journal.course(job)
        points: list[dict[str, Any]] = course["points"]
        if not points:
            return None
        if job not in self._files:
            self._files[job] = parse_job(row["text"]).job
        share = row["progress_gpu_hours"] / row["work_gpu_hours"]
        return Standing(
            name=job,
            job=self._files[job],
            policy=row["policy"],
            pool=points[-1]["pool"],
            status=row["status"],
            health=row["health"],
            hours=row["hours"],
            projected_hours=course["projected_hours"],
            projected_usd=projected(row["cost_usd"], share),
            quotes=quotes(points, row["hours"]),
            spot_gpus=row["spot_gpus"],
            on_demand_gpus=row["on_demand_gpus"],
            progress_gpu_hours=row["progress_gpu_hours"],
            estimated=row["progress_estimated"],
            spot_usd=row["spot_usd"],
            on_demand_usd=row["on_demand_usd"],
            may_move=bool(row["pools"]),
            move_usd=max(0.0, row["cost_usd"] - row["spot_usd"] - row["on_demand_usd"]),
        )


def quotes(points: Sequence[Mapping[str, Any]], hours: float) -> list[Quote]:
    """Return the quotes offered to a job since it began, at evenly spaced moments; the last one is now."""
    began = [point["hours"] for point in points]
    count = min(SHOWN_SLOTS, max(1, len(points)))
    moments = [hours * (number + 1) / count for number in range(count)]
    offered = [points[max(0, bisect_right(began, moment) - 1)] for moment in moments]
    return [
        Quote(
            point["spot_usd_per_gpu_hour"] or 0.0,
            point["on_demand_usd_per_gpu_hour"] or math.nan,
            point["offered_spot_gpus"],
        )
        for point in offered
    ]


def submit_all(journal: RemoteJournal, submissions: Sequence[Submission]) -> list[str]:
    """Submit jobs to a server, all or none, and return their ids.

    Raises the server's error for the first job that it refuses, and InputError if it has no controller.
    """
    keys: list[str] = []
    jobs: list[str] = []
    try:
        for submission in submissions:
            keys.append(journal.submit(submission))
            job = journal.wait(keys[-1])
            if job is None:
                must = "a server must have a controller that runs its jobs, got none; start it again"
                raise InputError(must)
            jobs.append(job)
    except BaseException:
        for name in [*jobs, *keys[len(jobs) :]]:
            cancel(journal, name)
        raise
    return jobs


def cancel(journal: RemoteJournal, job: str) -> None:
    """Request that a job be ended, or a submission be withdrawn, unless it is over already."""
    with contextlib.suppress(ServerError):
        journal.cancel(job)
