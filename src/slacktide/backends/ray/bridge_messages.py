"""What a link and its bridge process say to each other, over pipes.

What is said to agents, and what they answer, stays packed on the way: only both ends read it.
"""

from __future__ import annotations

from typing import NamedTuple

from slacktide.backends.machines.agent.messages import Host


class Sending(NamedTuple):
    """To the bridge: say this to the agent of a node."""

    host: str
    frame: bytes  # a packed `Say`


class Reply(NamedTuple):
    """From the bridge: what an agent answered."""

    host: str
    frame: bytes  # a packed `Answer`


class Beat(NamedTuple):
    """From the bridge, several times a second: it lives, and this is how things are."""

    connected: bool
    listed_ago_s: float = 0.0
    """How long ago the nodes were last listed: long, when the head of the cluster does not answer."""
    hosts: tuple[Host, ...] | None = None  # all nodes with GPUs, and all that died; None: as before
    trouble: str = ""  # why there is no connection, or no agent that answers, in a sentence
