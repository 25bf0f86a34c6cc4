"""The actor that Ray runs on a node: it starts the agent there as a process, and passes messages to and fro.

Ray sends its code by value, and it uses only the standard library: the node may have no Slacktide, or another
version. Messages stay packed; our package is sent once, and kept on the node for when the actor is restarted.
If the actor dies, the agent's standard input closes and it ends; workers go on until their lease ends.
"""

from __future__ import annotations

import fcntl
import io
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

_SIZE = "!Q"  # how the length of a message is written before it, as in `agent.messages`
HOME = "SLACKTIDE_AGENT_HOME"  # the variable of a node that says where agents keep their files
NODE = "SLACKTIDE_NODE"  # the variable that marks the agent's processes with the node's id
PATIENCE_S = 30.0  # an agent that takes longer than this over an answer is started again
KEPT_S = 24 * 3600.0  # how long the files of a node that is gone are kept
WATCH_S = 5.0


class NodeAgent:
    """The agent of a node, for one owner."""

    def __init__(self, owner: str, node: str, address: str, idle_s: float) -> None:
        """Make a place for its files; nothing is started until a message comes."""
        self._owner, self._node, self._address, self._idle_s = owner, node[:12], address, idle_s
        home = agents_home(dict(node_environ()))
        self._root = home / self._node
        self._root.mkdir(mode=0o700, exist_ok=True)
        self._log = self._root / f"{owner}.log"
        self._lock = lock_folder(self._root, fcntl.LOCK_SH)
        tidy(home, time.time() - KEPT_S)
        self._child: subprocess.Popen[bytes] | None = None
        self._runs: tuple[str, float] = ("", 0.0)
        self._last_message_at = time.monotonic()
        threading.Thread(target=self._end_when_idle, daemon=True).start()

    # Not renamed: actors that an earlier version started live on, and are called by this name.
    def tell(self, digest: str, lease_s: float, frame: bytes) -> bytes | None:
        """Pass a message to the agent and return its answer; None: call `learn` with this code first."""
        self._last_message_at = time.monotonic()
        code = self._root / f"code-{digest}"
        if not code.is_dir():
            return None
        child = self._agent(code, digest, lease_s)
        late = threading.Timer(PATIENCE_S, child.kill)
        late.start()
        try:
            return exchange(child, frame)
        except (OSError, EOFError):
            self._end_child()
            raise RuntimeError(f"the agent ended instead of answering: {self._last_line()}") from None
        finally:
            late.cancel()

    def learn(self, digest: str, archive: bytes) -> None:
        """Store our package on this node."""
        draft = Path(tempfile.mkdtemp(prefix=".code-", dir=self._root))
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            packed.extractall(draft)
        try:
            draft.rename(self._root / f"code-{digest}")
        except OSError:  # another owner's actor was faster
            shutil.rmtree(draft, ignore_errors=True)

    def _agent(self, code: Path, digest: str, lease_s: float) -> subprocess.Popen[bytes]:
        """Return the agent's process; start one if it has died, or if the code or the lease has changed."""
        if self._child is not None and (self._child.poll() is not None or self._runs != (digest, lease_s)):
            self._end_child()
        if self._child is None:
            environ = dict(node_environ())
            environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(code), environ.get("PYTHONPATH")]))
            environ[NODE] = self._node
            module, root = "slacktide.backends.machines.agent.serve", str(self._root / "agent")
            arguments = [root, f"{self._owner}.{self._node}", f"{lease_s:g}", self._address]
            with open(self._log, "wb") as log:
                self._child = subprocess.Popen(
                    [sys.executable, "-m", module, *arguments],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environ, cwd=self._root,
                )  # fmt: skip
            self._runs = (digest, lease_s)
        return self._child

    def _last_line(self) -> str:
        try:
            printed = self._log.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""
        return printed.splitlines()[-1][:500] if printed else ""

    def _end_child(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                with suppress(OSError):  # what could not be written is lost with the agent
                    pipe and pipe.close()
            self._child = None

    def _end_when_idle(self) -> None:
        """End the actor for good when no message has come for `idle_s`: the owner's controller is gone."""
        import ray

        while time.monotonic() - self._last_message_at < self._idle_s:
            time.sleep(min(WATCH_S, self._idle_s / 4))
        ray.kill(ray.get_runtime_context().current_actor)


def exchange(child: Any, frame: bytes) -> bytes:
    """Write one packed message and read one; raises OSError or EOFError when the other end is gone."""
    child.stdin.write(struct.pack(_SIZE, len(frame)) + frame)
    child.stdin.flush()
    head = child.stdout.read(struct.calcsize(_SIZE))
    if len(head) < struct.calcsize(_SIZE):
        raise EOFError
    (size,) = struct.unpack(_SIZE, head)
    data: bytes = child.stdout.read(size)
    if len(data) < size:
        raise EOFError
    return data


def node_environ() -> list[tuple[str, str]]:
    """Return the variables with which the node was started; Ray changes those of its workers."""
    parent = os.getppid()
    try:
        if Path(f"/proc/{parent}/comm").read_text().strip() == "raylet":
            entries = Path(f"/proc/{parent}/environ").read_bytes().split(b"\0")
            pairs = [os.fsdecode(entry).partition("=") for entry in entries if b"=" in entry]
            if pairs:
                return [(name, value) for name, _, value in pairs]
    except OSError:
        pass  # not readable: our own, without what Ray says about GPUs
    return [(name, value) for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"]


def agents_home(environ: dict[str, str]) -> Path:
    """Return the folder of this user's agents; raises PermissionError if others can use it."""
    named = environ.get(HOME)
    home = Path(named or Path(tempfile.gettempdir()) / f"slacktide-agents-{os.geteuid()}")
    home.mkdir(mode=0o700, parents=bool(named), exist_ok=True)
    found = home.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{home} must be a folder of this user alone; remove it, or set {HOME}")
    return home


def lock_folder(folder: Path, how: int) -> int | None:
    """Lock a node's folder for as long as this process lives; None: another process has it."""
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
        os.utime(handle)
    except OSError:
        os.close(handle)
        return None
    return handle


def tidy(home: Path, before: float) -> None:
    """Remove the files of nodes whose agents have not lived since then."""
    for folder in home.iterdir():
        try:
            unused = (folder / "lock").stat().st_mtime < before
            handle = lock_folder(folder, fcntl.LOCK_EX) if unused else None
        except OSError:  # the lock is not there yet, or no more: another process deals with the folder
            continue
        if handle is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(handle)
