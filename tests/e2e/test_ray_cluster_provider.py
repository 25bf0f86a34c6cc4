"""The provider `ray-cluster` on a real cluster of this machine: the contract, labels, and nodes that die."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slacktide.checks import check_provider
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import NoCapacity, Refused, Renter, Unreachable
from slacktide.providers.ray_cluster import RayCluster
from tests.parts_of_ray import needs_ray, ray_cluster

PATIENCE_S = 120.0
ANY = {"num_cpus": 0, "num_gpus": 2, "object_store_memory": 80_000_000}
SPOT = {**ANY, "labels": {"market": "spot", "pool": "rack"}}


@needs_ray
def test_nodes_of_a_cluster_are_taken_and_set_free() -> None:
    imported = "ray" in sys.modules  # by another test
    with ray_cluster(cpus=0, nodes=[ANY, SPOT]) as cluster:
        check_provider(
            lambda renter: RayCluster(renter, address=cluster.address), MachineKind("spot", "rack", 2)
        )
        provider = RayCluster(Renter(owner="me"), address=cluster.address)
        provider.rent("1", MachineKind("spot", "rack", 2))
        (machine,) = provider.machines()
        assert (machine.id, machine.state, machine.address) == (cluster.nodes[1], "up", "127.0.0.1")
        with pytest.raises(NoCapacity, match="no node of the cluster with 8 GPUs is free in rack"):
            provider.rent("2", MachineKind("spot", "rack", 8))
        provider.rent("3", MachineKind("on-demand", "elsewhere", 2))  # one without labels serves as any
        with pytest.raises(NoCapacity):
            RayCluster(Renter(owner="you"), address=cluster.address).rent("1", MachineKind("spot", "rack", 2))
        cluster.kill(1)
        give_up = time.monotonic() + PATIENCE_S
        while (one := {machine.ticket: machine for machine in provider.machines()}["1"]).alive:
            assert time.monotonic() < give_up
            time.sleep(0.2)
        assert (one.state, one.why) == ("gone", "the node has left the cluster")
        assert one.until_utc is not None
        assert list(provider.everyones()) == ["me"]
        assert ("ray" in sys.modules) == imported  # it would end this process together with the head


@needs_ray
def test_a_head_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9 did not answer: it took too long"):
        RayCluster(address="127.0.0.1:9", answer_s=2.0).machines()


def test_it_must_be_said_where_the_cluster_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(Refused, match="give address: HOST:PORT"):
        RayCluster().machines()


def test_the_child_ends_with_whoever_asked(tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from slacktide.core.child_process import ChildProcess\n"
        "child = ChildProcess('slacktide.providers.ray_cluster')\n"
        "child.send({'id': 1, 'address': '127.0.0.1:9'})\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    give_up = time.monotonic() + PATIENCE_S
    while _lives(int(done.stdout)):
        assert time.monotonic() < give_up
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
