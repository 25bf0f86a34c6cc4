"""Machines that are namespaces of this one: each has a network, a process table and disks of its own.

Nothing has a name that could stay behind. A machine lives as long as its first process, which ends when its
standard input does: whoever dies, the machines die too, and the kernel takes their links and disks away.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

NET = "10.88.0"
BRIDGE = "br0"
FIRST = "echo up; read line"
"""What the first process of a machine does: it waits for the end of its input, and reaps nobody."""
NOWHERE = "02:00:00:00:00:01"
"""A network address that no machine has: what is sent there is lost."""
PATIENCE_S = 60.0


def why_not() -> str:
    """Say why machines cannot be made here; nothing where they can."""
    if os.geteuid() != 0:
        return "namespaces need root"
    lacking = [name for name in ("ip", "unshare", "nsenter", "mount") if shutil.which(name) is None]
    if lacking:
        return f"not installed: {', '.join(lacking)}"
    test = "ip link add x type bridge && ip link add y type veth peer name z && mount -t tmpfs none /mnt"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", test],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"namespaces cannot be made here: {tried.stderr.strip()}" if tried.returncode else ""


def child_of(pid: int) -> int | None:
    """Return the first process that another has started; None while there is none."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return None
    return int(found[0]) if found else None


class Namespace:
    """A machine without a network yet."""

    def __init__(self, *kinds: str) -> None:
        self._outer = subprocess.Popen(
            ["unshare", *kinds, "--fork", "--kill-child", "sh", "-c", FIRST],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        assert self._outer.stdout is not None
        assert self._outer.stdout.readline() == b"up\n", "a namespace must be made"
        self._kinds = [kind for kind in kinds if kind != "--mount-proc"]
        first = child_of(self._outer.pid)
        assert first is not None
        self.pid = first

    def command(self, words: Sequence[str]) -> list[str]:
        """Return a command as it is run inside."""
        return ["nsenter", "--target", str(self.pid), *self._kinds, "--", *words]

    def do(self, *words: str) -> None:
        """Run a command inside, which must work."""
        subprocess.run(self.command(words), check=True, capture_output=True, text=True)

    def start(
        self, words: Sequence[str], env: Mapping[str, str], log: IO[bytes] | None = None
    ) -> subprocess.Popen[bytes]:
        """Begin a command inside; what is returned is the process that waits for it out here."""
        out = subprocess.DEVNULL if log is None else log
        return subprocess.Popen(
            self.command(words), env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip

    def kill(self) -> None:
        """End all that runs inside, at once."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._outer.wait()
        for pipe in (self._outer.stdin, self._outer.stdout):
            assert pipe is not None
            pipe.close()


class Hub(Namespace):
    """The switch that all machines are connected to."""

    def __init__(self) -> None:
        super().__init__("--net")
        self.do("ip", "link", "add", BRIDGE, "type", "bridge")
        self.do("ip", "link", "set", BRIDGE, "up")


class Host(Namespace):
    """A machine with an address, a disk of its own at `local`, and a process table that nobody tidies."""

    def __init__(self, hub: Hub, number: int, local: Path) -> None:
        super().__init__("--net", "--mount", "--pid", "--mount-proc")
        self.number, self.address, self._hub = number, f"{NET}.{number}", hub
        for folder, size in (("/dev/shm", "200m"), (str(local), "1g")):
            self.do("mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder)
        self.do("ip", "link", "set", "lo", "up")
        peer = ["peer", "name", "eth0", "netns", str(self.pid)]
        hub.do("ip", "link", "add", self.port, "type", "veth", *peer)
        hub.do("ip", "link", "set", self.port, "master", BRIDGE, "up")
        self.do("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self.do("ip", "link", "set", "eth0", "up")

    @property
    def port(self) -> str:
        """Its place at the switch."""
        return f"h{self.number}"

    def cut(self) -> None:
        """Pull the plug."""
        self._hub.do("ip", "link", "set", self.port, "down")

    def heal(self) -> None:
        """Put it back."""
        self._hub.do("ip", "link", "set", self.port, "up")

    def lose_what_goes_to(self, other: Host) -> None:
        """Let nothing that is sent to another machine arrive there; what comes from it still does."""
        self.do("ip", "neigh", "replace", other.address, "lladdr", NOWHERE, "dev", "eth0", "nud", "permanent")

    def find_again(self, other: Host) -> None:
        """End that."""
        self.do("ip", "neigh", "del", other.address, "dev", "eth0")

    def processes(self) -> list[int]:
        """Return all that runs there, by their numbers out here."""
        own = _space(self.pid)
        return [pid for pid in _all() if pid != self.pid and own is not None and _space(pid) == own]


def _all() -> Iterable[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _space(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def words_of(pid: int) -> list[str]:
    """Return the command line of a process; none where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def inner(outer: subprocess.Popen[bytes]) -> int:
    """Return the process for which another waits out here."""
    give_up = time.monotonic() + PATIENCE_S
    while (found := child_of(outer.pid)) is None:
        assert outer.poll() is None, "a command must begin"
        assert time.monotonic() < give_up, "a command must begin"
        time.sleep(0.01)
    return found
