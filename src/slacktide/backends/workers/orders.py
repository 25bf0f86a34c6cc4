"""Which workers a job is to hold, and the table of all jobs whose workers a back end holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from slacktide.backends.processes import owned_folders
from slacktide.backends.workers.launch import Kind, Launch, check_name, is_name
from slacktide.backends.workers.process_status import LogFile, logs_in
from slacktide.core.errors import BackendError, InputError

RETRY_S = 1.0
"""How long to wait after the system could not start something."""


class SetPart(NamedTuple):
    """The part of a set of workers that one machine carries, where other machines carry the rest."""

    ranks: tuple[int, ...]
    addresses: tuple[str, ...]
    """The machine of every rank of the set; rank 0's is where they meet."""
    master_port: int
    devices: tuple[str, ...] = ()
    """The GPU of each of these ranks; empty on a machine without."""
    former: int = 0
    """The attempt from which workers go on in this one, here or on other machines; 0: all are started."""
    kept: tuple[tuple[int, int], ...] = ()
    """Those who go on here: their rank, and the one that they had in the former attempt."""
    go: bool = False
    """Whether the workers of such a set are ready on all machines, so that they may be given their places."""


class WorkerOrder(NamedTuple):
    """The workers that a job is to hold."""

    attempt: int
    kinds: tuple[Kind, ...]
    """By rank; none: no workers at all."""
    not_before: float
    pool: str = ""
    """Where the GPUs are rented."""
    part: SetPart | None = None
    """Which part of a larger set this is; None: these are all of its workers."""
    void: bool = False
    """Whether nothing of it may begin: the market took its workers before they did, or another order, of
    which the journal knows nothing, has begun an attempt of this number or a higher one."""
    short_spot: int = 0
    """How many spot GPUs of it were not available."""

    def voided(self) -> WorkerOrder:
        """Return the order with nothing that may begin any more."""
        return self._replace(void=True)

    def after_take(self, spot_left: int) -> WorkerOrder:
        """Return what is left of it when the market takes spot workers before any has begun."""
        return self._replace(void=self.void or self.kinds.count("spot") > spot_left)


def not_startable(attempt: int, job: str, why: object) -> BackendError:
    """Return the error for an attempt that the system refuses just now."""
    return BackendError(
        f"attempt {attempt} of job {job} must be startable, got: {why}; retrying in {RETRY_S:g} s"
    )


class HeldJob(Protocol):
    """What the table needs to know of a job."""

    place: Path
    order: WorkerOrder | None
    refusal: str
    trouble: str

    def open(self, now: float) -> None:
        """Read what is in the job's folder."""
        ...

    def hold(self, order: WorkerOrder, now: float) -> None:
        """Take a new order."""
        ...


J = TypeVar("J", bound=HeldJob)


class JobTable(Generic[J]):
    """The jobs below one folder, by their names; each is made when it is first mentioned."""

    def __init__(self, root: Path, owner: str, make: Callable[[Path], J]) -> None:
        """Name the folder of all jobs and their owner; `make` returns a job for a folder of its own."""
        check_name("an owner's name", owner)
        self._root, self._owner, self._make = root, owner, make
        self._jobs: dict[str, J] = {}

    def __getitem__(self, job_id: str) -> J:
        """Return a job whose name was found on this machine, and need not be checked."""
        if job_id not in self._jobs:
            self._jobs[job_id] = self._make(self._root / job_id)
        return self._jobs[job_id]

    def __iter__(self) -> Iterator[J]:
        return iter(self._jobs.values())

    def items(self) -> Iterable[tuple[str, J]]:
        """Return the jobs with their names."""
        return self._jobs.items()

    def known(self, job_id: str) -> J:
        """Return a job by a name that was given; raises InputError where that cannot name a folder."""
        check_name("a job id", job_id)
        return self[job_id]

    def take_in(self, launch: Launch, now: float) -> tuple[J, Launch]:
        """Make a job known with its folders; return it with what is to be started.

        Raises InputError for what cannot be run, BackendError when our own folder cannot be written.
        """
        job = self.known(launch.job_id)
        return job, owned_folders.taken_in(job, launch, self._owner, now)

    def refuse(self, job_id: str, why: str) -> None:
        """Note why a job cannot be started; what already runs of it is still watched."""
        if is_name(job_id):
            self[job_id].refusal = why

    def hold(self, job_id: str, order: WorkerOrder, now: float) -> bool:
        """Order workers; return whether the order is new. Raises InputError for an attempt of before."""
        job = self.known(job_id)
        before = job.order.attempt if job.order else 0
        if order.attempt < max(1, before):
            raise InputError(
                f"an attempt must be >= {max(1, before)}, the last one ordered, got {order.attempt}"
            )
        is_new = order.attempt != before or not order.kinds
        if is_new:
            job.hold(order, now)
        return is_new

    def taken(self, job_id: str, spot_left: int, notice_s: float) -> J:
        """Return a job from which the market takes spot workers; raises InputError."""
        if spot_left < 0 or not notice_s >= 0:
            raise InputError(f"spot_left and notice_s must be >= 0, got {spot_left} and {notice_s}")
        return self.known(job_id)

    def advance(self, step: Callable[[str, J], None]) -> None:
        """Take a step for each job; what goes wrong with one is its own trouble and no other's."""
        for job_id, job in self._jobs.items():
            try:
                step(job_id, job)
            except BackendError as error:
                job.trouble = str(error)
            except OSError as error:
                job.trouble = f"job {job_id} must be watchable, got: {error}; retrying"

    def sweep(self, named: Iterable[str], step: Callable[[str, J], None]) -> None:
        """Take a step for each job that has a folder here, or is among those that are named."""
        on_disk = {place.name for place in owned_folders.jobs(self._root, self._owner)}
        for job_id in sorted(on_disk | set(named)):
            job = self[job_id]
            try:
                step(job_id, job)
            except (OSError, InputError) as error:
                job.trouble = f"the folder of job {job_id} must be readable, got: {error}"

    def logs(self, job_id: str) -> list[LogFile]:
        """Return where the output of a job's set-up and workers is, oldest attempt first."""
        check_name("a job id", job_id)
        return logs_in(self._root / job_id)
