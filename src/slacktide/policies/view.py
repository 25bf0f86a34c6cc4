"""What a policy is shown of one job and its market, and what it answers with.

A policy does not call a simulator, an engine or a clock: all that it knows is in the `View` it is passed.
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
    """Where a view looks up the past, the forecast and the sightings of a pool."""

    def past(self, pool: int) -> Past: ...
    def forecast(self, pool: int) -> Sequence[Quote]: ...
    def sightings(self, pool: int) -> Sequence[Sighting]: ...


class Places(NamedTuple):
    """Where a job that may move can be: one entry for each pool of its view, in the same order."""

    jobs: tuple[Job, ...]
    """The job as it would be in each pool: its widths there, and its speed."""
    move_hours: Floats
    """[from, to]: how long copying its checkpoint takes."""
    move_usd: Floats
    """[from, to]: what copying it costs."""
    gpus: tuple[str, ...] = ()
    """The GPU type of each pool, "" where it is not known; () if no type is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a policy may know when it decides about one slot: the present, the past, and a forecast."""

    job: Job
    id: str = ""
    """The job's name in its run; the name of its file where it runs alone."""
    state: JobState
    """What the job holds and has done; spot that the market has just taken is already gone from it."""
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
    """What is believed of the job's speed; `job` has the speed in its file, `policies.base.sight` both."""
    known: Known | None = None
    """Where `past` and `forecast` come from; None in a view made by hand that has neither."""
    places: Places | None = None
    """The pools that the job may move to; None if it must stay where it is."""

    @property
    def quote(self) -> Quote:
        """What the job's own pool offers now; the on-demand GPUs that the job holds count as offered."""
        return self.pools[self.pool].quote.keeping(self.state.on_demand_gpus)

    @property
    def notice_hours(self) -> float | None:
        """Hours until the spot that the job holds is taken, as a warning says; None without a warning."""
        return self.pools[self.pool].notice_hours

    @property
    def hours(self) -> float:
        """Hours until the next decision is due; exactly `slot_hours` if only rounding makes a difference."""
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
        """Return what a pool (by default the job's own) has quoted so far, the present slot last."""
        if self.known is None:
            raise InputError("a view must be made from a market's tapes to have a past, got one made by hand")
        return self.known.past(self.pool if pool is None else pool)

    def forecast(self, pool: int | None = None) -> Sequence[Quote]:
        """Return the run's forecast of a pool (by default the job's own), the next slot first."""
        return () if self.known is None else self.known.forecast(self.pool if pool is None else pool)

    def sightings(self, pool: int) -> Sequence[Sighting]:
        """Return what was seen of a pool after its past ended, in order; empty if the past reaches to now."""
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
    """Return the view of a job at the beginning of a slot; `moment` is the market as it is then."""
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
    """Raise InputError if the wish of a job that may not move names another pool than its own."""
    if wish.pool not in (None, pool):
        raise InputError(
            f"job {shown(job)}: an allocation must stay in the job's pool, {shown(pool)}, got "
            f"{shown(wish.pool)}; this job may not move, so leave the pool out"
        )


def goes_where_it_may(wish: Allocation, pools: Sequence[str], job: str) -> None:
    """Raise UnknownNameError if a wish names a pool that the job may not use."""
    for each in wish.wishes:
        if each.pool is not None and each.pool not in pools:
            raise UnknownNameError("pool", each.pool, pools, place=f"job {shown(job)}: ")
