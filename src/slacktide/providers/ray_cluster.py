"""Machines of a Ray or KubeRay cluster that is there already: its nodes, taken and set free again.

Who has which node is noted in the cluster's own key-value store, under the node's id, by a write that fails
where there is a note already. So several journals can share one cluster. Ray is used by a child process only:
when a cluster's head dies, Ray may end the process that talks to it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import ListsAllOwners, Machine, Refused, Renter, providers
from slacktide.providers.library_process import LibraryProcess

MODULE = "slacktide.providers.ray_cluster_child"
ANSWER_S = 15.0  # how long a question may take, the start of the child included


@providers.register
@dataclass(slots=True)
class RayCluster(ListsAllOwners):
    """Takes nodes of a Ray or KubeRay cluster that is there already, by label, and sets them free again."""

    renter: Renter = field(default_factory=Renter)
    address: str = ""  # HOST:PORT of the head; empty: what machines are to join, or $RAY_ADDRESS
    answer_s: float = ANSWER_S  # how long a question may take before the cluster is said to be unreachable
    _child: LibraryProcess = field(init=False, repr=False)

    def __post_init__(self) -> None:
        token = self.renter.token if self._address == self.renter.head else ""
        known = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": token} if token else {}
        self._child = LibraryProcess(MODULE, **known)

    @property
    def _address(self) -> str:
        return self.address or self.renter.head or os.environ.get("RAY_ADDRESS", "")

    def rent(self, ticket: str, spec: MachineKind) -> None:
        """Take a free node with these labels and this many GPUs, unless this ticket has one."""
        self._call("rent", ticket=ticket, spec=list(spec))

    def end(self, ids: Sequence[str]) -> None:
        """Set nodes of this owner free."""
        self._call("end", ids=list(ids))

    def _machines(self) -> list[tuple[str, Machine]]:
        return [(one["owner"], machine_of(one)) for one in self._call("list")]

    def _call(self, verb: str, **about: Any) -> Any:
        address = self._address
        if not address:
            raise Refused(
                "ray-cluster must have an address, got none; give address: HOST:PORT, set RAY_ADDRESS, or "
                "start a cluster on this machine with `slacktide cluster up`"
            )
        request = {"verb": verb, "address": address, "owner": self.renter.owner, **about}
        return self._child.call(request, self.answer_s, f"the Ray cluster at {address}")


def machine_of(one: Mapping[str, Any]) -> Machine:
    """Return a taken node, as the child lists it, as a machine."""
    until = one["until_utc"]
    return Machine(
        one["node"],
        one["ticket"],
        MachineKind("spot" if one["kind"] == "spot" else "on-demand", one["pool"], one["gpus"]),
        "up" if one["alive"] else "gone",
        one["address"],
        why="" if one["alive"] else "the node has left the cluster",
        since_utc=datetime.fromisoformat(one["since_utc"]),
        until_utc=None if until is None else datetime.fromisoformat(until),
    )
