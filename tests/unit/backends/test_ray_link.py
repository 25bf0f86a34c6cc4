"""Ray carries messages to agents, and everything between a controller and its workers may die.

Ray costs seconds and memory, so all that needs a cluster is one test with one small cluster.
"""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from slacktide.backends import process_table
from slacktide.backends.ray.backend import RayLink
from slacktide.backends.ray.cluster_note import ClusterNote, default_path, find_cluster, of_cluster
from slacktide.testing import local_cluster

from .conftest import wait_for
from .parts_of_ray import LONG_S, LOOPBACK, NAME, Controller, Processes, listened_on, new_owner, slacktide

pytest.importorskip("ray", reason="needs pip install 'slacktide[ray]'")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterNote]:
    """A cluster of two nodes, made as a user makes it."""
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path))
    try:
        printed = slacktide("cluster", "up", "--spot", "1", "--on-demand", "1", "--gpus", "2")
        note = local_cluster.find()
        assert note is not None
        assert note.address in printed
        yield note
    finally:
        local_cluster.end()


@pytest.mark.slow
def test_workers_outlive_agent_actor_bridge_and_keeper_but_not_their_node(cluster: ClusterNote) -> None:
    nothing_is_open_to_others(cluster)
    it_is_found_again(cluster)
    agents_without_a_controller_end(cluster)
    a_wrong_token_is_refused(cluster)
    owner = new_owner()
    link = RayLink(cluster.address, owner, LONG_S, token=cluster.token, silent_s=3.0)
    try:
        controller = Controller(link)
        nodes_are_listed(link)
        host = controller.host("spot")
        here = Processes(owner, host.id)
        it_starts_workers_and_tells_what_they_print(controller, here)
        an_agent_that_dies_is_started_again(controller, here)
        an_actor_that_dies_is_started_again(controller, here)
        a_bridge_that_dies_is_started_again(controller, here)
        a_bridge_that_stands_still_is_replaced(controller, here)
        nothing_is_open_to_others(cluster)
        a_node_is_killed_with_all_on_it(controller, here)
    finally:
        link.close()
    all_ends_also_without_the_keeper(cluster)


def nothing_is_open_to_others(cluster: ClusterNote) -> None:
    pids = {seen.process.pid for seen in of_cluster(cluster, list(process_table.scan()))}
    found = listened_on(pids)
    assert found, "they listen on something"
    assert found <= LOOPBACK
    for path in (default_path(), cluster.token):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(cluster.folder.stat().st_mode) == 0o700


def it_is_found_again(cluster: ClusterNote) -> None:
    assert find_cluster() == (cluster.address, cluster.token, True)
    assert "already" in slacktide("cluster", "up", "--spot", "5")
    told = json.loads(slacktide("cluster", "status", "-o", "json"))
    assert told["up"]
    assert [(node["name"], node["alive"], node["workers"]) for node in told["nodes"]] == [
        ("spot-1", True, 0),
        ("on-demand-1", True, 0),
    ]


def a_wrong_token_is_refused(cluster: ClusterNote) -> None:
    wrong = cluster.folder / "wrong"
    wrong.write_text("0" * 64)
    link = RayLink(cluster.address, new_owner(), LONG_S, token=wrong)
    try:
        wait_for(lambda: "must be given its token" in link.trouble)
        assert not link.hosts()
    finally:
        link.close()


def agents_without_a_controller_end(cluster: ClusterNote) -> None:
    owner = new_owner()
    link = RayLink(cluster.address, owner, LONG_S, token=cluster.token, idle_s=2.0)
    controller = Controller(link)
    try:
        wait_for(lambda: len(link.hosts()) == 2)
        agents = [Processes(owner, host.id) for host in link.hosts()]
        controller.until(lambda: len(controller.answers) == 2)
    finally:
        link.close()
    wait_for(lambda: not any(each.agents() for each in agents))


def nodes_are_listed(link: RayLink) -> None:
    wait_for(lambda: len(link.hosts()) == 2)
    assert {(host.kind, host.pool, host.gpus, host.address, host.alive) for host in link.hosts()} == {
        ("spot", None, 2, "127.0.0.1", True),
        ("on-demand", None, 2, "127.0.0.1", True),
    }
    wait_for(lambda: not link.trouble)


def it_starts_workers_and_tells_what_they_print(controller: Controller, here: Processes) -> None:
    controller.want_on(controller.host("spot"))
    controller.until_running()
    controller.until(lambda: b"hello" in controller.until_heeded_anew().logs.get(NAME, (0, b""))[1])
    assert controller.answers[controller.wanted].logs[NAME] == (0, b"rank 0 of 2\nhello\n")
    assert len(here.workers()) == 2
    assert "spot-1       spot          2  alive        2" in slacktide("cluster", "status")


def unbroken(controller: Controller, here: Processes, workers: dict[int, str]) -> None:
    """The same workers go on, and the controller hears of them again."""
    controller.until_running()
    assert here.workers() == workers


def an_agent_that_dies_is_started_again(controller: Controller, here: Processes) -> None:
    workers, (agent,) = here.workers(), here.agents()
    process_table.send(agent.process, signal.SIGKILL)
    controller.until(lambda: here.is_replaced(agent))
    unbroken(controller, here, workers)


def an_actor_that_dies_is_started_again(controller: Controller, here: Processes) -> None:
    workers, (agent,) = here.workers(), here.agents()
    os.kill(agent.parent, signal.SIGKILL)
    controller.until(lambda: here.is_replaced(agent))
    unbroken(controller, here, workers)


def bridge_pid(link: RayLink) -> int | None:
    """Return the process that is the client of Ray; None while there is none."""
    return None if link._bridge is None else link._bridge.pid


def is_replaced(link: RayLink, bridge: int) -> bool:
    return bridge_pid(link) not in {None, bridge} and not link.trouble


def a_bridge_that_dies_is_started_again(controller: Controller, here: Processes) -> None:
    workers, bridge = here.workers(), bridge_pid(controller.link)
    assert bridge is not None
    os.kill(bridge, signal.SIGKILL)
    wait_for(lambda: "was lost" in controller.link.trouble)
    assert all(host.alive for host in controller.link.hosts()), "nobody said that a node is gone"
    controller.until(
        lambda: bridge_pid(controller.link) not in {None, bridge} and not controller.link.trouble
    )
    unbroken(controller, here, workers)


def a_bridge_that_stands_still_is_replaced(controller: Controller, here: Processes) -> None:
    workers, bridge = here.workers(), bridge_pid(controller.link)
    assert bridge is not None
    os.kill(bridge, signal.SIGSTOP)
    controller.until(
        lambda: bridge_pid(controller.link) not in {None, bridge} and not controller.link.trouble
    )
    unbroken(controller, here, workers)


def a_node_is_killed_with_all_on_it(controller: Controller, here: Processes) -> None:
    assert "killed spot-1 with 2 workers" in slacktide("cluster", "kill", "spot-1")
    assert not here.any_worker()
    assert not here.agents()
    controller.until(lambda: not controller.host("spot").alive)
    assert controller.host("spot").gpus == 2, "what is known of it stays known"
    assert controller.host("on-demand").alive
    assert not controller.link.trouble
    assert "dead" in slacktide("cluster", "status")
    assert "dead already" in slacktide("cluster", "kill", "spot-1", code=2)


def all_ends_also_without_the_keeper(cluster: ClusterNote) -> None:
    process_table.send(cluster.keeper, signal.SIGKILL)
    wait_for(lambda: not find_cluster().address)
    assert "cluster down" in slacktide("cluster", "status")
    assert "has ended" in slacktide("cluster", "down")
    assert not of_cluster(cluster, list(process_table.scan()))
    assert not cluster.folder.exists()
    assert "nothing to end" in slacktide("cluster", "down")
