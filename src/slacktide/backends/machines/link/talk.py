"""Sends every machine its last message again and again, and collects the answers.

It does so in a thread of its own: a controller that thinks for a minute must not lose its machines, whose
leases run while it does. Nothing is begun elsewhere meanwhile, because only that controller could.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slacktide.backends.machines.agent.messages import AgentAnswer, AgentMessage
from slacktide.backends.machines.link.link import Host, HostAnswer, Link

REPEAT_S = 0.2
"""How often a machine gets its message when nothing has changed."""
ANSWER_S = 2.0
"""How long to wait for an answer before a message is repeated."""
ROUND_S = 0.02


class TimedAnswer(NamedTuple):
    """An answer, whose it is, and when it came."""

    host: str
    answer: AgentAnswer
    at: float


@dataclass(slots=True)
class Exchange:
    """What goes to and fro between the controller and one machine."""

    say: AgentMessage
    fresh: bool = True
    """Whether it was not said yet."""
    sent: int = 0
    answered: int = 0
    sent_at: float = -math.inf
    token: str = ""
    """Of the last answer that came."""

    def is_due(self, now: float) -> bool:
        """Say whether something is to be said now."""
        if self.sent > self.answered:
            return now - self.sent_at >= ANSWER_S
        return self.fresh or now - self.sent_at >= REPEAT_S


class Talk:
    """Speaks with all machines of a link; may be used from another thread than its own."""

    def __init__(
        self, link: Link, now: Callable[[], float] = time.monotonic, *, threads: bool = True
    ) -> None:
        """Exchange messages over a link; without threads the caller has to call `turn` again and again."""
        self.link, self._now, self._threads = link, now, threads
        self._life = secrets.token_hex(6)
        self._lines: dict[str, Exchange] = {}
        self._answers: list[TimedAnswer] = []
        self._hosts: Sequence[Host] = ()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def say(self, host: str, say: AgentMessage) -> None:
        """Have a machine receive this from now on; what comes along as `packs` is sent once."""
        self._begin()
        with self._lock:
            line = self._lines.setdefault(host, Exchange(say))
            whole = say._replace(packs={**line.say.packs, **say.packs})
            if whole != line.say:
                line.say, line.fresh = whole, True

    def sent(self, host: str) -> int:
        """Return the number of the last message to a machine."""
        with self._lock:
            return self._lines[host].sent if host in self._lines else 0

    def hosts(self) -> Sequence[Host]:
        """List the machines, as of a moment ago."""
        self._begin()
        return self._hosts

    def answers(self) -> list[TimedAnswer]:
        """Return what was answered since the last call."""
        with self._lock:
            answers, self._answers = self._answers, []
        return answers

    def close(self) -> None:
        """Say nothing more, and let go of the link."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
        self.link.close()

    def turn(self) -> None:
        """Take over what was answered, and say what is due."""
        hosts, received = self.link.hosts(), self.link.answers()
        now = self._now()
        with self._lock:
            self._hosts = hosts
            for one in received:
                self._receive(one, now)
            up = [host.id for host in hosts if host.alive]
            due = [(name, self._next(name, now)) for name in up if self._is_due(name, now)]
        for name, say in due:
            self.link.send(name, say)

    def _begin(self) -> None:
        if self._thread is None and self._threads:
            self._hosts = self.link.hosts()
            self._thread = threading.Thread(target=self._go_round, daemon=True, name="slacktide-talk")
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
        if not received.answer.heeded:
            line.fresh = True  # it knows us now: say it again at once
        self._answers.append(TimedAnswer(received.host, received.answer, now))

    def _is_due(self, name: str, now: float) -> bool:
        return name in self._lines and self._lines[name].is_due(now)

    def _next(self, name: str, now: float) -> AgentMessage:
        line = self._lines[name]
        line.sent, line.sent_at, line.fresh = line.sent + 1, now, False
        said = line.say._replace(number=line.sent, life=self._life, last_token=line.token)
        line.say = line.say._replace(packs={})
        return said
