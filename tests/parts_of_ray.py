"""A Ray cluster on the loopback for tests, in a process of its own that ends with them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import pytest

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'slacktide[ray]'"
)
QUICK_TO_NOTICE = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 10_000,
    "health_check_failure_threshold": 8,
}
"""A node that was killed refuses each check at once; one that is only slow has time to answer."""
TRIES = 3
"""How often to start a cluster: on a busy machine Ray gives up on one that takes long."""
LOOPBACK_ONLY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}

HOLDER = """
import json, sys
from ray.cluster_utils import Cluster

head, nodes, settings = json.loads(sys.argv[1])
cluster = Cluster(initialize_head=True, head_node_args={
    **head, "include_dashboard": False, "_system_config": settings})
added = [cluster.add_node(**node) for node in nodes]
cluster.wait_for_nodes()
print(json.dumps([cluster.address, [node.node_id for node in added]]), flush=True)
for line in sys.stdin:
    if line.startswith("kill "):
        cluster.remove_node(added[int(line.split()[1])], allow_graceful=False)
    print("done", flush=True)
cluster.shutdown()
"""


class RayCluster:
    """A cluster that a child process holds."""

    def __init__(self, process: subprocess.Popen[str], said: str) -> None:
        self._process = process
        self.address, self.nodes = json.loads(said)

    def kill(self, node: int) -> None:
        """Kill one of the nodes that were added, as the loss of a machine would."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"kill {node}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"


@contextmanager
def ray_cluster(cpus: int = 2, nodes: Sequence[dict[str, Any]] = ()) -> Iterator[RayCluster]:
    """Start a cluster of a head and some more nodes, and end it."""
    given = [{"num_cpus": cpus, "num_gpus": 0}, list(nodes), QUICK_TO_NOTICE]
    with tempfile.TemporaryFile("w+") as errors:
        for _ in range(TRIES):
            with (
                # A short path: Ray's sockets are in it.
                tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as folder,
                _holder(given, folder, errors) as one,
            ):
                assert one.stdout is not None
                said = one.stdout.readline()
                if said:
                    yield RayCluster(one, said)
                    return
        errors.seek(0)
        pytest.fail(f"a Ray cluster must start within {TRIES} tries, got:\n{errors.read()[-4000:]}")


def _holder(given: Sequence[object], folder: str, errors: IO[str]) -> subprocess.Popen[str]:
    """Start what holds a cluster, with all of Ray's files in a folder of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, json.dumps(given)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env={**os.environ, **LOOPBACK_ONLY, "RAY_TMPDIR": folder},
    )
