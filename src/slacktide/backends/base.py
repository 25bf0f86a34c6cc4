"""The contract of back ends, which hold GPUs for the engine. They report facts, never money."""

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
    """Shell text of the user, started once per worker."""
    setup: str | None = None
    """Shell text that has to succeed once before the first worker is started."""
    workdir: str = "."
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names only; `BackendPlace.secrets` knows the values, which stand in no journal."""
    checkpoints: bool = True
    """Whether it makes any; if not, every loss begins it anew and nothing need be kept."""
    checkpoint_dir: str | None = None
    """Where checkpoints go; None: wherever the back end likes, the same place for all attempts."""
    checkpoint_url: str | None = None
    """The store to which checkpoints are copied, and from which they are brought to a machine that has none;
    None: they are only where the workers write them. A back end that cannot must refuse the job."""
    checkpoint_keep: int = 2
    """How many checkpoints the store keeps."""
    grace_s: float = 0.0
    """How long a worker may take to checkpoint and end after the request to stop, by the wall clock."""
    worked: bool = False
    """Whether it has done work already, which must not be lost where the back end keeps its checkpoints."""
    progress_log: str | None = None
    """A pattern that finds progress in what rank 0 prints: one group is a share or percent, two are done and
    total. None: the job reports progress itself, or not at all."""


class WorkerFailure(NamedTuple):
    """A worker that ended by itself, without a request to stop."""

    rank: int
    exit_code: int
    """Negative: the signal that ended it."""
    hopeless: bool = False
    """Whether trying again would end the same: the command does not exist, or the set-up failed."""
    what: str = ""


class JobProgress(NamedTuple):
    """What a job reports of its own work; the engine decides what that means in GPU-hours."""

    done_share: float
    checkpointed_share: float
    """The part that a worker killed without notice would not lose."""
    at_hours: float = -math.inf
    """When the workers of this attempt last reported it; minus infinity while only earlier ones have."""
    saved: SavedEvidence = "said"
    """How `checkpointed_share` is known."""


class BackendStatus(NamedTuple):
    """What there is of a job, by the back end's own knowledge."""

    attempt: int = 0
    """The set of workers that all of this is about: an older one than ordered until that has gone."""
    pool: str | None = None
    spot_gpus: int = 0
    on_demand_gpus: int = 0
    """Held now, of any attempt, including workers that were requested to end: this is what is paid for."""
    pending_gpus: int = 0
    """Ordered and not there yet."""
    taken_spot_gpus: int = 0
    """Lost since the attempt began although Slacktide did not end them: a loss, not a failure."""
    progress: JobProgress | None = None
    """None: nothing was ever reported, so the engine estimates by physics."""
    finished: bool | None = None
    """Whether all workers ended with 0, without a request to stop, and reported that all is done where they
    report anything; None: not known, so the work ends when physics says so."""
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
    """Whether this attempt was requested to stop, by anyone, or lost workers: it will never finish, whatever
    it exits with, and only a new attempt goes on."""
    since_hours: float = math.inf
    """When the workers of this attempt were started, on the market's clock; infinite while they were not, and
    where that is not known."""
    until_hours: float = math.inf
    """When the last worker of this attempt had gone, on the market's clock: by its own note, else by the last
    sign of life. Infinite while one lives, and where that is not known."""
    before_until_hours: float = math.inf
    """When the last worker of the attempt before this one had gone; infinite where that is not known."""
    newest_attempt: int = 0
    """The highest attempt that was ever begun here: a new one must be higher."""
    trouble: str = ""
    """What keeps this job from being run here just now, in a sentence; it is no other job's trouble."""
    reform_hours: float = -math.inf
    """When workers that stayed from the attempt before received their places in this one: they worked until
    then. Infinite while not all have taken them, minus infinity where all workers were started."""
    notice_hours: float | None = None
    """In how many market hours the first of the spot GPUs of this attempt are taken, where a warning came;
    None: there was no warning."""


PIECE_BYTES = 1 << 16
"""The most of a line of output that is handed on at once."""


class Log(Protocol):
    """What one worker printed."""

    @property
    def attempt(self) -> int:
        """The set of workers; 0 is the set-up."""
        ...

    @property
    def rank(self) -> int: ...

    def read(self, after: int) -> Iterator[bytes]:
        """Yield the lines that begin at this many bytes or later, each with its end where it has one.

        A line that is longer comes in pieces of PIECE_BYTES, so no reader has to keep all of it in memory.
        """
        ...


class Backend(Protocol):
    """Holds GPUs for jobs. Every call returns at once and may be repeated.

    A class that is registered in `backends` is made with a `BackendPlace` and nothing else.
    """

    def enter(self, launch: LaunchSpec) -> None:
        """Get to know a job; raises InputError or BackendError when it cannot be run here."""
        ...

    def hold(self, order: Order) -> None:
        """Make it so."""
        ...

    def look(self, jobs: Sequence[str]) -> Mapping[str, BackendStatus]:
        """Move on whatever is under way, and say of each of these jobs what is; raises BackendError."""
        ...

    def stop_hours(self, job: str) -> float:
        """Return how many market hours letting go of everything may take."""
        ...

    def logs(self, job: str) -> Sequence[Log]:
        """Return what the set-up and the workers of a job printed, oldest attempt first."""
        ...

    def sweep(self, orders: Sequence[Order]) -> None:
        """End every worker that no order explains, and watch over those that one does."""
        ...

    def close(self) -> None:
        """Let go of files and connections, not of workers: the next controller takes charge of them."""
        ...


@runtime_checkable
class Preemptable(Protocol):
    """A back end that can play the market."""

    def take(self, job: str, spot_left: int, notice_s: float) -> None:
        """Take spot GPUs away until only this many are left, as the market does, after some notice."""
        ...


class PoolRoom(NamedTuple):
    """The most GPUs of each kind that can be had, for all jobs together; infinite where that is not known."""

    spot_gpus: float = math.inf
    on_demand_gpus: float = math.inf


@runtime_checkable
class Bounded(Protocol):
    """A back end that knows how much can be had, whatever the market says."""

    def room(self, pool: str) -> PoolRoom:
        """Return how much can be had in a pool, as far as is known; what is held already is part of it."""
        ...


@runtime_checkable
class RentsMachines(Protocol):
    """A back end that rents machines."""

    @property
    def rented(self) -> int:
        """How many machines have been rented and not been seen to end; looking brings it down to what is
        needed."""
        ...

    @property
    def renting_trouble(self) -> str:
        """What keeps it from renting or giving back what it should; empty when nothing does."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendPlace:
    """What a back end is made with."""

    folder: Path = Path(".")
    """Where it may keep files; nothing else writes below it, except under names that begin with a dot."""
    owner: str = "nobody"
    """Whose workers they are: the journal's id, which no other journal has."""
    speed: float = 1.0
    """How many times as fast as the wall's the market's clock runs."""
    now_hours: Callable[[], float] = lambda: -math.inf
    """Reads the market's clock."""
    secrets: Callable[[str], Mapping[str, str]] = lambda job: {}
    """Returns the values of a job's secrets, and of variables that it took over; raises InputError."""
    diary: MachineLog = field(default_factory=MemoryMachineLog)
    """Where the account of rented machines is written: the journal. Only to be used inside of a call of the
    back end, by the thread that calls it."""
    renting: Callable[[str, str], Renting] | None = None
    """Returns from which provider and how machines are rented, given the address that they join and the file
    with the token for it, both perhaps empty; None: no machine is rented. Raises InputError."""


backends: Register[Backend] = Register(
    "back end", packages=("slacktide.backends",), entry_points="slacktide.backends"
)
