"""The runs of a batch, kept as columns; a run is made when it is read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import overload

import numpy as np

from slacktide.core.arrays import Bools, Floats, Ints
from slacktide.core.types import Job
from slacktide.results.run import Run

COST, FINISH, SPOT, ON_DEMAND, PREEMPTIONS, LOST = range(6)  # the columns of a table of runs, one row each


class Runs(Sequence[Run]):
    """Runs of one policy in one pool, from many starts: a hundred thousand of them are as quick as ten."""

    def __init__(self, job: Job, policy: str, pool: str, starts: Sequence[int] | Ints, table: Floats) -> None:
        self.policy, self.pool = policy, pool
        self.start_slots: Ints = np.asarray(starts, dtype=np.int64)
        self._job, self._table = job, table

    @classmethod
    def joined(cls, parts: Sequence[Runs]) -> Runs:
        """Return the runs of one policy in one pool behind one another."""
        first = parts[0]
        starts = np.concatenate([part.start_slots for part in parts])
        table = np.concatenate([part._table for part in parts])
        return cls(first._job, first.policy, first.pool, starts, table)

    @property
    def cost_usd(self) -> Floats:
        """What each run cost."""
        return self._column(COST)

    @property
    def finish_hours(self) -> Floats:
        """When each run was done; infinite where the money ended before it."""
        return self._column(FINISH)

    @property
    def spot_gpu_hours(self) -> Floats:
        """The spot GPU-hours of each run."""
        return self._column(SPOT)

    @property
    def on_demand_gpu_hours(self) -> Floats:
        """The on-demand GPU-hours of each run."""
        return self._column(ON_DEMAND)

    @property
    def preemptions(self) -> Floats:
        """How often the market took GPUs of each run."""
        return self._column(PREEMPTIONS)

    @property
    def moves(self) -> Floats:
        """How often each run moved: never, in one pool."""
        return np.zeros(len(self))

    @property
    def move_usd(self) -> Floats:
        """What moves cost each run: nothing, in one pool."""
        return np.zeros(len(self))

    @property
    def on_time(self) -> Bools:
        """Whether each run was done by the deadline."""
        return np.fromiter(map(self._job.on_time, self.finish_hours.tolist()), bool, len(self))

    @property
    def utility_usd(self) -> Floats:
        """What each result is worth less what it cost."""
        worth = np.fromiter(map(self._job.value_at, self.finish_hours.tolist()), float, len(self))
        less: Floats = worth - self.cost_usd
        return less

    def _column(self, at: int) -> Floats:
        column: Floats = self._table[:, at]
        return column

    def __len__(self) -> int:
        return len(self.start_slots)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Run]: ...
    def __getitem__(self, index: int | slice) -> Run | Sequence[Run]:
        if isinstance(index, slice):
            return Runs(self._job, self.policy, self.pool, self.start_slots[index], self._table[index])
        cost, finish, spot, on_demand, preemptions, lost = self._table[index, : LOST + 1].tolist()
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


class AllRuns(Sequence[Run]):
    """Runs of several policies and pools behind one another, each part as it was made."""

    def __init__(self, parts: Sequence[Sequence[Run]]) -> None:
        self.parts = tuple(parts)
        self._ends = list(accumulate(len(part) for part in self.parts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Run]: ...
    def __getitem__(self, index: int | slice) -> Run | Sequence[Run]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        part = bisect_right(self._ends, at)
        return self.parts[part][at - (self._ends[part - 1] if part else 0)]


def column(runs: Sequence[Run], name: str) -> Floats:
    """Return one figure of every run."""
    if isinstance(runs, Runs):
        return np.asarray(getattr(runs, name), dtype=float)
    return np.array([getattr(run, name) for run in runs], dtype=float)
