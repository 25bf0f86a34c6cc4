"""What workers themselves wrote down, where Slacktide does not look: when they lived and what they did."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from campaigns.stage.worker import chained


class Life(NamedTuple):
    """One worker, from its first line of shell to its last sign of life, on the machine's own clock."""

    attempt: int
    rank: int
    kind: str
    from_s: float
    to_s: float


class Diary(NamedTuple):
    """What the first worker of each attempt wrote about the work."""

    began: tuple[int, ...]
    """With how many units done each attempt began, in the order of the attempts' beginnings."""
    trouble: str
    """What is not in order; empty when all is."""


class Record:
    """The side files of one job."""

    def __init__(self, folder: Path) -> None:
        """Name the folder, which the job's command writes into."""
        self.folder = folder
        self.starts, self.diary_path = folder / "starts", folder / "diary"

    def lives(self) -> list[Life]:
        """Return every worker that ever began, in the order in which they did."""
        lines = self.starts.read_text(encoding="ascii").splitlines() if self.starts.exists() else []
        return [self._life(*line.split()) for line in lines]

    def _life(self, attempt: str, rank: str, kind: str, pid: str, uptime: str) -> Life:
        alive = self.folder / f"alive-{attempt}-{rank}-{pid}"
        last = alive.read_text(encoding="ascii") if alive.exists() else ""
        return Life(int(attempt), int(rank), kind, float(uptime), max(float(last or uptime), float(uptime)))

    def note(self, attempt: int, rank: int, pid: int) -> None:
        """Write down that a worker lives, which cannot do so itself."""
        path = self.folder / f"alive-{attempt}-{rank}-{pid}"
        path.write_text(f"{boot_s():020.3f}", encoding="ascii")

    def diary(self) -> Diary:
        """Return how the work went on; no attempt may begin before the last checkpoint."""
        lines = self.diary_path.read_text(encoding="ascii").splitlines() if self.diary_path.exists() else []
        saved, began = 0, list[int]()
        for number, (what, units, *_) in enumerate(map(str.split, lines), start=1):
            if int(units) < saved:
                return Diary(tuple(began), f"line {number}: {what} {units} after saved {saved}")
            saved = int(units)
            if what == "began":
                began.append(saved)
        return Diary(tuple(began), "")


def digest_of(units: int) -> int:
    """Return the digest of a checkpoint in which so many units were done, each once and in order."""
    digest = 0
    for unit in range(units):
        digest = chained(digest, unit)
    return digest


def checkpoint(folder: Path) -> tuple[int, int]:
    """Return the units and the digest in a job's checkpoint; nothing done while there is none."""
    path = folder / "state"
    if not path.exists():
        return 0, 0
    done, digest = path.read_text(encoding="ascii").split()
    return int(done), int(digest)


def boot_s() -> float:
    """Return the machine's own clock, by which workers write down when they lived."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
