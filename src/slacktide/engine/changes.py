"""What a step wants done: events to append, then orders to carry out. `Engine` alone does both."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from slacktide.core.types import Allocation, JobState, Order, Wish
from slacktide.engine.job.account import StretchAccount, bare
from slacktide.journal.events import Decided, Ended, Ending, Event, Lived, Preempted, Status
from slacktide.journal.state.journal_state import Begun, JobRecord

T = TypeVar("T")


class Directive(NamedTuple):
    """An order to the back end about one job."""

    record: JobRecord
    spot_left: int | None = None
    """How much spot the market left, if it took some; a back end that plays the market takes it first."""
    order: Order | None = None
    """What to carry out; None: the order that the job has once the events are appended."""


class Change(NamedTuple):
    """Events that are appended together, all or none, and the orders that follow from them."""

    events: Sequence[Event] = ()
    directives: Sequence[Directive] = ()


Changes: TypeAlias = Iterator[Change]
"""Changes one after the other.

A step resumes only when the last one is in the journal, so what it reads of its job's record afterwards is
what a new engine would read, too.
"""
Changing: TypeAlias = Generator[Change, None, T]  # the same for a step that also returns a value


def decided(
    begun: Begun,
    state: JobState,
    order: Order,
    wish: Allocation,
    ending: Ending | None = None,
    **more: Any,
) -> Decided:
    """Say what is to be held, what was wished for, and why; `more` are other fields of the event."""
    return Decided(
        job=order.job,
        at_hours=begun.from_hours,
        why=wish.reason.rule,
        signals={name: float(value) for name, value in wish.reason.signals.items()},
        slot=begun.slot,
        quote=begun.quote,
        state=bare(state),
        pool=order.pool,
        spot_gpus=order.spot_gpus,
        on_demand_gpus=order.on_demand_gpus,
        wanted_spot_gpus=int(wish.spot_gpus),
        wanted_on_demand_gpus=int(wish.on_demand_gpus),
        memory=tuple(float(number) for number in wish.memory),
        attempt=order.attempt,
        until_hours=order.until_hours,
        ending=ending,
        instead=tuple(Wish(int(one.spot_gpus), int(one.on_demand_gpus), one.pool) for one in wish.instead),
        **more,
    )


def lived(record: JobRecord, account: StretchAccount) -> Lived:
    """Say what a stretch of time did and cost."""
    return Lived(job=record.job, at_hours=account.to_hours, priced=account.priced, state=account.state)


def preempted(
    record: JobRecord,
    slot: int,
    at_hours: float,
    before: JobState,
    left: JobState,
    why: str,
    *,
    by_user: bool = False,
) -> Preempted:
    """Say which spot workers were taken, by whom, and what work went with them."""
    return Preempted(
        job=record.job,
        at_hours=at_hours,
        actor="user" if by_user else "market",
        why=why,
        slot=slot,
        spot_before=int(before.spot_gpus),
        spot_left=int(left.spot_gpus),
        lost_gpu_hours=float(before.progress_gpu_hours - left.progress_gpu_hours),
    )


def ended(
    record: JobRecord, status: Status, why: str, at_hours: float, finish_hours: float = math.inf
) -> Ended:
    """Return the event that a job is over; `finish_hours` is on the market's clock, not from its start."""
    finish_hours = float(finish_hours - record.began_hours)
    return Ended(job=record.job, at_hours=at_hours, why=why, status=status, finish_hours=finish_hours)
