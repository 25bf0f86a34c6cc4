"""The process that starts the nodes of a local cluster and stays with them.

All nodes are on this machine and listen on loopback only: `ray start` would listen on all addresses. It
writes into the cluster's note what it has started, as soon as it has.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from slacktide.backends.process_table import process_of
from slacktide.backends.ray.cluster_note import ClusterNote, LocalNode, write_note
from slacktide.backends.ray.node_settings import MARKET

OBJECT_STORE_BYTES = 80 << 20
HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 4,
}
"""A node that is gone refuses each check, and is known to be gone after two seconds; Ray's own defaults take
half a minute. One that is only slow, on a busy machine, has time to answer."""
WATCH_S = 1.0


def main(note_path: Path, cluster: str, folder: Path, wanted: dict[str, int], gpus: int) -> None:
    """Start a head and the nodes, and stay."""
    note = ClusterNote(id=cluster, folder=folder, keeper=process_of(os.getpid()), wanted=wanted)
    write_note(note_path, note)

    from ray.cluster_utils import Cluster

    common = {"object_store_memory": OBJECT_STORE_BYTES, "include_log_monitor": False}
    made: Any = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0, "num_gpus": 0, "include_dashboard": False, "no_monitor": True,
            "_system_config": HEALTH, **common,
        },
    )  # fmt: skip
    started = [made.head_node]
    note = replace(note, address=made.address)
    for kind, count in wanted.items():
        for number in range(1, count + 1):
            write_note(note_path, note)
            node = made.add_node(num_cpus=1, num_gpus=gpus, labels={MARKET: kind}, **common)
            started.append(node)
            note = replace(note, nodes=(*note.nodes, noted(node, f"{kind}-{number}", kind, gpus)))
    write_note(note_path, replace(note, ready=True))
    stay(started)


def noted(node: Any, name: str, kind: str, gpus: int) -> LocalNode:
    """Return what is noted of a node that Ray has started."""
    (raylet,) = node.all_processes["raylet"]
    return LocalNode(name=name, id=node.node_id, kind=kind, gpus=gpus, raylet=process_of(raylet.process.pid))


def stay(started: list[Any]) -> None:
    """Stay with the nodes, and let those that have died go."""
    while True:
        for node in started:
            for processes in list(node.all_processes.values()):
                for one in processes:
                    one.process.poll()
        time.sleep(WATCH_S)


if __name__ == "__main__":
    spot, on_demand, each = (int(text) for text in sys.argv[4:7])
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), {"spot": spot, "on-demand": on_demand}, each)
