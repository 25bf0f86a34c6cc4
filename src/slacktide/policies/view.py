"""What a policy is shown of one job and its market, and what it answers with.

A policy knows no simulator, no engine and no clock: its caller passes it a `View`.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError, PolicyError, SlacktideError, UnknownNameError, shown
from slacktide.core.quotes import Quote, Sighting
from slacktide.core.types import TIME_TOLERANCE_HOURS, Allocation, Job, JobState
from slacktide.market.tape import MarketView, Past, PoolView
from slacktide.physics.pace import KNOWN, Pace


class Known(Protocol):
    """Where a view gets what a policy wants to know beyond the present."""

    def past(self, pool: int) -> Past: ...
    def forecast(self, pool: int) -> Sequence[Quote]: ...
    def sightings(self, pool: int) -> Sequence[Sighting]: ...


class Places(NamedTuple):
    """A job that may be in any of the pools of its view; entries are in their order."""

    jobs: tuple[Job, ...]
    """The job as it is in each pool: its widths there, and how fast it is."""
    move_hours: Floats
    """[from, to]: how long its checkpoint is on its way."""
    move_usd: Floats
    """[from, to]: what that costs."""
    gpus: tuple[str, ...] = ()
    """The GPU type in each pool, empty where it is not known; () where none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a policy may know when it decides about one slot: the present, the past, and a forecast."""

    job: Job
    id: str = ""
    """The job's name in its run; the name of its file where it runs alone."""
    state: JobState
    """What is held and done; spot the market has just taken away is already gone from it."""
    now_hours: float
    """Hours since the job began."""
    next_hours: float
    """When the next decision is due at the latest: the slot's end."""
    slot: int
    """Slots since the job began."""
    slot_hours: float
    pools: Sequence[PoolView]
    """All pools of the market at this moment."""
    pool: int = 0
    """Which of them the job is in."""
    memory: tuple[float, ...] = ()
    """What this policy put into its last allocation's memory; empty in the first slot."""
    pace: Pace = KNOWN
    """What is believed of the job's speed; `job` is what its file says, `policies.base.sight` has both."""
    known: Known | None = None
    """Where `past` and `forecast` come from; None in a view made by hand that has neither."""
    places: Places | None = None
    """Where the job may be; None: only in the pool that it is in."""

    @property
    def quote(self) -> Quote:
        """What the job's own pool offers now; on-demand GPUs that it holds there are among those offered."""
        return self.pools[self.pool].quote.keeping(self.state.on_demand_gpus)

    @property
    def notice_hours(self) -> float | None:
        """In this time spot goes that the job holds, as it was warned; None: it was not warned."""
        return self.pools[self.pool].notice_hours

    @property
    def hours(self) -> float:
        """Hours until the next decision is due: exactly those of a slot where it is one but for rounding."""
        hours = self.next_hours - self.now_hours
        return self.slot_hours if abs(hours - self.slot_hours) <= TIME_TOLERANCE_HOURS else hours

    @property
    def hours_left(self) -> float:
        """Hours until the deadline; negative when it has passed."""
        return self.job.deadline_hours - self.now_hours

    @property
    def work_left_gpu_hours(self) -> float:
        """Work still to be done, in GPU-hours of the reference GPU."""
        return self.job.work_gpu_hours - self.state.progress_gpu_hours

    def past(self, pool: int | None = None) -> Past:
        """Return what a pool, else the job's own, has quoted so far, the present slot last."""
        if self.known is None:
            raise InputError("a view must be made from a market's tapes to have a past, got one made by hand")
        return self.known.past(self.pool if pool is None else pool)

    def forecast(self, pool: int | None = None) -> Sequence[Quote]:
        """Return the run's forecast of a pool, else of the job's own, the next slot first."""
        return () if self.known is None else self.known.forecast(self.pool if pool is None else pool)

    def sightings(self, pool: int) -> Sequence[Sighting]:
        """Return what was seen of a pool since its past ended, in order; nothing where all is recorded."""
        return () if self.known is None else self.known.sightings(pool)

    def allowed_width(self, gpus: int) -> int:
        """Return the greatest width the job may have within this many GPUs; 0 if there is none."""
        return max((width for width in self.job.widths if width <= gpus), default=0)


@runtime_checkable
class Policy(Protocol):
    """Decides, slot by slot, what one job holds. No I/O, no clock, no future, no memory."""

    def decide(self, view: View) -> Allocation:
        """Return what to hold until the next slot, and why; the same view always gets the same answer."""
        ...


def decision_of(policy: Policy, view: View) -> Allocation:
    """Return what a policy wants; raises PolicyError where it fails, or returns something else."""
    try:
        wanted = policy.decide(view)
    except SlacktideError:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}, in slot {view.slot}"
        raise PolicyError(
            f"policy {type(policy).__name__} must decide without an error, got {type(error).__name__}: "
            f"{error} ({where})"
        ) from error
    if not isinstance(wanted, Allocation):
        raise PolicyError(
            f"policy {type(policy).__name__} must return an Allocation, got {shown(repr(wanted))} in slot "
            f"{view.slot}"
        )
    return wanted


def look(
    job: Job,
    moment: MarketView,
    state: JobState,
    slot: int,
    slot_hours: float,
    memory: tuple[float, ...] = (),
    name: str = "",
    pace: Pace = KNOWN,
    places: Places | None = None,
) -> View:
    """Return what a policy may know in a slot of a job that stands at this moment of the market."""
    return View(
        job=job,
        id=name or job.name,
        state=state,
        now_hours=slot * slot_hours,
        next_hours=(slot + 1) * slot_hours,
        slot=slot,
        slot_hours=slot_hours,
        pools=moment,
        pool=moment.own,
        memory=memory,
        pace=pace,
        known=moment,
        places=places,
    )


def stays_in(wish: Allocation, pool: str, job: str) -> None:
    """Raise InputError unless a wish of a job that may not move is for the pool that it is in."""
    if wish.pool not in (None, pool):
        raise InputError(
            f"job {shown(job)}: an allocation must stay in the job's pool, {shown(pool)}, got "
            f"{shown(wish.pool)}; this job may not move, so leave the pool out"
        )


def goes_where_it_may(wish: Allocation, pools: Sequence[str], job: str) -> None:
    """Raise UnknownNameError unless all that is wished for is in pools that the job may use."""
    for each in wish.wishes:
        if each.pool is not None and each.pool not in pools:
            raise UnknownNameError("pool", each.pool, pools, place=f"job {shown(job)}: ")
