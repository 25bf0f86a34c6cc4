"""Machines by SkyPilot: one cluster of one node for each ticket, on any cloud that SkyPilot has access to.

A pool is `infra/accelerator`, such as `aws/us-east-1/A100`, or `H100` for any cloud. The cluster's name says
whose it is, for which ticket and what it is: it is the key by which a repeated request gives one cluster, and
nothing has to be kept here. A launch takes minutes: renting hands it to SkyPilot's server and returns, and if
it fails, the list says why. Tried on a stand-in with SkyPilot 0.14's signatures; it was never run on a real
cloud.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from slacktide.core.errors import InputError, shown
from slacktide.core.units import parse_duration_hours
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import ListsAllOwners, Machine, Refused, Renter, providers
from slacktide.providers.boot import join_command
from slacktide.providers.library_process import LibraryProcess

PREFIX = "slacktide"


class Parts(NamedTuple):
    """What a name says."""

    owner: str
    ticket: str
    spec: MachineKind


def cluster_name(owner: str, ticket: str, spec: MachineKind) -> str:
    """Return the name of a ticket's cluster: its parts, with dots between them."""
    return ".".join([PREFIX, *map(_written, (owner, ticket, spec.pool, spec.kind, str(spec.gpus)))])


def parts_of(name: str) -> Parts | None:
    """Read the name of a cluster; None where it is none of ours."""
    first, *rest = name.split(".")
    if first != PREFIX or len(rest) != 5 or not rest[-1].isdecimal():
        return None
    owner, ticket, pool, kind = map(_read, rest[:4])
    return Parts(owner, ticket, MachineKind("spot" if kind == "spot" else "on-demand", pool, int(rest[-1])))


def _written(text: str) -> str:
    """Return a text in which everything but letters, digits and dashes is written as `_` and its bytes."""
    return re.sub(r"[^a-zA-Z0-9-]", lambda found: "".join(f"_{byte:02x}" for byte in found[0].encode()), text)


def _read(text: str) -> str:
    return re.sub(
        r"(?:_[0-9a-f]{2})+",
        lambda found: bytes.fromhex(found[0].replace("_", "")).decode("utf-8", "replace"),
        text,
    )


MODULE = "slacktide.providers.skypilot_child"
ANSWER_S = 45.0  # how long a question may take; the first one may start SkyPilot's own server


@providers.register
@dataclass(slots=True)
class Skypilot(ListsAllOwners):
    """Rents by SkyPilot, a cluster for each machine; needs `skypilot` 0.14; never run on a real cloud."""

    renter: Renter = field(default_factory=Renter)
    prepare: str = ""  # shell lines that run before the machine joins
    join: str = ""  # a command that joins and stays as long as the machine is of use; empty: Ray's
    longest_life: str = "48h"  # after this the command that joined is ended, and with it the machine
    idle_minutes: int = 5
    """When the command that joined has ended, SkyPilot ends the machine after this many minutes."""
    answer_s: float = ANSWER_S  # how long a question may take before SkyPilot is said to be unreachable
    _child: LibraryProcess = field(default_factory=lambda: LibraryProcess(MODULE), init=False, repr=False)

    def __post_init__(self) -> None:
        if self.idle_minutes < 1:
            raise InputError(f"idle_minutes must be >= 1, got {self.idle_minutes}", field="idle_minutes")
        parse_duration_hours(self.longest_life)

    def rent(self, ticket: str, spec: MachineKind) -> None:
        """Hand the launch of a cluster to SkyPilot; a repeated call reports how it went where it failed."""
        infra, _, accelerator = spec.pool.rpartition("/")
        if not accelerator:
            raise Refused(f"a pool of skypilot must be infra/accelerator, got {shown(spec.pool)}")
        minutes = max(1, math.ceil(parse_duration_hours(self.longest_life) * 60.0))
        join = join_command(ticket, spec, self.renter, self.join)
        self._call(
            "rent",
            name=cluster_name(self.renter.owner, ticket, spec),
            infra=infra or None,
            accelerators={accelerator: spec.gpus},
            use_spot=spec.kind == "spot",
            labels={"slacktide-owner": self.renter.owner, "slacktide-ticket": ticket},
            setup=self.prepare.strip() or None,
            run=f"timeout {minutes}m {join}",
            idle_minutes=self.idle_minutes,
        )

    def end(self, ids: Sequence[str]) -> None:
        """Take clusters of this owner down; launches under way are cancelled."""
        mine = [name for name in ids if (parts := parts_of(name)) and parts.owner == self.renter.owner]
        if mine:
            self._call("end", names=mine)

    def _machines(self) -> Iterator[tuple[str, Machine]]:
        for one in self._call("list"):
            parts = parts_of(one["name"])
            if parts is not None:
                since = None if one["since_s"] is None else datetime.fromtimestamp(one["since_s"], UTC)
                yield parts.owner, Machine(
                    one["name"], parts.ticket, parts.spec, one["state"], one["address"], one["why"],
                    since_utc=since,
                )  # fmt: skip

    def _call(self, verb: str, **about: Any) -> Any:
        return self._child.call({"verb": verb, **about}, self.answer_s, "SkyPilot")
