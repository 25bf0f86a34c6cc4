"""A node of Ray as a machine of ours: what its labels say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from slacktide.backends.machines.link.base import Host
from slacktide.backends.workers.launch import Kind

MARKET, POOL, TICKET, GPUS = "market", "pool", "slacktide-ticket", "slacktide-gpus"
"""The labels of a node: what it is rented as, where, with which ticket, and its GPUs where Ray itself knows
of none. Labels hold no slash: a pool `zone/type` is written `zone.type`."""

RAYS_MARKET = "ray.io/market-type"
"""Ray's own label for the same as MARKET, which some clouds and KubeRay set."""


def host_of(node: Mapping[str, Any]) -> Host:
    """Return a node of `ray.nodes()` as a machine; Ray lists no GPUs of one that is gone."""
    labels: Mapping[str, str] = node.get("Labels") or {}
    kind = labels.get(MARKET) or labels.get(RAYS_MARKET)
    return Host(
        id=node["NodeID"],
        kind=next((known for known in get_args(Kind) if known == kind), None),
        pool=labels.get(POOL),
        gpus=_gpus(labels, node.get("Resources") or {}),
        address=node.get("NodeManagerAddress", ""),
        ticket=labels.get(TICKET, ""),
        alive=bool(node["Alive"]),
    )


def _gpus(labels: Mapping[str, str], resources: Mapping[str, float]) -> int:
    said = labels.get(GPUS, "")
    return int(said) if said.isdecimal() else int(resources.get("GPU", 0))
