"""What a controller sends to the agent of a machine, and what that answers.

A message is always the whole of what a machine is to do, never a change: one that is lost or comes twice does
no harm, and whatever the last one does not name is to end. Times are given as seconds ago, because no two
machines have one clock.

An agent obeys only a controller that has lately received an answer of it: a message names the last answer,
and if the agent gave that longer ago than its lease, or does not know it, it answers and does nothing else.
So the lease runs from an answer that arrived: a message that was on its way for minutes starts nothing, a way
on which only answers are lost ends the lease too, and a controller knows without asking when it has run out.
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
SHARED = ".slacktide-shared"  # the name of a file by which a folder is recognised on another machine


class AgentTask(NamedTuple):
    """The part of a job's set of workers that one machine carries."""

    job: str
    attempt: int  # fencing token: it only grows, and what comes with an older one comes too late
    kinds: tuple[Capacity, ...]  # of these workers; none: all are to end
    part: SetPart
    launch: str  # by which name the agent knows what is to be started; it says so when it does not know it
    spot_left: int | None = None
    """How many of its spot workers the market leaves it; None: all. The others have `notice_s` left."""
    notice_s: float = 0.0


class LaunchPack(NamedTuple):
    """What is to be started, as it travels: the folder that it runs in comes along."""

    launch: Launch
    files: bytes  # the working folder as a zip file
    shared: str | None = None
    """What `checkpoint_dir` holds in a file named SHARED if it is the same folder on all machines, as it must
    be then; None: the folder may be the machine's own."""


class AgentMessage(NamedTuple):
    """All that a machine is to do from now on."""

    number: int
    """Repeated in the answer, so that it is known after which message it was given; a lower one comes too
    late."""
    life: str = ""  # the controller's name, which no other has, nor the same one after it was started anew
    last_token: str = ""  # the `token` of the last answer that came from this machine; empty: none has
    tasks: tuple[AgentTask, ...] = ()
    packs: Mapping[str, LaunchPack] = {}  # what the agent reported as lacking
    read: Mapping[LogName, int] = {}
    """How many bytes of each log the controller has; the answer brings what came after."""
    reserve: tuple[str, ...] = ()
    """Jobs whose rank 0 is to be here, and for which a port is needed where all ranks meet."""


class LogPart(NamedTuple):
    """A part of what was printed."""

    after: int  # where it begins: further on than requested where a log has grown too fast
    text: bytes


class AgentAnswer(NamedTuple):
    """What is, on one machine, after a message."""

    number: int
    token: str  # names this answer; a controller that repeats it has received it
    accepted: bool = False  # whether the agent obeyed the message; if not, the rest means nothing
    jobs: Mapping[str, ProcessStatus] = {}
    """What there is of each job here; `gone_s` and `before_gone_s` are seconds ago."""
    logs: Mapping[LogName, LogPart] = {}
    lacking: tuple[str, ...] = ()  # launches that are to be sent again
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
    """Read one message; raises EOFError when there is none any more.

    Both ends are ours and of one version: a pickle of a stranger's would be a stranger's program.
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

    id: str  # a name that no other machine ever has, nor the same one after it was started anew
    kind: Capacity | None  # what it is rented as; None: not known, so it may serve as either
    pool: str | None  # none: not known, so it may serve as any
    gpus: int
    address: str  # at which other machines reach it
    ticket: str = ""  # with which it was rented; empty: it is simply there
    alive: bool = True
    """Whether the link takes it for up; if not, workers may live there for as long as the lease."""


class HostAnswer(NamedTuple):
    """An answer, and the machine that it came from."""

    host: str
    answer: AgentAnswer


class Link(Protocol):
    """Carries messages to the agents of machines, and their answers back."""

    def hosts(self) -> Sequence[Host]:
        """List the machines; those that are gone stay for a while, and nothing is known of the unlisted."""
        ...

    def send(self, host: str, message: AgentMessage) -> None:
        """Send this to the agent of a machine. A message that has not been delivered yet is dropped."""
        ...

    def answers(self) -> Sequence[HostAnswer]:
        """Return what was answered since the last call, in the order in which it came."""
        ...

    @property
    def trouble(self) -> str:
        """Why no machine can be reached just now, in a sentence; empty when some can."""
        ...

    def close(self) -> None:
        """Let go of connections and processes of our own; agents and workers stay."""
        ...
