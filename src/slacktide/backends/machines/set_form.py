"""The form of a set of workers over machines: who runs where, on disk before any machine receives it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from slacktide.backends.workers import owned_folders
from slacktide.backends.workers.launch import Kind, Launch, script_of

SET_FILE = "set.json"


class GpuSeat(NamedTuple):
    """Where one rank runs."""

    host: str
    address: str
    device: str  # its GPU as CUDA names it; empty on a machine whose GPUs cannot be seen


class StayingWorker(NamedTuple):
    """A worker that a set takes over from the one before."""

    rank: int
    former_rank: int  # in the set before
    first_attempt: int
    first_rank: int  # as which it was started: it may still print to the log of that


class SetForm(NamedTuple):
    """What a set is to be, as it is written down."""

    attempt: int
    kinds: tuple[Kind, ...]
    seats: tuple[GpuSeat, ...]  # by rank
    port: int = 0  # where all ranks meet; 0: not known yet, so no machine has been requested to start
    launch: str = ""
    pool: str = ""
    script: str = ""  # a digest of what its workers were started with
    former: int = 0  # the attempt from which workers are taken over; 0: all are started
    kept: tuple[StayingWorker, ...] = ()

    def began(self, rank: int) -> tuple[int, int]:
        """Return the attempt and rank with which the worker of a rank was started."""
        found = (one[2:] for one in self.kept if one.rank == rank)
        return next(found, (self.attempt, rank))

    def is_started_as(self, pool: str, launch: Launch) -> bool:
        """Say whether it was started with this command in this pool."""
        return (self.pool, self.script) == (pool, script_of(launch))

    def successor(
        self, attempt: int, kinds: tuple[Kind, ...], stay: Mapping[int, int], new_seats: Sequence[GpuSeat]
    ) -> SetForm:
        """Return the form of a set that takes workers over where they are; its port is not known yet.

        `stay` has the new ranks of those workers with their ranks here.
        """
        new = iter(new_seats)
        return self._replace(
            attempt=attempt,
            kinds=kinds,
            seats=tuple(self.seats[stay[rank]] if rank in stay else next(new) for rank in range(len(kinds))),
            port=0,
            former=self.attempt,
            kept=tuple(StayingWorker(rank, former, *self.began(former)) for rank, former in stay.items()),
        )

    def write(self, home: Path) -> None:
        """Put it on disk; raises OSError."""
        fact = {"format": 1, **self._asdict(), "seats": [list(seat) for seat in self.seats]}
        owned_folders.write_durably(home / SET_FILE, json.dumps(fact))


def read_form(home: Path, attempt: int) -> SetForm | None:
    """Return the form that an earlier controller wrote; None when nothing is there that makes sense."""
    try:
        fact = json.loads(owned_folders.read_text(home / SET_FILE))
        kinds: Iterable[Kind] = ("spot" if kind == "spot" else "on-demand" for kind in fact["kinds"])
        seats = tuple(GpuSeat(*map(str, seat)) for seat in fact["seats"])
        form = SetForm(
            attempt, tuple(kinds), seats, int(fact["port"]), str(fact["launch"]),
            str(fact.get("pool", "")), str(fact.get("script", "")), int(fact.get("former", 0)),
            tuple(StayingWorker(*map(int, one)) for one in fact.get("kept", ())),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return form if form.seats and len(form.kinds) == len(form.seats) else None
