"""The jobs of a back end and the table of them: what is common to all places where workers can run."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from slacktide.backends.workers import job_folder as folder
from slacktide.backends.workers.job_folder import LogFile, logs_in
from slacktide.backends.workers.launch import (
    Launch,
    ProcessStatus,
    SetPart,
    WorkerOrder,
    check_launch,
    check_name,
    is_name,
)
from slacktide.core.errors import BackendError, InputError
from slacktide.journal.events import Capacity

RETRY_S = 1.0  # how long to wait after the system could not start something


class AttemptSet(Protocol):
    """The workers of one attempt."""

    @property
    def attempt(self) -> int:
        """Its number."""
        ...


S = TypeVar("S", bound=AttemptSet)


class OrderedJob(ABC, Generic[S]):
    """One job of a back end: its folder, its last order, and the sets of workers that exist."""

    def __init__(self, place: Path, owner: str) -> None:
        self.place, self.owner = place, owner
        self.launch: Launch | None = None
        self.refusal = "the command of the job is not known yet"
        """Why `launch` is still None."""
        self.order: WorkerOrder | None = None
        self.current: S | None = None  # the set of workers that exists now, of whichever attempt
        self.going: list[S] = []
        """Sets that are to end: what an earlier controller left without an order, and workers that leave a
        set."""
        self.newest = 0  # the highest attempt that was ever begun here
        self.trouble = ""  # why the last step failed; empty if it did not
        self.formed: int | None = None
        """The attempt that may be begun although it has a folder already."""
        self.retry_at = self.held_at = -math.inf

    @abstractmethod
    def take(self, spot_left: int, notice_s: float, now: float) -> None:
        """Let the market take the highest-ranked spot workers beyond `spot_left`, as in `JobTable.take`."""

    def enter(self, launch: Launch) -> None:
        """Use this launch from the next start on."""
        self.launch = launch

    def open(self, now: float) -> None:
        """Read what the folder holds; raises InputError for another owner's, and OSError."""
        folder.check_owned(self.place, self.owner)
        self.newest = max([self.newest, *folder.attempts(self.place)])

    def hold(self, order: WorkerOrder, now: float) -> None:
        """Take a new order; a start that failed is tried again at once."""
        self.order, self.retry_at, self.held_at = order, -math.inf, now

    @property
    def sets(self) -> list[S]:
        """All sets of workers, the current one first."""
        return [*(() if self.current is None else (self.current,)), *self.going]

    @property
    def attempt(self) -> int:
        """The attempt that a status is about: the old one until its workers have gone; 0: none."""
        about = self.current or self.order
        return 0 if about is None else about.attempt

    @property
    def is_void(self) -> bool:
        """Whether the current set has the order's attempt number but was made for a different order."""
        current, order = self.current, self.order
        return current is not None and order is not None and order.void and current.attempt == order.attempt

    @property
    def unformed_gpus(self) -> int | None:
        """How many workers are ordered and still to be begun; None: their set has been made."""
        order = self.order
        if order is None or order.void:
            return 0
        has_set = self.current is not None and self.current.attempt == order.attempt
        return None if has_set else len(order.kinds)

    def checked(self, order: WorkerOrder) -> WorkerOrder:
        """Return the order, made void if another order began this attempt: the journal may be an old copy."""
        if order.kinds and not order.void and self._is_foreign(order):
            self.order = order = order.voided()
        return order

    def _is_foreign(self, order: WorkerOrder) -> bool:
        if self.current is not None and self.current.attempt == order.attempt:
            return order.attempt < self.newest or not self.is_formed_for(self.current, order)
        return order.attempt <= self.newest and order.attempt != self.formed

    @abstractmethod
    def is_formed_for(self, current: S, order: WorkerOrder) -> bool:
        """Say whether a set was made for this order of the same attempt."""

    def void_if_taken(self, spot_left: int) -> None:
        """Void the order if nothing of it has begun and the market takes some of its spot workers."""
        order = self.order
        has_begun = self.current is not None and order is not None and self.current.attempt == order.attempt
        if order is not None and not has_begun and order.kinds.count("spot") > spot_left:
            self.order = order.voided()

    def startable(self, now: float) -> Launch:
        """Return how to start the workers; raises BackendError if that is not known."""
        if self.launch is None:
            self.retry_at = now + RETRY_S
            raise BackendError(f"the workers cannot be started: {self.refusal}")
        return self.launch

    def not_startable(self, attempt: int, why: object, now: float) -> BackendError:
        """Return the error for an attempt that could not be started; it is tried again in RETRY_S."""
        self.retry_at = now + RETRY_S
        return BackendError(
            f"attempt {attempt} of job {self.place.name} must be startable, got: {why}; "
            f"retrying in {RETRY_S:g} s"
        )

    def clear_trouble(self, now: float) -> None:
        """Forget the trouble of the last step, unless that still waits to be tried again."""
        if now >= self.retry_at:
            self.trouble = ""


J = TypeVar("J", bound=OrderedJob[Any])


class JobTable(ABC, Generic[J]):
    """Holds for every job the workers that were last ordered, wherever those run.

    Every call returns at once and may be repeated; `tick` does what takes time, a step at a time, and is to
    be called every 20 to 100 ms. One controller at a time may use an owner's name; workers outlive it, and
    the next one finds them with `sweep`. An invalid job name raises InputError.
    """

    def __init__(self, root: Path, owner: str, now: Callable[[], float]) -> None:
        """Look after the jobs of an owner below `root`; raises InputError for an invalid name."""
        check_name("an owner's name", owner)
        self._root, self._owner, self._now = Path(os.path.abspath(root)), owner, now
        self._jobs: dict[str, J] = {}

    @abstractmethod
    def _new_job(self, place: Path) -> J:
        """Make the job that has this folder."""

    @abstractmethod
    def tick(self) -> None:
        """Take the next steps for all jobs; an error of one only becomes the `trouble` of that one."""

    @abstractmethod
    def look(self, job_id: str) -> ProcessStatus:
        """Return what the last tick saw of a job."""

    @abstractmethod
    def sweep(self, keep: Mapping[str, int]) -> None:
        """Adopt the workers that an earlier controller left, of these attempts by job, and end all others.

        Adopted workers are watched as if we had started them; workers that a half-begun set lacks are started
        when the same attempt is held again. An attempt that was told to stop is not adopted. Call it before
        the first order: a job that has one is left alone, because its workers are ours.
        """

    @abstractmethod
    def close(self) -> None:
        """Close connections and end helper processes; workers keep running."""

    def _job(self, job_id: str) -> J:
        """Return the job of a name that needs no check, because it was found on this machine."""
        if job_id not in self._jobs:
            self._jobs[job_id] = self._new_job(self._root / job_id)
        return self._jobs[job_id]

    def _known(self, job_id: str) -> J:
        """Return the job of a name that a caller gave, once it is checked."""
        check_name("a job id", job_id)
        return self._job(job_id)

    def register(self, launch: Launch) -> None:
        """Make a job known, and its folders; called again, it sets the launch to use from the next start on.

        Raises InputError for a job that cannot be run, BackendError if its folder cannot be written.
        """
        job = self._known(launch.job)
        try:
            folder.own(job.place, self._owner)
            job.open(self._now())
        except OSError as error:
            raise BackendError(
                f"the folder of job {launch.job} must be writable, got: {error}; check disk and rights"
            ) from error
        check_launch(launch)
        job.enter(replace(launch, workdir=Path(os.path.abspath(launch.workdir))))

    def refuse(self, job_id: str, why: str) -> None:
        """Note why a job cannot be started; what already runs of it is still watched."""
        if is_name(job_id):
            self._job(job_id).refusal = why

    def hold(
        self,
        job_id: str,
        attempt: int,
        kinds: tuple[Capacity, ...],
        not_before: float = -math.inf,
        part: SetPart | None = None,
        pool: str = "",
    ) -> None:
        """Order these workers, rank i of kind `kinds[i]`; without kinds all end, whatever the attempt.

        A `part` says which ranks they have in a set that spans several machines.

        The same attempt again changes nothing. A higher one ends the present workers and then, from
        `not_before` on, starts new ones, if the job is registered. If only the number of workers changes and
        all of them can re-form, those that stay are not ended (see `reforming`).
        """
        job = self._known(job_id)
        before = job.order.attempt if job.order else 0
        if attempt < max(1, before):
            raise InputError(f"an attempt must be >= {max(1, before)}, the last one ordered, got {attempt}")
        if job.order is None or attempt != before or not kinds:
            job.hold(WorkerOrder(attempt, kinds, not_before, pool, part), self._now())
        elif part is not None and part.go and job.order.part is not None:
            # The workers on all machines are ready: those here may receive their places.
            job.order = job.order._replace(part=job.order.part._replace(go=True))

    def take(self, job_id: str, spot_left: int, notice_s: float) -> None:
        """Let the market take the highest-ranked spot workers beyond `spot_left`, after some notice.

        They get SIGTERM, and SIGKILL when the notice is over; without notice SIGKILL at once. The others of
        the attempt get SIGTERM and the grace period, since the set cannot go on; if they can re-form, they
        get it only if the next order does not keep them. Nothing is started until another attempt is ordered.
        """
        if spot_left < 0 or not notice_s >= 0:
            raise InputError(f"spot_left and notice_s must be >= 0, got {spot_left} and {notice_s}")
        self._known(job_id).take(spot_left, notice_s, self._now())

    def _advance(self, step: Callable[[str, J], None]) -> None:
        """Take a step for each job; an error of one only becomes the `trouble` of that one."""
        for job_id, job in self._jobs.items():
            try:
                step(job_id, job)
            except BackendError as error:
                job.trouble = str(error)
            except OSError as error:
                job.trouble = f"job {job_id} must be watchable, got: {error}; retrying"

    def _sweep(self, named: Iterable[str], step: Callable[[str, J], None]) -> None:
        """Take a step for each job that has a folder here or is named."""
        on_disk = {place.name for place in folder.jobs(self._root, self._owner)}
        for job_id in sorted(on_disk | set(named)):
            job = self._job(job_id)
            try:
                step(job_id, job)
            except (OSError, InputError) as error:
                job.trouble = f"the folder of job {job_id} must be readable, got: {error}"

    def logs(self, job_id: str) -> list[LogFile]:
        """Return where the output of a job's set-up and workers is, oldest attempt first."""
        check_name("a job id", job_id)
        return logs_in(self._root / job_id)
