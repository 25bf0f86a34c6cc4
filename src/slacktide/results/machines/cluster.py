"""A local cluster as `slacktide cluster status` shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """A node of a local cluster."""

    name: str
    id: str  # as Ray calls it
    capacity: str  # `spot` or `on-demand`
    gpus: int
    alive: bool
    workers: int  # how many workers of jobs run on it


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """A local cluster."""

    up: bool  # whether it can be used; if not, `slacktide cluster down` clears what is left of it
    address: str
    token_path: str  # the file with the token that lets clients in
    nodes: tuple[NodeStatus, ...]
