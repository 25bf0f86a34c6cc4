"""The note of a local cluster: where it is, which nodes it has, and which processes are its own."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from slacktide.backends.process_table import Process, SeenProcess, alive, carries, relatives, scan, send
from slacktide.backends.ray.actor import NODE
from slacktide.core.errors import BackendError, FileError
from slacktide.core.files import state_dir, write_private


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNode:
    """A node of a local cluster."""

    name: str  # for people, such as spot-1
    id: str  # Ray's id
    kind: str
    gpus: int
    raylet: Process  # the process of Ray that is the node


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNote:
    """The note on disk about a local cluster."""

    id: str  # the value of a variable that its processes carry
    folder: Path  # its files: logs of Ray, the token, files of agents
    keeper: Process  # the process that started it, which leads the session of all others
    address: str = ""
    nodes: tuple[LocalNode, ...] = ()
    ready: bool = False  # whether all nodes have started
    wanted: dict[str, int] = field(default_factory=dict)  # how many nodes of each kind there should be

    @property
    def token(self) -> Path:
        """The file with the token that clients need."""
        return self.folder / "token"

    @property
    def is_up(self) -> bool:
        """Whether it can be used."""
        return self.ready and alive(self.keeper)


def default_path() -> Path:
    """Return the path of the note on this user's cluster."""
    return state_dir() / "cluster.json"


def read_note(path: Path) -> ClusterNote | None:
    """Read a note; None if there is none. Raises FileError for an invalid file."""
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        nodes = tuple(LocalNode(**{**node, "raylet": Process(*node["raylet"])}) for node in note["nodes"])
        more = {"folder": Path(note["folder"]), "keeper": Process(*note["keeper"]), "nodes": nodes}
        return ClusterNote(**{**note, **more})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"must be the note of a local cluster, got: {error}; remove it", path=path) from error


def write_note(path: Path, note: ClusterNote) -> None:
    """Write a note for this user alone; raises FileError."""
    content = {**asdict(note), "folder": str(note.folder)}
    write_private(path, json.dumps(content, indent=1).encode())


class ClusterAddress(NamedTuple):
    """The address of a cluster, and how clients are let in."""

    address: str = ""  # empty: there is none
    token: Path | None = None  # the file with the token; None: as the user's variables say
    local: bool = False  # whether all its nodes are on this machine


def find_cluster() -> ClusterAddress:
    """Return the cluster of RAY_ADDRESS, else the one that `slacktide cluster up` started."""
    if named := os.environ.get("RAY_ADDRESS"):
        return ClusterAddress(named)
    note = read_note(default_path())
    if note is None or not note.is_up:
        return ClusterAddress()
    return ClusterAddress(note.address, note.token, local=True)


CLUSTER = "SLACKTIDE_CLUSTER"  # the variable with the id of the cluster that a process belongs to
PATIENCE_S = 20.0
PAUSE_S = 0.05


def of_node(node: LocalNode, seen: Iterable[SeenProcess]) -> list[SeenProcess]:
    """Return the processes of a node among those that were seen."""

    def is_ours(other: SeenProcess) -> bool:
        return is_worker(other, node) or carries(other.process.pid, NODE, node.id[:12])

    return relatives(seen, is_ours, {node.raylet})


def of_cluster(note: ClusterNote, seen: Iterable[SeenProcess]) -> list[SeenProcess]:
    """Return all processes of a cluster among those that were seen."""

    def is_ours(other: SeenProcess) -> bool:
        if _in_session(other, note.keeper) or carries(other.process.pid, CLUSTER, note.id):
            return True
        return any(is_worker(other, node) for node in note.nodes)

    return relatives(seen, is_ours, ())


def is_worker(seen: SeenProcess, node: LocalNode) -> bool:
    """Whether a process belongs to a worker on this node, of any owner."""
    return (seen.marker or "").split("/")[0].endswith(f".{node.id[:12]}")


def workers_of(node: LocalNode, seen: Iterable[SeenProcess]) -> int:
    """Return how many workers run on a node."""
    return len({process.marker for process in seen if is_worker(process, node)})


def kill_all(find: Callable[[list[SeenProcess]], list[SeenProcess]]) -> int:
    """Kill processes until no more are found, and say how many there were; raises BackendError."""
    give_up = time.monotonic() + PATIENCE_S
    killed: set[Process] = set()
    # Repeat: a process may have started another one between the scan and the signal.
    while found := [seen.process for seen in find(list(scan()))]:
        for process in found:
            send(process, signal.SIGKILL)
        killed.update(found)
        if time.monotonic() > give_up:
            raise BackendError(f"processes must end when killed, got {len(found)} that do not; try again")
        time.sleep(PAUSE_S)
    return len(killed)


def _in_session(seen: SeenProcess, keeper: Process) -> bool:
    """Whether a process is in the session of the keeper, which itself may have died meanwhile."""
    # After a reboot the same number is another session, and its processes are not the cluster's.
    if seen.session != keeper.pid or seen.process.boot != keeper.boot:
        return False
    return seen.process.pid != keeper.pid or seen.process == keeper
