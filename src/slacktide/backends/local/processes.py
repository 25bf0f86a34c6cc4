"""The training processes of many jobs on this machine: started, watched, stopped, and found again."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from slacktide.backends.local import leftovers, observe
from slacktide.backends.local.job import LocalJob
from slacktide.backends.workers import environment
from slacktide.backends.workers.launch import Kind, Launch, is_name
from slacktide.backends.workers.orders import JobTable, SetPart, WorkerOrder
from slacktide.backends.workers.process_status import LogFile, ProcessStatus, Stray


class LocalProcesses:
    """Holds for every job the workers that were last ordered.

    Every call returns at once and may be repeated; `tick` does what takes time, a step at a time, and is to
    be called every 20 to 100 ms. One controller at a time may use an owner's name; workers outlive it, and
    the next one finds them with `sweep`.
    """

    def __init__(
        self,
        root: Path,
        owner: str,
        now: Callable[[], float] = time.monotonic,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Look after the jobs under `root`; they see little of `environ`. Raises InputError."""
        self._owner, self._now, self._environ = owner, now, environ
        self._jobs = JobTable(
            Path(os.path.abspath(root)), owner, lambda place: LocalJob(place, owner, environ, now())
        )

    def register(self, launch: Launch) -> None:
        """Make a job known, with its folders; registered again, the new launch counts from the next start on.

        Raises InputError for what cannot be run, BackendError when our own folder cannot be written.
        """
        job, taken_in = self._jobs.take_in(launch, self._now())
        job.enter(taken_in)

    def refuse(self, job_id: str, why: str) -> None:
        """Note why a job cannot be started; what already runs of it is still watched."""
        self._jobs.refuse(job_id, why)

    def hold(
        self,
        job_id: str,
        attempt: int,
        kinds: tuple[Kind, ...],
        not_before: float = -math.inf,
        part: SetPart | None = None,
        pool: str = "",
    ) -> None:
        """Order these workers, rank i of kind `kinds[i]`; no kinds: none at all, whatever the attempt.

        A `part` says which ranks they have in a set that several machines carry.

        The same attempt again changes nothing. Another one ends the workers that there are and then, from
        `not_before` on, starts the new ones, which needs a registered job. Where only the number of workers
        changes and all say that they can, those that stay are not ended (`reforming`). Attempts only grow.
        Raises InputError.
        """
        order = WorkerOrder(attempt, kinds, not_before, pool, part)
        is_new = self._jobs.hold(job_id, order, self._now())
        if not is_new and part is not None and part.go:
            self._jobs[job_id].let_go_on()

    def take(self, job_id: str, spot_left: int, notice_s: float) -> None:
        """Let the market take the highest-ranked spot workers beyond `spot_left`, after some notice.

        They get SIGTERM and when the notice is over SIGKILL; without notice SIGKILL at once. The others of
        the attempt get SIGTERM and the grace period, since the set has to re-form; if they say that they can
        do that in place, they get it only if the next order does not keep them. Nothing is started until
        another attempt is ordered. Raises InputError.
        """
        self._jobs.taken(job_id, spot_left, notice_s).take(spot_left, notice_s, self._now())

    def fence(self, patience_s: float) -> bool:
        """End all workers within this time, by whichever order they run, and begin none; say if any lived.

        Only an attempt that is ordered afterwards begins anything again.
        """
        return sum(job.fence(patience_s, self._now()) for job in self._jobs) > 0

    def tick(self) -> None:
        """Take the next steps for all jobs; what goes wrong with one is that one's trouble."""
        now = self._now()
        self._jobs.advance(lambda _, job: job.advance(now, self._pick_devices))

    def look(self, job_id: str) -> ProcessStatus:
        """Return what the last tick saw of a job; raises InputError for what is no job's name."""
        return observe.observe(self._jobs.known(job_id), self._now())

    def sweep(self, keep: Mapping[str, int]) -> None:
        """Take charge of what an earlier controller left: keep these attempts, end all else.

        Kept workers are watched and signalled as if we had started them, and the missing ones of a set
        that was only half begun are started when the same attempt is held again. An attempt that was
        requested to stop is not kept. To be called before the first order: a job that has one is not touched,
        for its workers are ours. What is to go gets SIGTERM now, and SIGKILL from a later tick.
        """
        marked = leftovers.marked(self._owner)

        def adopt(job_id: str, job: LocalJob) -> None:
            if job.order is None:
                leftovers.sweep(job, keep.get(job_id), marked.get(job_id, {}), self._now())

        self._jobs.sweep([*marked, *filter(is_name, keep)], adopt)

    def close(self) -> None:
        """End what copies checkpoints; workers stay."""
        for job in self._jobs:
            if job.stored is not None:
                job.stored.close()

    def strays(self) -> list[Stray]:
        """Return what `sweep` found, is to go and has not gone."""
        return [
            Stray(job_id, worker_set.attempt, worker.rank, pid)
            for job_id, job in self._jobs.items()
            for worker_set in job.going
            for worker in worker_set.workers
            for pid in worker.pids
        ]

    def logs(self, job_id: str) -> list[LogFile]:
        """Return where the output of a job's set-up and workers is, oldest attempt first."""
        return self._jobs.logs(job_id)

    def _pick_devices(self, workers: int) -> tuple[str, ...]:
        intents = (
            job.intent for job in self._jobs if job.intent and job.worker_set and not job.worker_set.gone
        )
        used = (device for intent in intents for device in intent.devices)
        return environment.least_used(environment.machine_devices(self._environ), used, workers)
