"""Which machine carries which rank: as few machines as possible, of the kind and pool that were ordered."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from slacktide.backends.machines.agent.messages import Host
from slacktide.backends.machines.set_form import GpuSeat
from slacktide.backends.workers.launch import Kind


class FreeHost(NamedTuple):
    """What a machine has to give."""

    host: Host
    devices: tuple[str, ...]  # one for each GPU that is free; empty names where GPUs cannot be seen


def fits(host: Host, kind: Kind, pool: str) -> bool:
    """Say whether a machine may serve as this kind in this pool; a label cannot hold every name of a pool."""
    return host.kind in (None, kind) and host.pool in (None, pool, pool.replace("/", "."))


def place(
    kinds: Sequence[Kind], pool: str, free: Sequence[FreeHost], used: Collection[str] = ()
) -> tuple[GpuSeat, ...] | None:
    """Return a seat for every rank; None where there are not enough. Others of the set are on `used`."""
    left = {one.host.id: list(one.devices) for one in free}
    seats: list[GpuSeat] = []
    for kind in kinds:
        found = [one for one in free if fits(one.host, kind, pool) and left[one.host.id]]
        if not found:
            return None
        # Machines in use first, then those that can serve as nothing else, then large ones.
        in_use = {*used, *(seat.host for seat in seats)}
        best = min(
            found,
            key=lambda one: (
                one.host.id not in in_use,
                one.host.kind is None,
                -len(left[one.host.id]),
                one.host.id,
            ),
        )
        seats.append(GpuSeat(best.host.id, best.host.address, left[best.host.id].pop(0)))
    return tuple(seats)


def missing(kinds: Sequence[Kind], pool: str, free: Sequence[FreeHost]) -> Mapping[Kind, int]:
    """Return how many GPUs of each kind are not to be had, those that serve as either counted for each."""
    found: dict[Kind, int] = {}
    for kind in dict.fromkeys(kinds):
        there = sum(len(one.devices) for one in free if fits(one.host, kind, pool))
        if kinds.count(kind) > there:
            found[kind] = kinds.count(kind) - there
    return found
