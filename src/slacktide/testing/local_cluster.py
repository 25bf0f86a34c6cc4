"""A Ray cluster of several nodes on this machine: started, looked at, hurt and ended.

It is for trying things out: its GPUs are there in name only, and everything listens on loopback alone.
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
from pathlib import Path
from typing import NamedTuple

from slacktide.backends.process_table import alive, scan
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
)
from slacktide.backends.ray.node_settings import LOOPBACK, QUIET, token_environ
from slacktide.core.errors import BackendError, InputError, UnknownNameError
from slacktide.core.files import PRIVATE_FILE, make_private_folder, write_private

MOST_NODES = 64
MOST_GPUS = 64
START_S = 60.0  # how long a node may take to start on a busy machine
LONGEST_TEMP = 24  # sockets of Ray have long names, of which the system allows 107 characters
LOG = "log"
SHORTEST_ID = 4  # how many characters of a node's id are enough to name it


class NodeState(NamedTuple):
    """A node as it is now."""

    node: LocalNode
    alive: bool
    workers: int


def start(spot: int, on_demand: int, gpus: int) -> tuple[ClusterNote, bool]:
    """Return the note of the cluster when all nodes are there, and whether it was started now.

    One that is up already stays as it is; what is left of one that is not is ended. Raises InputError, and
    BackendError where Ray does not start.
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
    """Refuse what cannot be started; raises InputError."""
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
    """Return the note of this user's cluster, if any of it is there."""
    return read_note(default_path())


def look(note: ClusterNote) -> list[NodeState]:
    """Return the nodes as they are now, from the process table: this also works when Ray does not answer."""
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
    """End the cluster with all that runs on it; False: there was none."""
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
    """Start the process that starts the nodes; it stays when we end."""
    cluster = secrets.token_hex(8)
    base = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environ = {
        **token_environ(base, folder / "token"), **LOOPBACK, **QUIET,
        "RAY_TMPDIR": str(folder), HOME: str(folder / "agents"), CLUSTER: cluster,
    }  # fmt: skip
    command = [sys.executable, "-m", "slacktide.testing.ray_keeper", str(path), cluster, str(folder)]
    with open(folder / LOG, "ab", opener=_private) as log:
        return subprocess.Popen(
            [*command, str(spot), str(on_demand), str(gpus)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, cwd=folder, start_new_session=True,
        )  # fmt: skip


def _ready(path: Path, process: subprocess.Popen[bytes], folder: Path, nodes: int) -> ClusterNote:
    """Wait until all nodes are there; raises BackendError when that does not come to be."""
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
