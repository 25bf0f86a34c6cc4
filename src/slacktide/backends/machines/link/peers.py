"""The machines that a controller speaks with, and what each last answered."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

from slacktide.backends.machines.agent.lease import CONTROLLER_WAITS_S
from slacktide.backends.machines.agent.messages import AgentAnswer, AgentMessage, LogName
from slacktide.backends.machines.link.link import Host
from slacktide.backends.machines.link.talk import REPEAT_S, Talk, TimedAnswer

FORGET_S = 3600.0
"""How long a machine is remembered that is not listed any more."""


@dataclass(slots=True, kw_only=True)
class Peer:
    """One machine."""

    host: Host
    last_answer_at: float
    """When it last answered; when this controller began, while it has not."""
    met_at: float
    """When it was first listed."""
    listed_at: float
    heeded_at: float = -math.inf
    """When it last answered that it did what the message said."""
    answered: int = 0
    """The number of the last message that was heeded."""
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


class Peers:
    """All machines of one link."""

    def __init__(self, talk: Talk, lease_s: float, now: float) -> None:
        self.talk, self._lease_s, self._began_at = talk, lease_s, now
        self._peers: dict[str, Peer] = {}
        self.gone: Collection[str] = ()
        """Machines of which their provider says that they have ended."""
        self.ours: Collection[str] | None = None
        """Machines on which workers may be begun; None: on all."""

    def all(self) -> list[Peer]:
        """Return the machines, those that are not alive included."""
        return list(self._peers.values())

    def get(self, host: str) -> Peer | None:
        """Return a machine that was ever listed."""
        return self._peers.get(host)

    def listen(self, now: float) -> list[tuple[Peer, AgentAnswer]]:
        """Take in which machines there are and what they answered; return the answers that mean something."""
        for host in self.talk.hosts():
            peer = self._peers.get(host.id)
            if peer is None:
                peer = Peer(host=host, last_answer_at=self._began_at, met_at=now, listed_at=now)
                self._peers[host.id] = peer
            peer.host, peer.listed_at = host, now
        for name in [one.host.id for one in self.all() if now - one.listed_at > FORGET_S]:
            del self._peers[name]
        return [found for timed in self.talk.answers() if (found := self._accept(timed)) is not None]

    def _accept(self, timed: TimedAnswer) -> tuple[Peer, AgentAnswer] | None:
        peer, answer = self._peers.get(timed.host), timed.answer
        if peer is None:
            return None
        peer.last_answer_at = max(peer.last_answer_at, timed.at)
        if not answer.heeded or answer.number <= peer.answered:
            return None
        peer.answered, peer.heeded_at = answer.number, timed.at
        peer.devices, peer.notice_s = answer.devices, answer.notice_s
        peer.lacking, peer.ports = answer.lacking, dict(answer.ports)
        return peer, answer

    def say(self, peer: Peer, say: AgentMessage) -> None:
        """Have a machine receive what it is to do."""
        self.talk.say(peer.host.id, say)
        peer.lacking = ()
        logs = frozenset(say.read)
        if not peer.requested or list(peer.requested.values())[-1] != logs:
            peer.requested = dict(list(peer.requested.items())[-1:])
            peer.requested[self.talk.sent(peer.host.id) + 1] = logs

    def is_fit(self, peer: Peer, now: float) -> bool:
        """Say whether new workers may be begun there: it is up, hears us, and is not about to be taken."""
        listening = now - peer.heeded_at < max(self._lease_s / 2.0, 2.0 * REPEAT_S)
        mine = peer.host.id not in self.gone and (self.ours is None or peer.host.id in self.ours)
        return peer.host.alive and listening and peer.notice_s is None and mine

    def is_away(self, host: str) -> bool:
        """Say whether a machine is known to be down, though workers may live there for a while yet."""
        peer = self._peers.get(host)
        return host in self.gone or (peer is not None and not peer.host.alive)

    def is_fenced(self, host: str, now: float) -> bool:
        """Say whether no worker can live there any more: it ended, or its lease has run out for sure."""
        peer = self._peers.get(host)
        last_answer_at = self._began_at if peer is None else peer.last_answer_at
        return host in self.gone or now - last_answer_at > self._lease_s + CONTROLLER_WAITS_S
