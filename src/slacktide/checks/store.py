"""The contract of a store, as checks that anyone can run on their own.

    from slacktide.checks import check_store
    check_store(lambda: MyStore(...), again=lambda store: MyStore(store.place))

Each check takes a new, empty store, and a function that opens the same journal once more, or None. It raises
CheckFailed with a sentence if the promise does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from slacktide.checks.base import CheckFailed, must
from slacktide.checks.history import HISTORY, JOB
from slacktide.core.errors import InputError, SlacktideError
from slacktide.journal.events import CancellationAsked, Event, Record
from slacktide.journal.store.base import Snapshot, Store

Again: TypeAlias = Callable[[Any], Store]  # opens the journal of a store once more
StoreCheck: TypeAlias = Callable[[Store, Again | None], None]

MANY = 2500  # more events than a store is likely to fetch at once


def gives_back_what_it_was_given(store: Store, again: Again | None) -> None:
    """Events of every kind are read unchanged, floats to the last bit, and as `append` returned them."""
    # Compared by repr, because 0.0 equals -0.0; taken first, because a store may keep the objects themselves.
    given = [repr(event) for event in HISTORY]
    said, found = store.append(HISTORY), list(store.read())
    _must_equal(said, found, "what append returns and what is read")
    _must_equal([repr(record.event) for record in found], given, "events")
    zoned = all(record.time_utc.utcoffset() is not None for record in found)
    must(zoned, f"times must know their zone, got {found[0].time_utc}")


def keeps_the_order(store: Store, again: Again | None) -> None:
    """Numbers of events begin above 0 and grow from event to event, over batches of any size, even empty."""
    _must_equal(store.last_seq(), 0, "the last number of an empty journal")
    said = [record for size in (1, 0, 3, MANY) for record in store.append(_requested(size))]
    numbers = [record.seq for record in said]
    grow = sorted(set(numbers)) == numbers and numbers[0] >= 1
    must(grow, f"numbers must grow from 1 on, got {numbers[:10]}")
    _must_equal(list(store.read()), said, "what append returned and what is read")
    _must_equal(store.last_seq(), numbers[-1], "the last number")


def reads_on_from_a_number(store: Store, again: Again | None) -> None:
    """Reading after a number returns all later events and no others."""
    said = store.append(HISTORY)
    for index, record in enumerate(said):
        _must_equal(list(store.read(after=record.seq)), said[index + 1 :], f"events after {record.seq}")
    for beyond in (said[-1].seq + 1, said[-1].seq + 10**6):
        _must_equal(list(store.read(after=beyond)), [], f"events after {beyond}")


def reads_one_job(store: Store, again: Again | None) -> None:
    """Reading one job returns only its events; the empty name stands for events without a job."""
    said = store.append(HISTORY)
    for job in (JOB, "", "other", "no-such-job", "%"):
        wanted = [record for record in said if record.event.job == job]
        _must_equal(list(store.read(job=job)), wanted, f"events of job {job!r}")
        late = [record for record in wanted if record.seq > said[5].seq]
        _must_equal(list(store.read(after=said[5].seq, job=job)), late, f"late events of job {job!r}")


def writes_all_or_none(store: Store, again: Again | None) -> None:
    """A batch that cannot be written as a whole leaves nothing, and the next one is written as usual."""
    said = store.append(_requested(2))
    _must_refuse(store, lambda: iter([*_requested(3), CancellationAsked(at_hours=math.nan)]), InputError)
    _must_refuse(store, _breaking, ZeroDivisionError)
    _must_equal(list(store.read()), said, "events after batches that were refused")
    said += store.append(_requested(2))
    _must_equal(list(store.read()), said, "events after the batch that followed")


def ends_though_events_are_appended_while_reading(store: Store, again: Again | None) -> None:
    """A reader gets the events that were there when it began, so that it may append while reading."""
    said = store.append(_requested(MANY))
    seen: list[Record] = []
    for record in store.read():
        must(len(seen) <= len(said), "reading must end with what stood there when it began, got later events")
        seen.append(record)
        if record.seq % 500 == 1:
            store.append(_requested(1))
    _must_equal(seen, said, "events that stood there when reading began")


def shares_the_journal(store: Store, again: Again | None) -> None:
    """Two stores of the same journal see each other's events at once, with the same numbers."""
    if again is None:
        return
    with again(store) as other:
        said = []
        for writer, reader in ((store, other), (other, store), (store, other)):
            said += writer.append(_requested(2))
            _must_equal(list(reader.read()), said, "events that another handle reads")
            _must_equal(reader.last_seq(), said[-1].seq, "the last number that another handle returns")


def remembers(store: Store, again: Again | None) -> None:
    """Events are still there when the journal is closed and opened again."""
    if again is None:
        return
    said = store.append(HISTORY)
    store.close()
    with again(store) as later:
        _must_equal(list(later.read()), said, "events after opening again")
        more = later.append(_requested(1))
        must(more[0].seq > said[-1].seq, f"numbers must go on after {said[-1].seq}, got {more[0].seq}")


def keeps_a_snapshot(store: Store, again: Again | None) -> None:
    """The newest snapshot is returned to a reader that asks for its form, and to no other; events stay."""
    said, newest = store.append(HISTORY), Snapshot(2, "form", b"\0\xffnewest")
    _must_equal(store.latest("form"), None, "the snapshot of a journal that has none")
    for snapshot in (Snapshot(1, "form", b"older"), newest):
        store.snapshot(snapshot)
        _must_equal(store.latest("form"), snapshot, "the snapshot that was kept last")
    _must_equal(store.latest("another"), None, "the snapshot of another form")
    _must_equal(list(store.read()), said, "events next to a snapshot")
    if again is not None:
        with again(store) as other:
            _must_equal(other.latest("form"), newest, "the snapshot that another handle reads")


def raises_nothing_for_a_snapshot_it_cannot_keep(store: Store, again: Again | None) -> None:
    """A store that cannot keep a snapshot raises nothing, because that must not end a run."""
    store.close()
    try:
        store.snapshot(Snapshot(1, "form", b"body"))
    except Exception as error:
        raise CheckFailed(f"a snapshot that cannot be kept must raise nothing, got {error!r:.80}") from error


def can_be_closed(store: Store, again: Again | None) -> None:
    """A store may be closed twice; using it afterwards raises a SlacktideError."""
    store.close()
    store.close()
    for use in (lambda: store.append(_requested(1)), store.last_seq, lambda: list(store.read())):
        try:
            use()
        except SlacktideError:
            continue
        raise CheckFailed("a closed store must refuse to be used, got an answer")


STORE_CHECKS: tuple[StoreCheck, ...] = (
    gives_back_what_it_was_given, keeps_the_order, reads_on_from_a_number, reads_one_job, writes_all_or_none,
    ends_though_events_are_appended_while_reading, shares_the_journal, remembers, keeps_a_snapshot,
    raises_nothing_for_a_snapshot_it_cannot_keep, can_be_closed,
)  # fmt: skip


def check_store(make: Callable[[], Store], again: Again | None = None) -> None:
    """Run every check on a new store; raises CheckFailed at the first broken promise.

    `again` opens the journal of a store once more; leave it out if a journal can be opened only once.
    """
    for check in STORE_CHECKS:
        with make() as store:
            check(store, again)


def _requested(count: int) -> list[Event]:
    return [replace(CancellationAsked(at_hours=1.0), job=f"job-{number}") for number in range(count)]


def _breaking() -> Iterator[Event]:
    yield from _requested(1)
    raise ZeroDivisionError("what makes the events fails half-way")


def _must_refuse(store: Store, make: Callable[[], Iterator[Event]], error: type[Exception]) -> None:
    try:
        store.append(make())
    except error:
        return
    raise CheckFailed(f"a batch that cannot be written must be refused with {error.__name__}, got none")


def _must_equal(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise CheckFailed(f"{what} must be {_short(wanted)}, got {_short(found)}")


def _short(thing: object) -> str:
    if isinstance(thing, Sequence) and thing and isinstance(thing[0], Record):
        return f"{len(thing)} events ({thing[0].seq} to {thing[-1].seq})"
    return f"{thing!r:.200}"
