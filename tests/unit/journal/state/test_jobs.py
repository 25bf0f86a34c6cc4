"""Jobs that ended long ago take little room, and are told as if they took all of it."""

from __future__ import annotations

import dataclasses
import gc
import sys
from collections.abc import Iterator

import pytest

from slacktide.checks.history import HISTORY
from slacktide.journal.events import CancellationAsked, Ended, Event, Record, Submitted
from slacktide.journal.state.jobs import BLOCK_JOBS, KEPT_ENDED
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.journal.state.snapshots import keep, known
from slacktide.journal.store.base import MemoryStore, now_utc

MOST_BYTES = 512
"""What a job that has ended may take: its id and key, and its share of a block."""


@pytest.fixture(scope="module")
def life() -> list[Event]:
    """Return the events of one job from its submission to its end."""
    events = HISTORY
    job = next(event.job for event in events if isinstance(event, Submitted))
    own = [event for event in events if event.job == job and not isinstance(event, Ended | CancellationAsked)]
    return [*own, Ended(job=job, at_hours=own[-1].at_hours, status="succeeded", finish_hours=1.0)]


def lived(state: JournalState, life: list[Event], numbers: range) -> JournalState:
    """Let jobs live one after the other."""
    for number in numbers:
        for event in life:
            told = dataclasses.replace(event, job=f"job-{number}")
            if isinstance(told, Submitted):
                told = dataclasses.replace(told, key=f"key-{number}")
            state.apply(Record(state.seq + 1, now_utc(), told))
    return state


def plainly(state: JournalState, life: list[Event], job: str) -> JobRecord:
    """Return a job as it is in the state of a journal without any other job."""
    return lived(JournalState(), life, range(int(job[4:]), int(job[4:]) + 1)).jobs[job]


def test_all_jobs_are_told_in_the_order_they_came_as_if_none_were_packed(life: list[Event]) -> None:
    count = KEPT_ENDED + 3 * BLOCK_JOBS
    state = lived(JournalState(), life, range(count))
    assert state.jobs.blocks
    names = [f"job-{number}" for number in range(count)]
    assert list(state.jobs) == [record.job for record in state.jobs.values()] == names
    for job in (names[0], names[BLOCK_JOBS], names[-1]):
        assert state.jobs[job] == plainly(state, life, job)
        assert job in state.jobs
        assert state.requests.answers[f"key-{job[4:]}"].job == job


def test_something_that_happens_to_a_packed_job_is_told_of_it(life: list[Event]) -> None:
    count = KEPT_ENDED + BLOCK_JOBS
    state = lived(JournalState(), life, range(count))
    assert "job-0" not in state.jobs.at_hand
    event = CancellationAsked(job="job-0", at_hours=state.now_hours, actor="user")
    state.apply(Record(state.seq + 1, now_utc(), event))
    assert state.jobs["job-0"].requests.cancelled
    assert [record.requests.cancelled for record in state.jobs.values()] == [True, *[False] * (count - 1)]
    again = lived(state, life, range(count, 3 * count)).jobs
    assert "job-0" not in again.at_hand
    assert again["job-0"].requests.cancelled


def test_a_snapshot_keeps_packed_jobs_packed(life: list[Event]) -> None:
    store, count = MemoryStore(), KEPT_ENDED + 2 * BLOCK_JOBS
    state = lived(JournalState(), life, range(count))
    store.append(
        [event for _ in range(count) for event in life]
    )  # as many, so that the snapshot is not ahead
    keep(store, state)
    again = known(store)
    assert again == state
    assert again.jobs.blocks == state.jobs.blocks
    assert again.ended == state.ended


def test_sums_of_ended_jobs_are_those_of_all_of_them(life: list[Event]) -> None:
    state = lived(JournalState(), life, range(KEPT_ENDED + 2 * BLOCK_JOBS))
    assert state.ended.states == {"succeeded": len(state.jobs)}
    bills = [record.money.bill for record in state.jobs.values()]
    (spent,) = state.ended.pools.values()
    assert spent.spot_usd == pytest.approx(sum(bill.spot_usd for bill in bills))
    assert spent.on_demand_gpu_hours == pytest.approx(sum(bill.on_demand_gpu_hours for bill in bills))


def test_a_job_that_has_ended_takes_some_hundred_bytes(life: list[Event]) -> None:
    before = KEPT_ENDED + 2 * BLOCK_JOBS
    state = lived(JournalState(), life, range(before))
    small, more = size(state), 8 * BLOCK_JOBS
    large = size(lived(state, life, range(before, before + more)))
    assert (large - small) / more < MOST_BYTES


def size(root: object) -> int:
    """Return the bytes of all that is reached from an object, but for types and modules."""
    seen, todo, total = set[int](), [root], 0
    while todo:
        one = todo.pop()
        if id(one) not in seen and not isinstance(one, type):
            seen.add(id(one))
            total += sys.getsizeof(one)
            todo += children(one)
    return total


def children(one: object) -> Iterator[object]:
    """Yield what an object holds."""
    yield from (each for each in gc.get_referents(one) if not callable(each))
