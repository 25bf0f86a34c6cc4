"""Workers on machines keep the contract of back ends: agents as plain processes, two machines."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from slacktide.backends.machines.agent.messages import Host
from slacktide.backends.machines.backend import MachineBackend, NodeAccess
from slacktide.checks import BACKEND_CHECKS
from slacktide.checks import trial as trials
from slacktide.checks.backend import BackendCheck
from tests.parts_of_agents import LocalAgents

LEASE_S = 60.0
HOSTS = (
    Host("one", None, None, 2, "127.0.0.1"),
    Host("two", None, None, 2, "127.0.0.1"),
)


@dataclass(slots=True)
class TwoMachines(MachineBackend):
    """Two machines with two GPUs each, which serve as either kind."""

    def node_access(self) -> NodeAccess:
        root = self.place.folder.parent / "machines"
        return NodeAccess(LocalAgents(HOSTS, root, self.place.owner, LEASE_S), LEASE_S)


@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__)
def test_machines_keep_the_contract(check: BackendCheck) -> None:
    with trials.backend_trial(TwoMachines) as one:
        check(one)
