"""What a link and its bridge process share: labels of nodes, variables of clients, and frames.

Messages to agents, and their answers, stay packed on the way: only the two ends read them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

from slacktide.backends.machines.agent.messages import Host
from slacktide.journal.events import Capacity

MARKET, POOL, TICKET, GPUS = "market", "pool", "slacktide-ticket", "slacktide-gpus"
"""The labels of a node: what it is rented as, its pool, its ticket, and its GPUs if Ray itself does not know
of them. Labels hold no slash: a pool `zone/type` is written `zone.type`."""

RAYS_MARKET = "ray.io/market-type"
"""Ray's own label for the same as MARKET, which some clouds and KubeRay set."""


def host_of(node: Mapping[str, Any]) -> Host:
    """Return a node of `ray.nodes()` as a machine; Ray lists no GPUs of one that is gone."""
    labels: Mapping[str, str] = node.get("Labels") or {}
    kind = labels.get(MARKET) or labels.get(RAYS_MARKET)
    return Host(
        id=node["NodeID"],
        kind=next((known for known in get_args(Capacity) if known == kind), None),
        pool=labels.get(POOL),
        gpus=_gpus(labels, node.get("Resources") or {}),
        address=node.get("NodeManagerAddress", ""),
        ticket=labels.get(TICKET, ""),
        alive=bool(node["Alive"]),
    )


def _gpus(labels: Mapping[str, str], resources: Mapping[str, float]) -> int:
    label = labels.get(GPUS, "")
    return int(label) if label.isdecimal() else int(resources.get("GPU", 0))


LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Without this, Ray replaces a loopback address by one that others can reach, and listens on all
addresses."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Ray sends no usage data to its makers, and does not warn about GPUs that we do not request from it."""
CLIENT = "ray://"


def is_loopback(address: str) -> bool:
    """Whether `host:port` is a loopback address."""
    host = address.removeprefix(CLIENT).rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def token_environ(base: Mapping[str, str], token: Path | None) -> dict[str, str]:
    """Return variables with which Ray uses the token in a file; without a file, the user's own."""
    if token is None:
        return dict(base)
    kept = {name: value for name, value in base.items() if name != "RAY_AUTH_TOKEN"}
    return {**kept, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}


def client_environ(base: Mapping[str, str], address: str, token: Path | None) -> dict[str, str]:
    """Return the variables of a client of the cluster at an address."""
    return {**token_environ(base, token), **QUIET, **(LOOPBACK if is_loopback(address) else {})}


class Sending(NamedTuple):
    """To the bridge: send this to the agent of a node."""

    host: str
    frame: bytes  # a packed `AgentMessage`


class Reply(NamedTuple):
    """From the bridge: what an agent answered."""

    host: str
    frame: bytes  # a packed `AgentAnswer`


class Beat(NamedTuple):
    """From the bridge, several times a second: a sign of life, and its state."""

    connected: bool
    listed_ago_s: float = 0.0
    """How long ago the nodes were last listed; it grows while the head of the cluster does not answer."""
    hosts: tuple[Host, ...] | None = None  # all nodes with GPUs, and all that died; None: unchanged
    trouble: str = ""  # why there is no connection, or why no agent answers, as a sentence
