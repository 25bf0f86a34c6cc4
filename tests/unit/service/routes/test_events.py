"""PageCache of events are written once, and never more of them kept than there is room for."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from slacktide.app.journal.listing import RecordedEvent
from slacktide.journal.events import Event, Record, SubmissionAsked, Submitted
from slacktide.service.hub import document
from slacktide.service.routes.jobs import PageCache
from tests.unit.service.parts_of_api import House


def test_the_page_that_was_not_asked_for_the_longest_gives_way() -> None:
    pages = PageCache(most_bytes=10)
    assert pages.kept("one", b"1234") == b"1234"
    pages.kept("two", b"1234")
    assert pages.known("one") == b"1234"
    pages.kept("three", b"1234")
    assert pages.known("two") is None
    assert (pages.known("one"), pages.known("three")) == (b"1234", b"1234")
    pages.kept("one", b"12345678")  # in place of what it was
    assert pages.known("three") is None
    pages.kept("huge", b"1234" * 10)
    assert pages.known("huge") is None
    assert pages.known("one") is None


def test_a_full_page_is_told_the_same_again_and_the_last_one_grows(house: House) -> None:
    house.run_a_job()
    first = house.ask("GET", "/api/v1/events?limit=3")
    last = house.ask("GET", "/api/v1/events?limit=1000").json
    house.live(2.0)
    assert house.ask("GET", "/api/v1/events?limit=3").body == first.body
    assert house.ask("GET", "/api/v1/events?limit=3&form=journal").json != first.json
    more = house.ask("GET", "/api/v1/events?limit=1000").json
    assert more["events"][: len(last["events"])] == last["events"]
    assert len(more["events"]) > len(last["events"])
    assert house.ask("GET", "/api/v1/events?limit=3", token=None).status == 401


TOKEN = {"TOKEN": "secret-value"}
WITH_VALUES = (
    SubmissionAsked(at_hours=0.0, key="k", text="", path="job.yaml", envs=TOKEN),
    Submitted(
        at_hours=0.0, job="job", text="", path="job.yaml", envs=TOKEN, submitted_utc="2025-10-04T00:00:00Z",
        policy="", slot_hours=0.5, start_slot=0,
    ),
)  # fmt: skip


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("event", WITH_VALUES, ids=["asked", "submitted"])
def test_values_of_variables_in_older_journals_are_never_sent(
    house: House, event: Event, exact: bool
) -> None:
    entry = RecordedEvent(Record(1, datetime(2025, 10, 4, tzinfo=UTC), event), None)
    sent = json.dumps(document(entry, exact, house.service.reader.paths))
    assert "TOKEN" in sent
    assert "secret-value" not in sent
