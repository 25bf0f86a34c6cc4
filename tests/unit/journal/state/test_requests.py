"""Requests wait until their answer stands in the journal, and of each key there is one answer."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from slacktide.checks.history import HISTORY
from slacktide.journal.events import Event, SubmissionAsked, SubmissionRefused, Submitted
from slacktide.journal.state.journal_state import RequestAnswer
from slacktide.journal.state.snapshots import keep, known, read_state
from slacktide.journal.store.base import MemoryStore

SUBMITTED = next(event for event in HISTORY if isinstance(event, Submitted))


def asked(key: str, text: str = "name: a") -> SubmissionAsked:
    return SubmissionAsked(at_hours=0.0, actor="user", key=key, text=text, path="/a.yaml")


def refused(key: str) -> SubmissionRefused:
    return SubmissionRefused(at_hours=1.0, key=key, exit_code=3, why="too late")


def taken(key: str, job: str) -> Submitted:
    return dataclasses.replace(SUBMITTED, key=key, job=job)


def told(*events: Event) -> MemoryStore:
    store = MemoryStore()
    store.append(events)
    return store


def test_a_request_waits_until_it_is_answered() -> None:
    store = told(asked("a"), asked("b"), asked("c"))
    assert list(read_state(store).requests.waiting) == ["a", "b", "c"]
    store.append([refused("b"), taken("a", "job")])
    requests = read_state(store).requests
    assert list(requests.waiting) == ["c"]
    assert requests.answers == {
        "a": RequestAnswer(job="job"),
        "b": RequestAnswer(why="too late", exit_code=3),
    }


def test_a_key_that_is_known_asks_for_nothing_new() -> None:
    twice = read_state(told(asked("a", "name: first"), asked("a", "name: second"))).requests
    assert twice.waiting["a"].text == "name: first"
    again = read_state(told(asked("a"), taken("a", "job"), asked("a"))).requests
    assert again.waiting == {}


def test_what_the_controllers_own_process_hands_in_is_no_answer() -> None:
    assert read_state(told(taken("", "job"))).requests.answers == {}


@given(st.integers(0, 5))
def test_a_snapshot_tells_the_same_requests(cut: int) -> None:
    events = [asked("a"), asked("b"), refused("b"), taken("a", "job"), asked("c")]
    store = told(*events[:cut])
    keep(store, read_state(store))
    store.append(events[cut:])
    assert known(store).seq == cut
    assert read_state(store) == read_state(told(*events))
