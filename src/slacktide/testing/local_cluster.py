"""A Ray cluster of several nodes on this machine: starts it, shows it, kills nodes and ends it.

It is for trying things out: its GPUs exist in name only, and everything listens on loopback alone.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from slacktide.backends.process_table import alive, process_of, scan
from slacktide.backends.ray.actor import HOME
from slacktide.backends.ray.cluster_note import (
    CLUSTER,
    ClusterNote,
    LocalNode,
    default_path,
    kill_all,
    of_cluster,
    of_node,
    read_note,
    workers_of,
    write_note,
)
from slacktide.backends.ray.node_settings import LOOPBACK, MARKET, QUIET, token_environ
from slacktide.core.errors import BackendError, InputError, UnknownNameError
from slacktide.core.files import PRIVATE_FILE, make_private_folder, write_private

MOST_NODES = 64
MOST_GPUS = 64
START_S = 60.0  # how long a node may take to start on a busy machine
LONGEST_TEMP = 24  # Ray's sockets have long paths, and the system allows 107 characters
LOG = "log"
SHORTEST_ID = 4  # how many characters of a node's id are enough to name it


class NodeState(NamedTuple):
    """A node as it is now."""

    node: LocalNode
    alive: bool
    workers: int


def start(spot: int, on_demand: int, gpus: int) -> tuple[ClusterNote, bool]:
    """Start a cluster, wait for all nodes, and return its note and True; False if one was already up.

    A cluster that is up stays as it is; what is left of a broken one is ended first. Raises InputError, and
    BackendError if Ray does not start.
    """
    check(spot, on_demand, gpus)
    path = default_path()
    with _locked(path):
        before = read_note(path)
        if before is not None and before.is_up:
            return before, False
        _end(before)
        folder = _new_folder()
        process = _keeper(path, folder, spot, on_demand, gpus)
        try:
            return _ready(path, process, folder, spot + on_demand), True
        except BaseException:
            process.kill()
            process.wait()
            _end(read_note(path))
            shutil.rmtree(folder, ignore_errors=True)
            raise


def check(spot: int, on_demand: int, gpus: int) -> None:
    """Raise InputError if such a cluster cannot be started."""
    if importlib.util.find_spec("ray") is None:
        raise InputError("Ray must be installed, found none; run pip install 'slacktide[ray]'")
    if not sys.platform.startswith("linux"):
        raise InputError(f"a local cluster must be on Linux, got {sys.platform}")
    for name, value, least in (("--spot", spot, 0), ("--on-demand", on_demand, 0), ("--gpus", gpus, 1)):
        if value < least:
            raise InputError(f"{name} must be >= {least}, got {value}")
    if not 1 <= spot + on_demand <= MOST_NODES:
        raise InputError(f"there must be 1 to {MOST_NODES} nodes, got {spot + on_demand}")
    if gpus > MOST_GPUS:
        raise InputError(f"--gpus must be <= {MOST_GPUS}, got {gpus}")


def find() -> ClusterNote | None:
    """Return the note of this user's cluster; None if there is none."""
    return read_note(default_path())


def look(note: ClusterNote) -> list[NodeState]:
    """Return the nodes' state from the process table, which also works when Ray does not answer."""
    seen = list(scan())
    return [NodeState(node, alive(node.raylet), workers_of(node, seen)) for node in note.nodes]


def kill_node(note: ClusterNote, name: str) -> LocalNode:
    """Kill a node and all that runs on it at once, as when a machine is lost; raises InputError."""
    by_id = [node for node in note.nodes if len(name) >= SHORTEST_ID and node.id.startswith(name)]
    found = [node for node in note.nodes if node.name == name] or by_id
    if len(found) != 1:
        raise UnknownNameError("a node", name, [node.name for node in note.nodes])
    node = found[0]
    if not kill_all(lambda seen: of_node(node, seen)):
        raise InputError(f"the node must be alive, got {node.name}, which is dead already")
    return node


def end() -> bool:
    """End the cluster with all that runs on it; return False if there was none."""
    path = default_path()
    with _locked(path):
        return _end(read_note(path))


def _end(note: ClusterNote | None) -> bool:
    if note is None:
        return False
    kill_all(lambda seen: of_cluster(note, seen))
    shutil.rmtree(note.folder, ignore_errors=True)
    default_path().unlink(missing_ok=True)
    return True


def _new_folder() -> Path:
    given = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="slacktide-", dir=given if len(given) <= LONGEST_TEMP else "/tmp"))
    write_private(folder / "token", secrets.token_hex(32).encode())
    return folder


def _keeper(path: Path, folder: Path, spot: int, on_demand: int, gpus: int) -> subprocess.Popen[bytes]:
    """Start the process that starts the nodes; it outlives us."""
    cluster = secrets.token_hex(8)
    base = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environ = {
        **token_environ(base, folder / "token"), **LOOPBACK, **QUIET,
        "RAY_TMPDIR": str(folder), HOME: str(folder / "agents"), CLUSTER: cluster,
    }  # fmt: skip
    command = [sys.executable, "-m", "slacktide.testing.local_cluster", str(path), cluster, str(folder)]
    with open(folder / LOG, "ab", opener=_private) as log:
        return subprocess.Popen(
            [*command, str(spot), str(on_demand), str(gpus)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, cwd=folder, start_new_session=True,
        )  # fmt: skip


def _ready(path: Path, process: subprocess.Popen[bytes], folder: Path, nodes: int) -> ClusterNote:
    """Wait until all nodes have started; raises BackendError if they do not."""
    give_up = time.monotonic() + START_S * (nodes + 2)
    while process.poll() is None and time.monotonic() < give_up:
        note = read_note(path)
        if note is not None and note.ready:
            return note
        time.sleep(0.1)
    last = (folder / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    raise BackendError(f"Ray must start, got: {last[0] if last else 'nothing'}; see `free -m` for memory")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time start or end the cluster; raises InputError while another does."""
    make_private_folder(path.parent)
    with open(path.with_name(f".{path.name}.lock"), "ab", opener=_private) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                "one command at a time may start or end the cluster, found another at it; wait for it"
            ) from None
        yield


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, PRIVATE_FILE)


# ---------------------------------------------------------------- the process that keeps the nodes

OBJECT_STORE_BYTES = 80 << 20
HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 4,
}
"""A node that is gone refuses each check, and is found out after two seconds; Ray's own defaults take half a
minute. A node that is only slow, on a busy machine, has time to answer."""
WATCH_S = 1.0


def keep(note_path: Path, cluster: str, folder: Path, wanted: dict[str, int], gpus: int) -> None:
    """Start a head and the nodes, and keep running; each is noted in the cluster's note once it has started.

    All nodes listen on loopback only: `ray start` would listen on all addresses.
    """
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
            note = replace(note, nodes=(*note.nodes, _noted(node, f"{kind}-{number}", kind, gpus)))
    write_note(note_path, replace(note, ready=True))
    _stay(started)


def _noted(node: Any, name: str, kind: str, gpus: int) -> LocalNode:
    (raylet,) = node.all_processes["raylet"]
    return LocalNode(name=name, id=node.node_id, kind=kind, gpus=gpus, raylet=process_of(raylet.process.pid))


def _stay(started: list[Any]) -> None:
    """Keep running, and reap processes of nodes that have died."""
    while True:
        for node in started:
            for processes in list(node.all_processes.values()):
                for entry in processes:
                    entry.process.poll()
        time.sleep(WATCH_S)


if __name__ == "__main__":
    spot, on_demand, gpus = (int(text) for text in sys.argv[4:7])
    keep(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), {"spot": spot, "on-demand": on_demand}, gpus)
