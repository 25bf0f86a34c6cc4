"""A disk and a wall clock that can be broken while programs run, without being root (see `shim.c`)."""

from __future__ import annotations

import errno
import mmap
import shutil
import struct
import subprocess
import time
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
LAYOUT = "ddii496s"
DISK_FULL, DISK_BROKEN = errno.ENOSPC, errno.EIO


def compiler() -> str | None:
    """Return the C compiler of this machine; None where there is none, and then nothing can be played."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


class Machine:
    """What the programs that are started with `env` are made to believe."""

    def __init__(self, folder: Path) -> None:
        """Build what is preloaded, and begin with nothing wrong."""
        found = compiler()
        assert found is not None, "ask compiler() before"
        library, self._path = folder / "shim.so", folder / "faults"
        command = [found, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        self._path.write_bytes(bytes(struct.calcsize(LAYOUT)))
        with self._path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 0)
        self.env = {"LD_PRELOAD": str(library), "SLACKTIDE_FAULTS": str(self._path)}
        self._clock = (0.0, 0.0)

    def disk(self, where: Path, *, error: int = 0, slow_ms: int = 0) -> None:
        """Let writes below a path fail with an error, or take so much longer."""
        self._play(error, slow_ms, str(where).encode())

    def heal(self) -> None:
        """Let the disk be well again; the clock stays as it is."""
        self._play(0, 0, b"")

    def set_clock(self, moved_s: float) -> None:
        """Let the wall clock be so far from the true time, from now on."""
        self._clock = (float(round(moved_s)), time.time())
        self.heal()

    def _play(self, error: int, slow_ms: int, where: bytes) -> None:
        self._shared[:] = struct.pack(LAYOUT, *self._clock, error, slow_ms, where)
