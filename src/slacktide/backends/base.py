"""The interface that every back end implements: it holds GPUs for jobs, and reports facts, never money."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from slacktide.core.register import Register
from slacktide.core.types import Order, SavedEvidence
from slacktide.journal.state.tickets import MachineLog, MemoryMachineLog
from slacktide.providers.base import Renting


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """What is needed to start the workers of a job: no physics, no policy, no file to parse."""

    job: str
    run: str = ""
    """The user's shell command, started once per worker."""
    setup: str | None = None
    """A shell command that has to succeed once before the first worker is started."""
    workdir: str = "."
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names only; `BackendPlace.secrets` returns the values, which are never written to a journal."""
    checkpoints: bool = True
    """Whether the job makes checkpoints; if not, it starts over after every loss of workers."""
    checkpoint_dir: str | None = None
    """Where checkpoints go; None: the back end chooses a folder, the same one for all attempts."""
    checkpoint_url: str | None = None
    """The store to which checkpoints are copied, and from which a machine that has none loads them. None:
    they stay where the workers write them. A back end that cannot copy them must refuse the job."""
    checkpoint_keep: int = 2
    """How many checkpoints the store keeps."""
    grace_s: float = 0.0
    """How long a worker may take to checkpoint and end after the request to stop, by the wall clock."""
    worked: bool = False
    """Whether it has done work already: a back end that has lost its checkpoints must then not start it."""
    progress_log: str | None = None
    """A pattern that finds progress in what rank 0 prints: one group is a share or percent, two are done and
    total. None: the job reports progress itself, or not at all."""


class WorkerFailure(NamedTuple):
    """A worker that ended by itself, without a request to stop."""

    rank: int
    exit_code: int
    """Negative: the signal that ended it."""
    hopeless: bool = False
    """Whether trying again is useless: the command does not exist, or the set-up failed."""
    what: str = ""


class JobProgress(NamedTuple):
    """What a job reports of its own work; the engine decides what that means in GPU-hours."""

    done_share: float
    checkpointed_share: float
    """The part that a worker killed without notice would not lose."""
    at_hours: float = -math.inf
    """When the workers of this attempt last reported it; minus infinity while only earlier attempts have."""
    saved: SavedEvidence = "said"
    """How `checkpointed_share` is known."""


class BackendStatus(NamedTuple):
    """What a back end knows about a job."""

    attempt: int = 0
    """The attempt that all of this is about: an older one than was ordered, until its workers have gone."""
    pool: str | None = None
    spot_gpus: int = 0
    on_demand_gpus: int = 0
    """Held now, of any attempt, including workers that were told to stop: this is what is paid for."""
    pending_gpus: int = 0
    """Ordered but not there yet."""
    taken_spot_gpus: int = 0
    """Lost since the attempt began although Slacktide did not end them: a loss, not a failure."""
    progress: JobProgress | None = None
    """None: nothing was ever reported, so the engine estimates by physics."""
    finished: bool | None = None
    """Whether all workers exited with 0, not told to stop, and reported that all is done if they report
    anything. None: not known, so the work ends when the engine's estimate says so."""
    failure: WorkerFailure | None = None
    metrics: Mapping[str, float] = {}
    silent_s: float = 0.0
    """Seconds of the wall clock since progress last grew or this attempt began; 0 while none was reported."""
    gone: bool = False
    """Whether no worker is left."""
    lost_on_demand_gpus: int = 0
    """On-demand machines that disappeared although Slacktide did not end them: also a loss, and not a
    failure."""
    stopped: bool = False
    """Whether this attempt got a stop signal from anyone, or lost workers: it will never finish, whatever it
    exits with, and only a new attempt can continue."""
    since_hours: float = math.inf
    """When the workers of this attempt were started, on the market's clock; infinite if they were not, or if
    that is not known."""
    until_hours: float = math.inf
    """When the last worker of this attempt ended, on the market's clock: by its exit note, else by its last
    sign of life. Infinite while one still runs, or if that is not known."""
    before_until_hours: float = math.inf
    """When the last worker of the attempt before this one ended; infinite if that is not known."""
    newest_attempt: int = 0
    """The highest attempt that this back end ever began for the job: a new one must be higher."""
    trouble: str = ""
    """Why this job cannot run here just now, as a sentence; it concerns no other job."""
    reform_hours: float = -math.inf
    """When workers kept from the attempt before received their places in this one: until then they worked in
    the old one. Infinite until all have taken their places, minus infinity if all workers are new."""
    notice_hours: float | None = None
    """Market hours until the first spot GPUs of this attempt are taken; None: no warning came."""


PIECE_BYTES = 1 << 16
"""The longest piece of a line of output that `Log.read` yields."""


class Log(Protocol):
    """What one worker printed."""

    @property
    def attempt(self) -> int:
        """The set of workers; 0 is the set-up."""
        ...

    @property
    def rank(self) -> int: ...

    def read(self, after: int) -> Iterator[bytes]:
        """Yield the lines from this byte on, each with its newline if it has one.

        Longer lines come in pieces of PIECE_BYTES, so that no reader has to keep a whole one in memory.
        """
        ...


class Backend(Protocol):
    """Holds GPUs for jobs. Every call returns at once and may be repeated.

    A class that is registered in `backends` is made with a `BackendPlace` and nothing else.
    """

    def enter(self, launch: LaunchSpec) -> None:
        """Register a job; raises InputError or BackendError when it cannot be run here."""
        ...

    def hold(self, order: Order) -> None:
        """Have the job hold what the order says; later calls of `look` start and end workers for it."""
        ...

    def look(self, jobs: Sequence[str]) -> Mapping[str, BackendStatus]:
        """Take the next steps of what is under way; return the status of these jobs. Raises BackendError."""
        ...

    def stop_hours(self, job: str) -> float:
        """Return how many market hours it may take to end all workers of a job."""
        ...

    def logs(self, job: str) -> Sequence[Log]:
        """Return what the set-up and the workers of a job printed, oldest attempt first."""
        ...

    def sweep(self, orders: Sequence[Order]) -> None:
        """Adopt the workers that belong to these orders, and end all others of this journal."""
        ...

    def close(self) -> None:
        """Close files and connections; workers keep running, and the next controller adopts them."""
        ...


@runtime_checkable
class Preemptable(Protocol):
    """A back end that can take spot GPUs away on request, as the market would."""

    def take(self, job: str, spot_left: int, notice_s: float) -> None:
        """Take spot GPUs away until only this many are left, as the market does, after some notice."""
        ...


class PoolRoom(NamedTuple):
    """The most GPUs of each kind that all jobs together can hold; infinite if that is not known."""

    spot_gpus: float = math.inf
    on_demand_gpus: float = math.inf


@runtime_checkable
class Bounded(Protocol):
    """A back end that knows how many GPUs it can provide, whatever the market quotes."""

    def room(self, pool: str) -> PoolRoom:
        """Return how many GPUs a pool can provide, as far as is known, including those that are held."""
        ...


@runtime_checkable
class RentsMachines(Protocol):
    """A back end that rents machines."""

    @property
    def rented(self) -> int:
        """How many rented machines have not been seen to end; `look` brings it down to what is needed."""
        ...

    @property
    def renting_trouble(self) -> str:
        """Why it cannot rent or end machines as it should; empty when it can."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendPlace:
    """What a back end is made with."""

    folder: Path = Path(".")
    """Where it may keep files; nothing else writes below it, except under names that begin with a dot."""
    owner: str = "nobody"
    """The id of the journal that the workers belong to; no other journal has it."""
    speed: float = 1.0
    """How many times as fast as the wall clock the market's clock runs."""
    now_hours: Callable[[], float] = lambda: -math.inf
    """Reads the market's clock."""
    secrets: Callable[[str], Mapping[str, str]] = lambda job: {}
    """Returns the values of a job's secrets, and of variables that it took over; raises InputError."""
    diary: MachineLog = field(default_factory=MemoryMachineLog)
    """Where the account of rented machines is written: the journal. Only to be used while a method of
    the back end runs, by the thread that called it."""
    renting: Callable[[str, str], Renting] | None = None
    """Returns the provider and the rules for renting, given the address that machines join and the file with
    its token, both possibly empty; raises InputError. None: no machines are rented."""


backends: Register[Backend] = Register(
    "back end", packages=("slacktide.backends",), entry_points="slacktide.backends"
)
