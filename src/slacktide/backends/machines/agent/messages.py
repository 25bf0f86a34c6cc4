"""The messages between a controller and the agent of a machine, and the link that carries them.

A message always says all that a machine is to do, never a change: one that is lost or comes twice does no
harm, and workers that the last one does not name are to end. Times are given as seconds ago, because machines
do not share a clock.

An agent obeys only a controller that has lately received an answer from it: a message names the last answer,
and if the agent gave that longer ago than its lease, or does not know it, it answers and does nothing else.
So the lease runs from an answer that arrived: a message that was delayed for minutes starts nothing, the
lease also ends if only answers are lost, and a controller knows without asking when it has run out.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple, Protocol, TypeAlias

from slacktide.backends.workers.launch import Launch, ProcessStatus, SetPart
from slacktide.journal.events import Capacity

LogName: TypeAlias = tuple[str, int, int]
"""Job, attempt and rank; attempt 0 is the set-up of the job on that machine."""
SHARED = ".slacktide-shared"  # a file by which a shared folder is recognized on another machine


class AgentTask(NamedTuple):
    """The part of a job's set of workers that one machine runs."""

    job: str
    attempt: int  # fencing token: it only grows, and tasks with an older one are ignored
    kinds: tuple[Capacity, ...]  # of these workers; none: all are to end
    part: SetPart
    launch: str  # the name of the package to start; the agent reports it as lacking if it does not have it
    spot_left: int | None = None
    """How many spot workers the market leaves on this machine; None: all. The others have `notice_s` left."""
    notice_s: float = 0.0


class LaunchPack(NamedTuple):
    """The package that a machine needs to start a job: how it is started, and its working folder."""

    launch: Launch
    files: bytes  # the working folder as a zip file
    shared: str | None = None
    """What the file named SHARED in `checkpoint_dir` must contain, which shows that all machines share the
    folder; None: it may be the machine's own."""


class AgentMessage(NamedTuple):
    """All that a machine is to do from now on."""

    number: int
    """Repeated in the answer, to show which message it follows; a message with a lower number is ignored."""
    life: str = ""  # the controller's name, unique to it and to the time since it was started
    last_token: str = ""  # the `token` of the last answer that came from this machine; empty: none came
    tasks: tuple[AgentTask, ...] = ()
    packs: Mapping[str, LaunchPack] = {}  # what the agent reported as lacking
    read: Mapping[LogName, int] = {}
    """How many bytes of each log the controller has; the answer contains what follows."""
    reserve: tuple[str, ...] = ()
    """Jobs whose rank 0 will be on this machine, and which need a port where all ranks meet."""


class LogPart(NamedTuple):
    """A part of a log."""

    after: int  # the byte where it begins: later than requested if the log grew too fast
    text: bytes


class AgentAnswer(NamedTuple):
    """The state of one machine after a message."""

    number: int
    token: str  # names this answer; a controller that sends it back has received the answer
    accepted: bool = False  # whether the agent obeyed the message; if not, the rest means nothing
    jobs: Mapping[str, ProcessStatus] = {}
    """The status of each job here; `gone_s` and `before_gone_s` are seconds ago."""
    logs: Mapping[LogName, LogPart] = {}
    lacking: tuple[str, ...] = ()  # packages that the agent needs and does not have
    ports: Mapping[str, int] = {}
    devices: tuple[str, ...] = ()
    """The GPUs of the machine as CUDA names them; empty where it has none that can be seen."""
    notice_s: float | None = None  # how long the machine has left, where its cloud has warned it


_SIZE = struct.Struct("!Q")


def write_frame(file: IO[bytes], message: Any) -> None:
    """Write one message whole; raises OSError when the reader is gone."""
    data = pickle.dumps(message)
    file.write(_SIZE.pack(len(data)) + data)
    file.flush()


def read_frame(file: IO[bytes]) -> Any:
    """Read one message; raises EOFError when there are no more.

    Both ends are ours and of one version: unpickling a stranger's message would run a stranger's code.
    """
    head = file.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise EOFError
    (size,) = _SIZE.unpack(head)
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)


class Host(NamedTuple):
    """A machine as the link to it knows it."""

    id: str  # unique: a machine that is started again gets another id
    kind: Capacity | None  # what it is rented as; None: not known, so it may serve as either
    pool: str | None  # None: not known, so it may serve in any
    gpus: int
    address: str  # where other machines reach it
    ticket: str = ""  # with which it was rented; empty: it does not say
    alive: bool = True
    """Whether the link considers it up; if not, workers may still run there until their lease ends."""


class HostAnswer(NamedTuple):
    """An answer, and the machine that it came from."""

    host: str
    answer: AgentAnswer


class Link(Protocol):
    """Sends messages to the agents of machines, and receives their answers."""

    def hosts(self) -> Sequence[Host]:
        """List the machines; those that are gone stay listed for a while."""
        ...

    def send(self, host: str, message: AgentMessage) -> None:
        """Send this to the agent of a machine. A message that has not been delivered yet is dropped."""
        ...

    def answers(self) -> Sequence[HostAnswer]:
        """Return the answers since the last call, in the order in which they came."""
        ...

    @property
    def trouble(self) -> str:
        """Why no machine can be reached just now, as a sentence; empty if some can."""
        ...

    def close(self) -> None:
        """Close connections and end helper processes; agents and workers keep running."""
        ...
