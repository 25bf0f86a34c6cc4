"""The way from a controller to the agents of machines: three verbs, whatever carries the messages.

A carrier may lose messages, deliver them late or twice, and die: what is said is always the whole of what is
wanted, and an agent obeys only a controller that lately received an answer. Every call returns at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from slacktide.backends.machines.agent.messages import AgentAnswer, AgentMessage
from slacktide.backends.workers.launch import Kind


class Host(NamedTuple):
    """A machine as its carrier knows it."""

    id: str
    """A name that no other machine ever has, nor the same one after it was started anew."""
    kind: Kind | None
    """What it is rented as; None: not known, so it may serve as either."""
    pool: str | None
    """None: not known, so it may serve as any."""
    gpus: int
    address: str
    """At which other machines reach it."""
    ticket: str = ""
    """With which it was rented; empty: it is simply there."""
    alive: bool = True
    """Whether its carrier believes that it is up; if not, workers may live there for as long as the lease."""


class HostAnswer(NamedTuple):
    """An answer, and whose it is."""

    host: str
    answer: AgentAnswer


class Link(Protocol):
    """Carries messages to the agents of machines, and their answers back."""

    def hosts(self) -> Sequence[Host]:
        """List the machines; those that are gone stay for a while, and nothing is known of the unlisted."""
        ...

    def send(self, host: str, message: AgentMessage) -> None:
        """Say this to the agent of a machine. What was said before and has not been delivered is dropped."""
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
