"""Exchanges messages with the machines of a link, again and again, and keeps what each last answered.

The loop runs in a thread of its own: a controller that computes for a minute must not lose its machines,
whose leases go on running. Nothing is started elsewhere meanwhile, because only that controller could do so.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from slacktide.backends.machines.agent.lease import CONTROLLER_WAITS_S
from slacktide.backends.machines.agent.messages import (
    AgentAnswer,
    AgentMessage,
    Host,
    HostAnswer,
    Link,
    LogName,
)

REPEAT_S = 0.2  # how often a machine gets its message when nothing has changed
ANSWER_S = 2.0  # how long to wait for an answer before a message is repeated
ROUND_S = 0.02


@dataclass(slots=True)
class Exchange:
    """The last message to one machine, and whether it was sent and answered."""

    message: AgentMessage
    fresh: bool = True  # whether it has not been sent yet
    sent: int = 0
    answered: int = 0
    sent_at: float = -math.inf
    token: str = ""  # of the last answer that came

    def is_due(self, now: float) -> bool:
        """Say whether the message is to be sent now."""
        if self.sent > self.answered:
            return now - self.sent_at >= ANSWER_S
        return self.fresh or now - self.sent_at >= REPEAT_S


class MessageLoop:
    """Sends every machine its current message again and again; may be called from other threads."""

    def __init__(
        self, link: Link, now: Callable[[], float] = time.monotonic, *, threads: bool = True
    ) -> None:
        """Exchange messages over a link; without threads the caller has to call `turn` again and again."""
        self.link, self._now, self._threads = link, now, threads
        self._life = secrets.token_hex(6)
        self._lines: dict[str, Exchange] = {}
        self._answers: list[tuple[HostAnswer, float]] = []
        self._hosts: Sequence[Host] = ()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def post(self, host: str, message: AgentMessage) -> None:
        """Send a machine this message from now on; its `packs` are sent only once."""
        self._begin()
        with self._lock:
            line = self._lines.setdefault(host, Exchange(message))
            whole = message._replace(packs={**line.message.packs, **message.packs})
            if whole != line.message:
                line.message, line.fresh = whole, True

    def sent(self, host: str) -> int:
        """Return the number of the last message to a machine."""
        with self._lock:
            return self._lines[host].sent if host in self._lines else 0

    def hosts(self) -> Sequence[Host]:
        """List the machines, as of a moment ago."""
        self._begin()
        return self._hosts

    def answers(self) -> list[tuple[HostAnswer, float]]:
        """Return the answers since the last call, each with the time at which it came."""
        with self._lock:
            answers, self._answers = self._answers, []
        return answers

    def close(self) -> None:
        """Send nothing more, and close the link."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
        self.link.close()

    def turn(self) -> None:
        """Take in the answers, and send what is due."""
        hosts, received = self.link.hosts(), self.link.answers()
        now = self._now()
        with self._lock:
            self._hosts = hosts
            for answer in received:
                self._receive(answer, now)
            up = [host.id for host in hosts if host.alive]
            lines = [name for name in up if name in self._lines and self._lines[name].is_due(now)]
            due = [(name, self._next(name, now)) for name in lines]
        for name, message in due:
            self.link.send(name, message)

    def _begin(self) -> None:
        if self._thread is None and self._threads:
            self._hosts = self.link.hosts()
            self._thread = threading.Thread(target=self._go_round, daemon=True, name="slacktide-messages")
            self._thread.start()

    def _go_round(self) -> None:
        while not self._closed.wait(ROUND_S):
            self.turn()

    def _receive(self, received: HostAnswer, now: float) -> None:
        line = self._lines.get(received.host)
        if line is None:
            return
        line.token = received.answer.token
        line.answered = max(line.answered, received.answer.number)
        if not received.answer.accepted:
            line.fresh = True  # its answer makes us known to it: repeat the message at once
        self._answers.append((received, now))

    def _next(self, name: str, now: float) -> AgentMessage:
        line = self._lines[name]
        line.sent, line.sent_at, line.fresh = line.sent + 1, now, False
        numbered = line.message._replace(number=line.sent, life=self._life, last_token=line.token)
        line.message = line.message._replace(packs={})
        return numbered


FORGET_S = 3600.0  # how long a machine that is no longer listed is remembered


@dataclass(slots=True, kw_only=True)
class KnownMachine:
    """What is known about one machine: its last answer, and when it came."""

    host: Host
    last_answer_at: float  # when it last answered; before that, when this controller began
    met_at: float  # when it was first listed
    listed_at: float
    accepted_at: float = -math.inf  # when it last answered that it accepted a message
    answered: int = 0  # the number of the last message that was accepted
    devices: tuple[str, ...] = ()
    notice_s: float | None = None
    lacking: tuple[str, ...] = ()
    ports: dict[str, int] = field(default_factory=dict)
    requested: dict[int, frozenset[LogName]] = field(default_factory=dict)
    """Which logs were requested, by the number of the first message that did."""

    def was_requested(self, number: int, logs: Collection[LogName]) -> bool:
        """Say whether these logs were requested in a message that was answered."""
        names = [requested for first, requested in self.requested.items() if first <= number]
        return bool(names) and names[-1].issuperset(logs)


class KnownMachines:
    """All machines of one link."""

    def __init__(self, loop: MessageLoop, lease_s: float, now: float) -> None:
        self.loop, self._lease_s, self._began_at = loop, lease_s, now
        self._machines: dict[str, KnownMachine] = {}
        self.gone: Collection[str] = ()
        """Machines that have ended for sure, as a provider or back end reported."""
        self.ours: Collection[str] | None = None
        """Machines on which workers may be started; None: on all."""

    def all(self) -> list[KnownMachine]:
        """Return the machines, those that are not alive included."""
        return list(self._machines.values())

    def get(self, host: str) -> KnownMachine | None:
        """Return a machine that was ever listed."""
        return self._machines.get(host)

    def listen(self, now: float) -> list[tuple[KnownMachine, AgentAnswer]]:
        """Update the list of machines; return the answers of those that accepted a new message."""
        for host in self.loop.hosts():
            machine = self._machines.get(host.id)
            if machine is None:
                machine = KnownMachine(host=host, last_answer_at=self._began_at, met_at=now, listed_at=now)
                self._machines[host.id] = machine
            machine.host, machine.listed_at = host, now
        for machine in self.all():
            if now - machine.listed_at > FORGET_S:
                del self._machines[machine.host.id]
        accepted = [self._accept(answer, at) for answer, at in self.loop.answers()]
        return list(filter(None, accepted))

    def _accept(self, received: HostAnswer, at: float) -> tuple[KnownMachine, AgentAnswer] | None:
        machine, answer = self._machines.get(received.host), received.answer
        if machine is None:
            return None
        machine.last_answer_at = max(machine.last_answer_at, at)
        if not answer.accepted or answer.number <= machine.answered:
            return None
        machine.answered, machine.accepted_at = answer.number, at
        machine.devices, machine.notice_s = answer.devices, answer.notice_s
        machine.lacking, machine.ports = answer.lacking, dict(answer.ports)
        return machine, answer

    def post(self, machine: KnownMachine, message: AgentMessage) -> None:
        """Send a machine this message from now on."""
        self.loop.post(machine.host.id, message)
        machine.lacking = ()
        logs = frozenset(message.read)
        if not machine.requested or list(machine.requested.values())[-1] != logs:
            machine.requested = dict(list(machine.requested.items())[-1:])
            machine.requested[self.loop.sent(machine.host.id) + 1] = logs

    def is_fit(self, machine: KnownMachine, now: float) -> bool:
        """Say whether new workers may be started there: it is up, answers, and is not about to be taken."""
        listening = now - machine.accepted_at < max(self._lease_s / 2.0, 2.0 * REPEAT_S)
        usable = machine.host.id not in self.gone and (self.ours is None or machine.host.id in self.ours)
        return machine.host.alive and listening and machine.notice_s is None and usable

    def is_away(self, host: str) -> bool:
        """Say whether a machine is known to be down, though workers may still run there for a while."""
        machine = self._machines.get(host)
        return host in self.gone or (machine is not None and not machine.host.alive)

    def is_fenced(self, host: str, now: float) -> bool:
        """Say whether no worker can run there any more: it ended, or its lease has run out for sure."""
        machine = self._machines.get(host)
        last_answer_at = self._began_at if machine is None else machine.last_answer_at
        return host in self.gone or now - last_answer_at > self._lease_s + CONTROLLER_WAITS_S
