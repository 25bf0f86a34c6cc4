"""What a policy is shown, and what it is: the one way in which it is decided what a job holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, overload, runtime_checkable

from slacktide.errors import InputError
from slacktide.market.tape import Past
from slacktide.site import Tapes
from slacktide.types import Allocation, Job, JobState, Quote


class PoolView(NamedTuple):
    """One pool at a moment."""

    name: str
    quote: Quote
    """What is offered to the job: spot that other jobs hold is gone from it."""


ALONE: Mapping[str, int] = {}
"""What other jobs hold where there are none."""


def offer(quote: Quote, held_by_others: int) -> Quote:
    """Return what is left for a job of what a pool offers to all."""
    if held_by_others <= 0:
        return quote
    return quote._replace(spot_gpus=max(0, quote.spot_gpus - held_by_others))


class Known(Protocol):
    """What a view asks when a policy wants to know more than the present."""

    def past(self, pool: int) -> Past: ...
    def forecast(self, pool: int) -> Sequence[Quote]: ...


class Moment(Sequence[PoolView]):
    """All pools of a market at one moment; nothing is made before somebody asks for it."""

    __slots__ = ("_by_others", "_seen", "_tapes", "hours", "own")

    def __init__(self, tapes: Tapes, hours: float, own: int, by_others: Mapping[str, int] = ALONE) -> None:
        """Stand at a moment, in one of the pools; `by_others` says what spot other jobs hold, by pool."""
        self.hours, self.own = hours, own
        self._tapes, self._by_others = tapes, by_others
        self._seen: dict[int, PoolView] = {}

    def __len__(self) -> int:
        return len(self._tapes)

    @overload
    def __getitem__(self, index: int) -> PoolView: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PoolView]: ...
    def __getitem__(self, index: int | slice) -> PoolView | Sequence[PoolView]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        if index not in self._seen:
            name = self._tapes.tapes[index].name
            whole = self._tapes.quote(index, self.hours)
            self._seen[index] = PoolView(name, offer(whole, self._by_others.get(name, 0)))
        return self._seen[index]

    def beside(self, by_others: Mapping[str, int]) -> Moment:
        """Return the same moment for a job beside others, who hold this spot, by pool."""
        return Moment(self._tapes, self.hours, self.own, by_others)

    def past(self, pool: int) -> Past:
        """Return what a pool has quoted up to this moment."""
        return self._tapes.past(pool, self.hours)

    def forecast(self, pool: int) -> Sequence[Quote]:
        """Return what is forecast at this moment."""
        return self._tapes.forecast(pool, self.hours)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a policy may know when it decides about one slot: the present, the past, and a forecast."""

    job: Job
    state: JobState
    """What is held and done; spot the market has just taken away is already gone from it."""
    now_hours: float
    """Hours since the job began."""
    next_hours: float
    """When it will be asked again whatever happens: the slot's end."""
    slot: int
    """Slots since the job began."""
    slot_hours: float
    pools: Sequence[PoolView]
    """All pools of the market at this moment."""
    pool: int = 0
    """Which of them the job is in."""
    memory: tuple[float, ...] = ()
    """What this policy put into its last allocation's memory; empty in the first slot."""
    known: Known | None = None
    """What `past` and `forecast` ask; None in a view made by hand that has neither."""

    @property
    def quote(self) -> Quote:
        """What the job's own pool offers now."""
        return self.pools[self.pool].quote

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

    def allowed_width(self, gpus: int) -> int:
        """Return the greatest width the job may have within this many GPUs; 0 if there is none."""
        return max((width for width in self.job.widths if width <= gpus), default=0)


@runtime_checkable
class Policy(Protocol):
    """Decides, slot by slot, what one job holds. No I/O, no clock, no future, no memory."""

    def decide(self, view: View) -> Allocation: ...


def look(
    job: Job, moment: Moment, state: JobState, slot: int, slot_hours: float, memory: tuple[float, ...] = ()
) -> View:
    """Return what a policy may know in a slot of a job that stands at this moment of the market."""
    return View(
        job=job,
        state=state,
        now_hours=slot * slot_hours,
        next_hours=(slot + 1) * slot_hours,
        slot=slot,
        slot_hours=slot_hours,
        pools=moment,
        pool=moment.own,
        memory=memory,
        known=moment,
    )
