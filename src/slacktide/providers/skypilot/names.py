"""Names of SkyPilot clusters that say all about them: owner, ticket, pool, kind and GPUs."""

from __future__ import annotations

import re
from typing import NamedTuple

from slacktide.journal.state.tickets import MachineKind

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
