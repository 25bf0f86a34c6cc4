"""The workers of one attempt on several machines: they begin together and end together.

It is written down before any machine receives it, and the port where all ranks meet before any worker may
start, so that the next controller knows where workers may be. If a part of the set was lost, or was stopped
from outside, the set cannot go on: the other parts are ended too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from slacktide.backends.machines.agent.messages import AgentTask, Host, LogName
from slacktide.backends.workers import job_folder as folder
from slacktide.backends.workers.launch import ProcessStatus, SetPart, lower_ranks_first
from slacktide.journal.events import Capacity


class GpuSeat(NamedTuple):
    """Where one rank runs."""

    host: str
    address: str
    device: str  # its GPU as CUDA names it; empty on a machine whose GPUs cannot be seen


FreeGpus: TypeAlias = Mapping[Host, Sequence[str]]
"""The GPUs that are free on each machine, by name; empty names where GPUs cannot be seen."""


def fits(host: Host, kind: Capacity, pool: str) -> bool:
    """Say whether a machine may serve as this kind in this pool; a label cannot hold every name of a pool."""
    return host.kind in (None, kind) and host.pool in (None, pool, pool.replace("/", "."))


def place(
    kinds: Sequence[Capacity], pool: str, free: FreeGpus, used: Collection[str] = ()
) -> tuple[GpuSeat, ...] | None:
    """Return a seat for every rank; None if there are too few. `used` machines carry others of the set."""
    left = {host: list(devices) for host, devices in free.items()}
    seats: list[GpuSeat] = []
    for kind in kinds:
        hosts = [host for host in left if fits(host, kind, pool) and left[host]]
        if not hosts:
            return None
        # Machines in use first, then those that can serve as nothing else, then large ones.
        in_use = {*used, *(seat.host for seat in seats)}
        best = min(hosts, key=lambda host: (host.id not in in_use, not host.kind, -len(left[host]), host.id))
        seats.append(GpuSeat(best.id, best.address, left[best].pop(0)))
    return tuple(seats)


def missing(kinds: Sequence[Capacity], pool: str, free: FreeGpus) -> Mapping[Capacity, int]:
    """Return how many GPUs of each kind are lacking; machines that can serve as either count for both."""
    lacking: dict[Capacity, int] = {}
    for kind in dict.fromkeys(kinds):
        available = sum(len(devices) for host, devices in free.items() if fits(host, kind, pool))
        if kinds.count(kind) > available:
            lacking[kind] = kinds.count(kind) - available
    return lacking


SET_FILE = "set.json"


class StayingWorker(NamedTuple):
    """A worker that a set takes over from the one before."""

    rank: int
    former_rank: int  # in the set before
    first_attempt: int
    first_rank: int  # the rank with which it was started: it may still print to that log


class SetForm(NamedTuple):
    """The plan of a set, as it is written down."""

    attempt: int
    kinds: tuple[Capacity, ...]
    seats: tuple[GpuSeat, ...]  # by rank
    port: int = 0  # where all ranks meet; 0: not known yet, so no machine has been told to start
    launch: str = ""
    pool: str = ""
    script: str = ""  # a digest of what its workers were started with
    former: int = 0  # the attempt from which workers are taken over; 0: all are started
    kept: tuple[StayingWorker, ...] = ()

    def began(self, rank: int) -> tuple[int, int]:
        """Return the attempt and rank with which the worker of a rank was started."""
        found = (worker[2:] for worker in self.kept if worker.rank == rank)
        return next(found, (self.attempt, rank))

    def successor(
        self, attempt: int, kinds: tuple[Capacity, ...], stay: Mapping[int, int], new_seats: Sequence[GpuSeat]
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


OVER_FILE = "over"
DRAIN_S = 10.0  # how long to wait, after a part has ended, for the last lines that it printed


@dataclass(slots=True)
class MachinePart:
    """The part of a set that one machine runs."""

    host: str
    ranks: tuple[int, ...]
    seen: ProcessStatus | None = None  # what its agent last reported of this attempt
    seen_at: float = 0.0  # when it reported that
    number: int = 0  # of the message that this answered
    away: bool = False  # whether its machine is down
    noticed: bool = False  # whether its machine was warned that it will be taken
    taken_at: float = math.inf  # when that will be, on the controller's clock
    lost: bool = False  # whether its workers count as ended though their agent has not said so
    gone_s: float | None = None  # when the last of its workers had gone, on this machine's clock
    gone_at: float | None = None  # when the message that said so came
    drained: bool = False  # whether all that it printed was copied
    handed_on: bool = False
    """Whether another set took over workers of this machine; its agent then reports on that set."""
    left: bool = False  # whether the workers that were not taken over have gone

    @property
    def gone(self) -> bool:
        """Whether nothing of it is left, by its agent's report or because its lease has run out."""
        return self.lost or self.left or (self.seen is not None and self.seen.gone)

    @property
    def broken(self) -> bool:
        """Whether the other parts have to end because of it."""
        return self.missed or (self.seen is not None and self.seen.stopped)

    @property
    def missed(self) -> bool:
        """Whether its workers are lost, or will be, with their machine."""
        return self.lost or self.away or self.noticed


@dataclass(slots=True)
class MachineSet:
    """A set of workers on one or more machines."""

    form: SetForm
    home: Path
    adopted: bool = False
    """Whether an earlier controller began it: it counts as alive until its machines say otherwise."""
    stopping: bool = False
    spot_left: int | None = None  # how many spot workers the market leaves; None: all
    notice_s: float = 0.0
    parts: dict[str, MachinePart] = field(init=False)  # by machine
    failed: MachinePart | None = None  # the first part that reported a failure
    after: dict[str, int] = field(default_factory=dict)
    """The number of the last message to each machine when the failure was reported."""
    began_at: float | None = None  # when all parts had begun, on the controller's clock
    go: bool = False
    """Whether workers are ready on all machines to take their places, where some were taken over."""

    def __post_init__(self) -> None:
        ranks: dict[str, list[int]] = {}
        for rank, seat in enumerate(self.form.seats):
            ranks.setdefault(seat.host, []).append(rank)
        self.parts = {host: MachinePart(host, tuple(part_ranks)) for host, part_ranks in ranks.items()}

    @property
    def attempt(self) -> int:
        """Its number."""
        return self.form.attempt

    @property
    def announced(self) -> bool:
        """Whether machines may have been told to start it."""
        return self.form.port > 0

    @property
    def broken(self) -> bool:
        """Whether it cannot go on."""
        return any(part.broken for part in self.parts.values())

    @property
    def stopped(self) -> bool:
        """Whether it will never finish."""
        return self.broken or (self.stopping and not self.succeeded)

    @property
    def succeeded(self) -> bool:
        """Whether all workers exited with 0, none of them told to stop."""
        return not self.broken and self._all_report(lambda seen: seen.finished or seen.unfinished)

    @property
    def failure(self) -> ProcessStatus | None:
        """The status with the job's failure, once all machines have answered after it and none was lost."""
        if self.failed is None or self.broken or self.stopping:
            return None
        answered = (part.gone or part.number > self.after.get(part.host, 0) for part in self.parts.values())
        return self.failed.seen if all(answered) else None

    @property
    def over(self) -> bool:
        """Whether nothing of it is left on any machine."""
        return (self.stopping and not self.announced) or all(part.gone for part in self.parts.values())

    @property
    def reported(self) -> bool:
        """Whether every machine has reported something of it to this controller."""
        return self._all_report(lambda seen: True)

    @property
    def able(self) -> bool:
        """Whether all workers live and can go on in another set."""
        return self._all_report(lambda seen: seen.able)

    @property
    def has_ended(self) -> bool:
        """Whether any of its workers has ended, however."""
        ends = (part.seen.exit_codes for part in self.parts.values() if part.seen is not None)
        return any(code is not None for codes in ends for code in codes)

    @property
    def places_sent(self) -> bool:
        """Whether all workers received their places in it, where some were taken over."""
        return self._all_report(lambda seen: seen.places_sent_s is not None)

    @property
    def reforming(self) -> bool:
        """Whether workers that were taken over have not all taken their places in it."""
        if not self.form.former or self.stopping or not self.announced:
            return False
        return not (self.places_sent and self._all_report(lambda seen: not seen.reforming))

    def _all_report(self, holds: Callable[[ProcessStatus], bool]) -> bool:
        return all(part.seen is not None and holds(part.seen) for part in self.parts.values())

    def kept(self, part: MachinePart) -> list[StayingWorker]:
        """Return those of a part's workers that were taken over."""
        return [worker for worker in self.form.kept if worker.rank in part.ranks]

    def staying(self, kinds: Sequence[Capacity]) -> dict[int, int]:
        """Return the ranks of workers that stay, by their new ranks; empty if all have to be started again.

        Rank 0 has to stay rank 0, because it saves checkpoints and all others know its address.
        """
        if self.stopping or self.broken or self.failed is not None or not self.able:
            return {}
        stay = lower_ranks_first(kinds, self.form.kinds)
        return stay if stay.get(0) == 0 else {}

    def hand_on(self, new: SetForm) -> None:
        """Give up the workers that a new set takes over from this one, if it does."""
        if new.former != self.attempt:
            return
        ranks = {worker.former_rank for worker in new.kept}
        hosts = {seat.host for seat in new.seats}
        for host, part in list(self.parts.items()):
            part.ranks = tuple(rank for rank in part.ranks if rank not in ranks)
            if not part.ranks:
                del self.parts[host]
            elif host in hosts:
                part.handed_on, part.seen = True, None

    def drained(self, now: float) -> bool:
        """Say whether all that it printed has been copied, or will not come."""
        return all(
            part.lost or part.drained or (part.gone_at is not None and now - part.gone_at > DRAIN_S)
            for part in self.parts.values()
            if part.seen is not None
        )

    def kinds(self, part: MachinePart) -> tuple[Capacity, ...]:
        """Return the kinds of a part's workers."""
        return tuple(self.form.kinds[rank] for rank in part.ranks)

    def task(self, part: MachinePart) -> AgentTask | None:
        """Return the task of a machine for its part; None while it could not start anything."""
        if not self.announced:
            return None
        seats = [self.form.seats[rank] for rank in part.ranks]
        devices = tuple(seat.device for seat in seats)
        in_set = SetPart(
            part.ranks,
            tuple(seat.address for seat in self.form.seats),
            self.form.port,
            devices if all(devices) else (),
            self.form.former,
            tuple((worker.rank, worker.former_rank) for worker in self.kept(part)),
            self.go,
        )
        kinds = () if self.stopping else self.kinds(part)
        spot_left = None
        if self.spot_left is not None:
            spot_ranks = [rank for rank, kind in enumerate(self.form.kinds) if kind == "spot"]
            spot_left = sum(rank in part.ranks for rank in spot_ranks[: self.spot_left])
        return AgentTask(
            self.home.parent.name, self.attempt, kinds, in_set, self.form.launch, spot_left, self.notice_s
        )

    def logs(self, part: MachinePart) -> list[LogName]:
        """Return the logs to copy from a part's machine."""
        job = self.home.parent.name
        setup = [(job, 0, 0)] if part is self.setup_part else []
        before = {(job, self.form.former, worker.former_rank) for worker in self.kept(part)}
        first = {(job, *worker[2:]) for worker in self.kept(part)}
        return [*setup, *sorted(before | first), *((job, self.attempt, rank) for rank in part.ranks)]

    @property
    def setup_part(self) -> MachinePart | None:
        """The part whose set-up log is shown: the failed one, else rank 0's; None if that was handed on."""
        return self.failed or self.parts.get(self.form.seats[0].host)

    def stop(self) -> None:
        """Tell all parts to end; a stopped set is never begun again, not even by the next controller."""
        if not self.stopping:
            self.stopping = True
            lost = [rank for part in self.parts.values() if part.missed for rank in part.ranks]
            folder.write_stop(self.home / "stop", lost)

    def write(self) -> None:
        """Write down its form, before any machine receives it; raises OSError."""
        fact = {"format": 1, **self.form._asdict()}
        folder.write_durably(self.home / SET_FILE, json.dumps(fact))

    def write_over(self) -> None:
        """Note that nothing of it is left, so that the next controller need not look for it."""
        folder.touch(self.home / OVER_FILE)


def read_set(home: Path, attempt: int) -> MachineSet | None:
    """Return a set that an earlier controller wrote down; None if there is no valid note."""
    try:
        fact = json.loads(folder.read_text(home / SET_FILE))
        kinds: Iterable[Capacity] = ("spot" if kind == "spot" else "on-demand" for kind in fact["kinds"])
        seats = tuple(GpuSeat(*map(str, seat)) for seat in fact["seats"])
        form = SetForm(
            attempt, tuple(kinds), seats, int(fact["port"]), str(fact["launch"]),
            str(fact.get("pool", "")), str(fact.get("script", "")), int(fact.get("former", 0)),
            tuple(StayingWorker(*map(int, worker)) for worker in fact.get("kept", ())),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not form.seats or len(form.kinds) != len(form.seats):
        return None
    return MachineSet(form, home, adopted=True, stopping=folder.age_ns(home / "stop") is not None)
