"""Events as data have every field under its documented key, and only what JSON can say."""

from __future__ import annotations

import dataclasses
import json

import pytest

from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.journal.events import Decided, Event, Lived, Opened, Record
from slacktide.report.wire.events import as_json
from slacktide.report.wire.values import plain

from ..runs import BEGAN, ONE_OF_EACH, QUOTE, WRITTEN, submitted

PAID = ("slot", "from_hours", "to_hours", "spot_gpus", "on_demand_gpus", "spot_usd", "on_demand_usd")
MAY_MOVE, MOVES = ("pools", "sight"), (
    "wanted_pool", "instead", "missed", "unstocked", "moved_from", "move_usd", "move_hours",
)  # fmt: skip
SHOWN_OTHERWISE: dict[str, tuple[set[str], set[str]]] = {
    "Opened": ({"backend"}, set()),
    "Submitted": (
        {"origin_hours", "work_gpu_hours", "deadline_hours", "key", "fleet_class", *MAY_MOVE},
        set(),
    ),
    "Decided": ({"pool", "until_hours", "lost_gpu_hours", "notice_hours", *MOVES}, {"from_hours"}),
    "Lived": ({"priced"}, {*PAID, "pool", "pause_hours", "productive_hours"}),
    "Kept": ({"priced"}, {*PAID, "use"}),
}
"""Fields that are left out of an event's JSON, and keys that stand for them."""


def test_json_counts_from_the_jobs_own_beginning() -> None:
    for event in ONE_OF_EACH:
        document = as_json(Record(7, WRITTEN, event), submitted())
        if "slot" in document:
            assert document["slot"] == 7 - submitted().start_slot
        if isinstance(event, Lived):
            assert (document["from_hours"], document["to_hours"]) == (3.5, 4.0)


def test_a_back_end_that_is_not_the_usual_one_is_told() -> None:
    opened = Opened(at_hours=0.0, pid=1, host="here", version="0", backend="replay")
    assert as_json(Record(7, WRITTEN, opened))["backend"] == "replay"


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: type(event).__name__)
def test_json_has_every_field_and_only_what_json_can_say(event: Event) -> None:
    document = as_json(Record(7, WRITTEN, event), submitted())
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    hidden, shown = SHOWN_OTHERWISE.get(type(event).__name__, (set(), set()))
    if isinstance(event, Decided) and event.wanted_pool:
        hidden = hidden - {"pool", "notice_hours", *MOVES}
    fields = {field.name for field in dataclasses.fields(event)} - hidden | shown
    assert set(document) == fields | {"seq", "time_utc", "kind", "elapsed_hours", "says"}
    assert document["time_utc"] == "2026-01-01T12:00:00Z"
    assert document["elapsed_hours"] == event.at_hours - BEGAN


def test_a_submission_of_today_says_what_one_of_before_did_not() -> None:
    said = {
        "origin_hours": 2.0,
        "work_gpu_hours": 8.0,
        "deadline_hours": 5.0,
        "key": "k-1",
        "fleet_class": "a",
    }
    today = dataclasses.replace(submitted(), **said)  # type: ignore[arg-type]
    document = as_json(Record(7, WRITTEN, today))
    assert {name: document[name] for name in said} == said
    before = as_json(Record(7, WRITTEN, submitted()))
    assert not before.keys() & said.keys()


def test_json_of_nested_values() -> None:
    document = as_json(Record(7, WRITTEN, next(event for event in ONE_OF_EACH if isinstance(event, Decided))))
    known = QUOTE._asdict()
    assert known.pop("on_demand_gpus") == UNLIMITED_GPUS
    assert document["quote"] == known
    assert plain(QUOTE._replace(on_demand_gpus=3)) == {**known, "on_demand_gpus": 3}
    assert document["state"]["finish_hours"] is None
