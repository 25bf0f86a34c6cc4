"""What a step wants done: events to append, then orders to carry out. `Engine` alone does both."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple, TypeAlias, TypeVar

from slacktide.core.types import Order
from slacktide.journal.events import Event
from slacktide.journal.state.job_record import JobRecord

T = TypeVar("T")


class Directive(NamedTuple):
    """An order to the back end about one job."""

    record: JobRecord
    spot_left: int | None = None
    """How much spot the market left, where it took some: a back end that plays the market takes it first."""
    order: Order | None = None
    """What to carry out; None: the order that stands in the journal once the events are appended."""


class Change(NamedTuple):
    """Events that are appended together, all or none, and the orders that follow from them."""

    events: tuple[Event, ...] = ()
    directives: tuple[Directive, ...] = ()

    @classmethod
    def of(cls, events: Iterable[Event], directives: Iterable[Directive] = ()) -> Change:
        """Return a change of any events and orders."""
        return cls(tuple(events), tuple(directives))


Changes: TypeAlias = Iterator[Change]
"""Changes one after the other.

A step resumes only when the last one is in the journal, so what it reads of its job's record afterwards is
what a new engine would read, too.
"""
Changing: TypeAlias = Generator[Change, None, T]  # the same of a step that also returns something
