"""A training job of a few lines that knows checkpoints, and keeps a record that Slacktide never sees.

Rank 0 does units of work one after another; each unit changes a digest, so that a checkpoint proves by
itself that every unit was done, once, in order, in what it stands for. The others only hold their GPU. Every
worker says in a file of its own when it last lived. Told to stop, it checkpoints and exits with whatever
code the campaign wants.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import zlib

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def chained(digest: int, unit: int) -> int:
    """Return the digest after one more unit."""
    return zlib.crc32(f"{digest}/{unit}".encode())


def append(path: str, line: str) -> None:
    """Append one line in one write."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, line.encode() + b"\n")
    os.close(handle)


class Counting:
    """The work of rank 0, from the last checkpoint on."""

    def __init__(self, units: int, diary: str) -> None:
        self.units, self.diary = units, diary
        self.folder = os.environ["SLACKTIDE_CHECKPOINT_DIR"]
        self.done, self.digest = self.saved()
        self.safe = self.done

    def saved(self) -> tuple[int, int]:
        """Return the units in the last checkpoint, and their digest."""
        try:
            with open(os.path.join(self.folder, "state"), encoding="ascii") as file:
                done, digest = map(int, file.read().split())
                return done, digest
        except FileNotFoundError:
            return 0, 0

    def work(self, units: int) -> None:
        """Do some units."""
        for _ in range(min(units, self.units - self.done)):
            self.digest = chained(self.digest, self.done)
            self.done += 1

    def save(self) -> None:
        """Write a checkpoint whole or not at all, then say so."""
        draft = os.path.join(self.folder, f"state.{os.getpid()}")
        with open(draft, "w", encoding="ascii") as file:
            file.write(f"{self.done} {self.digest}")
        os.replace(draft, os.path.join(self.folder, "state"))
        self.safe = self.done
        append(self.diary, f"saved {self.done}")

    def tell(self) -> None:
        """Report progress."""
        line = {"done": self.done / self.units, "checkpointed": self.safe / self.units}
        append(os.environ["SLACKTIDE_PROGRESS"], json.dumps(line))


def main(units: int, tick_s: float, told_code: int, diary: str, alive: str) -> int:
    """Be a worker until the work is done or somebody says stop."""
    told: list[int] = []
    for number in SIGNALS:
        signal.signal(number, lambda *_: told.append(1))
    rank, width = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    handle = os.open(alive, os.O_WRONLY | os.O_CREAT, 0o600)
    job = Counting(units, diary)
    if rank == 0:
        append(diary, f"began {job.done} {os.environ['SLACKTIDE_ATTEMPT']}")
        job.tell()
    ticks = 0
    while not told and job.done < units:
        os.pwrite(handle, f"{time.clock_gettime(time.CLOCK_BOOTTIME):020.3f}".encode(), 0)
        time.sleep(tick_s)
        ticks += 1
        if rank == 0:
            job.work(width)
            if ticks % 10 == 0 or job.done == units:
                job.save()
            if ticks % 5 == 0 or job.done == units:
                job.tell()
        else:
            job.done, job.digest = job.saved()
    if rank == 0 and told:
        job.save()
        job.tell()
    os.pwrite(handle, f"{time.clock_gettime(time.CLOCK_BOOTTIME):020.3f}".encode(), 0)
    return 0 if job.done >= units else told_code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]))
