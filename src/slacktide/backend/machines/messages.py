"""What a controller says to the agent of a machine, and what that answers.

A controller always says the whole of what a machine is to do, never a change: a message that is lost or comes
twice does no harm, and whatever the last one does not name is to end. Times are told as seconds ago, because
no two machines have one clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from slacktide.backend.base import Failure
from slacktide.backend.local.job import Share
from slacktide.backend.local.launch import Kind, Launch
from slacktide.backend.local.observation import Observation

LogName: TypeAlias = tuple[str, int, int]
"""Job, attempt and rank; attempt 0 is the set-up of the job on that machine."""


class Task(NamedTuple):
    """The part of a job's set of workers that one machine carries."""

    job: str
    attempt: int
    """Fencing token: it only grows, and what comes with an older one comes too late."""
    kinds: tuple[Kind, ...]
    """Of these workers; none: all are to end."""
    share: Share
    launch: str
    """By which name the agent knows what is to be started; it says so when it does not know it."""


class Pack(NamedTuple):
    """What is to be started, as it travels: the folder that it runs in comes along."""

    launch: Launch
    files: bytes
    """The working folder as a zip file."""


class Say(NamedTuple):
    """All that a machine is to do from now on."""

    number: int
    """Told back in the answer, so that it is known after what it was given."""
    tasks: tuple[Task, ...] = ()
    packs: Mapping[str, Pack] = {}
    """What the agent said that it lacks."""
    read: Mapping[LogName, int] = {}
    """How many bytes of each log the controller has; of these, what came after is told."""
    reserve: tuple[str, ...] = ()
    """Jobs whose rank 0 is to be here, and for which a port is needed where all ranks meet."""


class Seen(NamedTuple):
    """What there is of a job on a machine."""

    observed: Observation
    """Its `gone_s` and `before_gone_s` are seconds ago."""
    failure: Failure | None


class Answer(NamedTuple):
    """What is, on one machine, after it was told something."""

    number: int
    jobs: Mapping[str, Seen]
    logs: Mapping[LogName, bytes]
    lacking: tuple[str, ...]
    """Launches that are to be told again."""
    ports: Mapping[str, int]
    fenced: int
    """How often the agent ended its workers because nobody had spoken to it for too long."""
