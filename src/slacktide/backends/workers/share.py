"""The part of a set of workers that one machine carries, where others carry the rest."""

from __future__ import annotations

from typing import NamedTuple


class Share(NamedTuple):
    """Which ranks of a set are here, and what they have to know of the others."""

    ranks: tuple[int, ...]
    addresses: tuple[str, ...]
    """The machine of every rank of the set; rank 0's is where they meet."""
    master_port: int
    devices: tuple[str, ...] = ()
    """The GPU of each of these ranks; empty on a machine without."""
    former: int = 0
    """The attempt from which workers go on in this one, here or on other machines; 0: all are started."""
    kept: tuple[tuple[int, int], ...] = ()
    """Those who go on here: their rank, and the one that they had in the former attempt."""
    go: bool = False
    """Whether the workers of such a set are ready on all machines, so that they may be told their places."""
