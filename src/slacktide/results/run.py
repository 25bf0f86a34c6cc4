"""Runs of a job from its start to its end: as back-tests keep them, and as every report reads them.

A back-test keeps a record for each slot (`Run`), a batch of many starts a table (`Runs`), a journal events. A
`RunResult` is made of slots or events, so that pictures, tables and pages need not know where it came from.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints, LazySequence
from slacktide.core.quotes import Quote
from slacktide.core.types import TIME_TOLERANCE_HOURS, Allocation, Job, JobState, Reason
from slacktide.journal.events import Ending, Status
from slacktide.market.base import Pool
from slacktide.physics import ledger

CLAIRVOYANT = "clairvoyant"
OVER_POOLS, IN_THE_POOL = "clairvoyant over pools", "clairvoyant in the pool"
"""The clairvoyant's names where a job may move: over all pools, and in the one that was best for it."""
CLAIRVOYANTS = (CLAIRVOYANT, OVER_POOLS, IN_THE_POOL)
ON_DEMAND_ALONE = "on demand alone"  # the name of a run that a live one is compared with


class SlotRecord(NamedTuple):
    """One slot of a back-test: what was offered, wanted, held, done and paid, and why."""

    slot: int
    quote: Quote
    wanted: Allocation
    before: JobState  # the state the policy saw: spot that the market took is already gone
    lost_gpus: int  # spot GPUs that the market took at the start of the slot
    lost_gpu_hours: float  # work that was lost with them
    lived: ledger.Priced  # what was held, for how long, and what it cost
    after: JobState

    @property
    def spot_gpus(self) -> int:
        return self.lived.stretch.spot_gpus

    @property
    def on_demand_gpus(self) -> int:
        return self.lived.stretch.on_demand_gpus

    @property
    def cost_usd(self) -> float:
        return self.lived.charge.usd


class Stay(NamedTuple):
    """A time that a job spent in one pool: from the first GPU held there until the last was let go."""

    pool: str
    from_hours: float
    to_hours: float


def stays_of(stretches: Iterable[ledger.Priced]) -> tuple[Stay, ...]:
    """Return a job's stays in pools, in order; waiting and continuing in the same pool is one stay."""
    found: list[Stay] = []
    for stretch, _ in stretches:
        if not stretch.gpus:
            continue
        if found and found[-1].pool == stretch.pool:
            found[-1] = found[-1]._replace(to_hours=stretch.to_hours)
        else:
            found.append(Stay(stretch.pool, stretch.from_hours, stretch.to_hours))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Run:
    """A job from its start to its end under one policy."""

    policy: str
    pool: str
    start_slot: int
    cost_usd: float
    utility_usd: float
    finish_hours: float
    """Hours from the start until the work was done; infinite when its money or deadline stopped it before."""
    on_time: bool
    spot_gpu_hours: float
    on_demand_gpu_hours: float
    preemptions: int  # times that the market took GPUs away
    lost_gpu_hours: float  # work that was lost with them
    slots: tuple[SlotRecord, ...] = ()
    stays: tuple[Stay, ...] = ()
    """The stays of a run over several pools; `pool` is then the one whose slots are counted."""
    moves: int = 0  # times that its checkpoint was copied to another pool
    move_usd: float = 0.0  # what that cost


class Lap(NamedTuple):
    """A stretch of a run, with the work that was done when it began and when it ended."""

    priced: ledger.Priced
    before_gpu_hours: float
    after_gpu_hours: float


class Decision(NamedTuple):
    """What was decided at a moment and why, and the stretches until the next decision."""

    hours: float
    slot: int
    quote: Quote
    done_gpu_hours: float  # work done by then; what a loss took is already gone
    wanted_spot_gpus: int
    wanted_on_demand_gpus: int
    spot_gpus: int
    on_demand_gpus: int  # the GPUs held: the wish, limited to what was available
    reason: Reason
    lost_gpus: int = 0  # spot GPUs that were taken just before
    lost_gpu_hours: float = 0.0  # work that was lost with them
    ending: Ending | None = None  # the job's final status, if its workers are being stopped for good
    laps: tuple[Lap, ...] = ()

    @property
    def cost_usd(self) -> float:
        return sum(lap.priced.charge.usd for lap in self.laps)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A run, wherever it came from. Hours and slots count from when the job began."""

    name: str  # the job's id in its journal, or its name
    job: Job
    policy: str
    pool: Pool  # where it ran; of a job that may move, the pool whose slots are counted
    start_slot: int  # the market's slot in which it began
    pools: tuple[Pool, ...] = ()  # where a job that may move could be; none: only in `pool`
    origin_hours: float = 0.0
    """When that slot began: 0, or before it where the job was submitted inside the slot."""
    decisions: tuple[Decision, ...]
    restarts: tuple[float, ...]  # when workers were started again
    status: Status | None  # what became of the job; None while it runs
    finish_hours: float  # when the work was done; infinite when it was not

    @property
    def laps(self) -> tuple[Lap, ...]:
        return tuple(lap for decision in self.decisions for lap in decision.laps)

    @property
    def stretches(self) -> tuple[ledger.Priced, ...]:
        return tuple(lap.priced for lap in self.laps)

    @property
    def stays(self) -> tuple[Stay, ...]:
        return stays_of(self.stretches)

    @property
    def losses(self) -> tuple[Decision, ...]:
        """The decisions just before which spot GPUs were taken."""
        return tuple(decision for decision in self.decisions if decision.lost_gpus)

    @property
    def lost_gpu_hours(self) -> float:
        return sum(decision.lost_gpu_hours for decision in self.decisions)

    @property
    def bill(self) -> ledger.StretchSums:
        return ledger.bill(self.stretches)

    @property
    def on_time(self) -> bool:
        return math.isfinite(self.finish_hours) and self.job.on_time(self.finish_hours)


def result_of(run: Run, job: Job, pool: Pool, pools: tuple[Pool, ...] = ()) -> RunResult:
    """Convert a back-test's run, which must have kept its slots; `pools` are those it could move to."""
    finish = run.finish_hours
    done: Status = "succeeded" if run.on_time or job.value_at(finish) > 0 else "deadline_missed"
    return RunResult(
        name=job.name,
        job=job,
        policy=run.policy,
        pool=pool,
        start_slot=run.start_slot,
        pools=pools,
        decisions=tuple(_decision(record) for record in run.slots),
        restarts=tuple(_restarts(run.slots)),
        status=done if math.isfinite(finish) else _stopped(run, job),
        finish_hours=finish,
    )


def _stopped(run: Run, job: Job) -> Status:
    """Say what stopped a job before its work was done: its deadline, or its money."""
    ends = run.slots[-1].lived.stretch.to_hours if run.slots else 0.0
    out_of_time = job.after_deadline == "stop" and ends >= job.deadline_hours - TIME_TOLERANCE_HOURS
    return "deadline_missed" if out_of_time else "budget_exhausted"


def _restarts(records: Iterable[SlotRecord]) -> list[float]:
    """Return when workers were started again: at any loss or change of what is held, as in the engine."""
    starts = []
    for one in records:
        before, held = one.before, (one.spot_gpus, one.on_demand_gpus)
        changed = before.pool != one.after.pool or held != (before.spot_gpus, before.on_demand_gpus)
        if any(held) and (one.lost_gpus or changed):
            starts.append(one.lived.stretch.from_hours)
    return starts[1:]


def _decision(record: SlotRecord) -> Decision:
    before, wanted = record.before.progress_gpu_hours, record.wanted
    return Decision(
        hours=record.lived.stretch.from_hours,
        slot=record.slot,
        quote=record.quote,
        done_gpu_hours=before,
        wanted_spot_gpus=wanted.spot_gpus,
        wanted_on_demand_gpus=wanted.on_demand_gpus,
        spot_gpus=record.spot_gpus,
        on_demand_gpus=record.on_demand_gpus,
        reason=wanted.reason,
        lost_gpus=record.lost_gpus,
        lost_gpu_hours=record.lost_gpu_hours,
        laps=(Lap(record.lived, before, record.after.progress_gpu_hours),),
    )


COLUMNS = (
    "cost_usd", "finish_hours", "spot_gpu_hours", "on_demand_gpu_hours", "preemptions", "lost_gpu_hours",
    "slots",
)  # fmt: skip
"""The columns of a table of runs, one row each; the last one is how many slots a run took."""


class Runs(LazySequence[Run]):
    """Runs of one policy in one pool from many starts, kept as a table; a `Run` is made when it is read."""

    def __init__(self, job: Job, policy: str, pool: str, starts: Sequence[int] | Ints, table: Floats) -> None:
        self.policy, self.pool = policy, pool
        self.start_slots: Ints = np.asarray(starts, dtype=np.int64)
        self._job, self._table = job, table

    @classmethod
    def joined(cls, parts: Sequence[Runs]) -> Runs:
        first = parts[0]
        starts = np.concatenate([part.start_slots for part in parts])
        table = np.concatenate([part._table for part in parts])
        return cls(first._job, first.policy, first.pool, starts, table)

    def column(self, name: str) -> Floats:
        if name in COLUMNS:
            return np.asarray(self._table[:, COLUMNS.index(name)])
        if name in ("moves", "move_usd"):  # none in one pool
            return np.zeros(len(self))
        finish = self.column("finish_hours").tolist()
        if name == "on_time":
            return np.fromiter(map(self._job.on_time, finish), float, len(self))
        assert name == "utility_usd", name
        worth = np.fromiter(map(self._job.value_at, finish), float, len(self))
        return np.asarray(worth - self.column("cost_usd"))

    def __len__(self) -> int:
        return len(self.start_slots)

    def item(self, index: int) -> Run:
        cost, finish, spot, on_demand, preemptions, lost = self._table[index, :6].tolist()
        return Run(
            policy=self.policy,
            pool=self.pool,
            start_slot=int(self.start_slots[index]),
            cost_usd=cost,
            utility_usd=self._job.value_at(finish) - cost,
            finish_hours=finish,
            on_time=self._job.on_time(finish),
            spot_gpu_hours=spot,
            on_demand_gpu_hours=on_demand,
            preemptions=int(preemptions),
            lost_gpu_hours=lost,
        )


class AllRuns(LazySequence[Run]):
    """Runs of several policies and pools, one part after the other; no part is copied."""

    def __init__(self, parts: Sequence[Sequence[Run]]) -> None:
        self.parts = tuple(parts)
        self._ends = list(accumulate(len(part) for part in self.parts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def item(self, index: int) -> Run:
        at = range(len(self))[index]
        part = bisect_right(self._ends, at)
        return self.parts[part][at - (self._ends[part - 1] if part else 0)]


def column(runs: Sequence[Run], name: str) -> Floats:
    if isinstance(runs, Runs):
        return runs.column(name)
    return np.array([getattr(run, name) for run in runs], dtype=float)
