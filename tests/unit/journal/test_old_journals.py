"""Events of earlier forms are read as today's, wherever reading begins, and together with those of today."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from slacktide.core.errors import FileError, InputError
from slacktide.journal.codec.codec import text
from slacktide.journal.codec.old_journals import JSON_TEXTS
from slacktide.journal.events import Decided, Ended, Event, Lived, Preempted, Submitted
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.base import MemoryStore
from slacktide.journal.store.sqlite import SqliteStore
from tests import build

JOURNALS = Path(__file__).parents[2] / "golden" / "journals"
NAMES = sorted(path.stem for path in JOURNALS.glob("*.db"))


@pytest.fixture(params=NAMES)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of an older journal."""
    return Path(shutil.copy(JOURNALS / f"{request.param}.db", tmp_path))


def told(journal: Path) -> Iterator[tuple[dict[str, object], Event]]:
    """Yield every event as it is written and as it is read."""
    database = sqlite3.connect(journal)
    written = [json.loads(row[0]) for row in database.execute("SELECT data FROM events ORDER BY seq")]
    database.close()
    with SqliteStore(journal) as store:
        yield from zip(written, (record.event for record in store.read()), strict=True)


def test_hours_and_slots_are_the_markets_and_money_is_as_it_was_paid(journal: Path) -> None:
    began, quote = dict[str, Submitted](), dict[str, object]()
    for written, event in told(journal):
        first = began.get(event.job)
        match event:
            case Submitted():
                began[event.job] = event
            case Decided():
                assert first is not None
                assert event.slot == written["slot"] + first.start_slot  # type: ignore[operator]
                assert event.pool == first.pool
                quote[event.job] = event.quote
            case Preempted():
                assert first is not None
                assert event.slot == written["slot"] + first.start_slot  # type: ignore[operator]
            case Lived():
                stretch, charge = event.priced
                assert charge.spot_usd == pytest.approx(written["spot_usd"], abs=1e-12)
                assert charge.on_demand_usd == written["on_demand_usd"]
                assert stretch.to_hours == event.at_hours
                assert stretch.quote == quote[event.job]
            case Ended():
                assert event.finish_hours == float(str(written["finish_hours"]))


def test_reading_may_begin_anywhere(journal: Path) -> None:
    with SqliteStore(journal) as store:
        records = list(store.read())
        for number in range(len(records)):
            assert list(store.read(after=number)) == records[number:]
        for job in {record.event.job for record in records}:
            assert list(store.read(job=job)) == [one for one in records if one.event.job == job]


def test_a_journal_of_before_goes_on_in_the_present_form(journal: Path) -> None:
    with SqliteStore(journal) as store:
        records = list(store.read())
        more = store.append([record.event for record in records])
        assert [record.event for record in store.read()] == [record.event for record in (*records, *more)]


def insert(path: Path, tree: dict[str, object]) -> None:
    """Write an event into a journal as another version might have."""
    row = ("2026-01-01T00:00:00.000000Z", "one", tree["kind"], "engine", 1.0, "", json.dumps(tree))
    columns = "time_utc, job, kind, actor, at_hours, why, data"
    with sqlite3.connect(path) as database:
        database.execute(f"INSERT INTO events ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    database.close()


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"kind": "Lived", "job": "one", "at_hours": 1.0, "slot": 2}, r"event 1: Lived: .* must be"),
        ({"kind": "Closed", "form": 4, "at_hours": 1.0}, "newer Slacktide"),
        (
            {"kind": "Remembered", "form": 2, "at_hours": 1.0, "fleet": "f", "memory": '{"a'},
            "memory must be readable",
        ),
        (
            {"kind": "Remembered", "form": 2, "at_hours": 1.0, "fleet": "f", "memory": {}},
            "memory must be text",
        ),
    ],
    ids=[
        "damaged",
        "of a later form",
        "of form 2, its JSON damaged",
        "of form 2, an object in place of its text",
    ],
)
def test_what_cannot_be_read_is_refused_in_plain_words(
    tmp_path: Path, tree: dict[str, object], words: str
) -> None:
    with SqliteStore(tmp_path / "journal.db") as store:
        insert(store.path, tree)
        with pytest.raises(FileError, match=words):
            list(store.read())


@pytest.mark.parametrize("name", ["fleet", "with-parameters"])
def test_form_2_kept_json_as_text_and_means_the_same(tmp_path: Path, name: str) -> None:
    """The code before form 3 wrote these journals: a fleet that remembers, a policy with parameters."""
    path = Path(shutil.copy(JOURNALS / "form-2" / f"{name}.db", tmp_path))
    read = list(told(path))
    for written, event in read:
        assert written["form"] == 2
        for field in JSON_TEXTS.get(str(written["kind"]), ()):
            assert getattr(event, field) == written[field], "in memory the text is the same as before"
        texts = {field: str(written[field]) for field in JSON_TEXTS.get(str(written["kind"]), ())}
        meant = {field: json.loads(each) if each else None for field, each in texts.items()}
        del written["crc"]
        assert json.loads(text(event)) == {**written, **meant, "form": 3}
    kinds = {str(written["kind"]) for written, _ in read}
    assert {"Submitted", "SiteOpened", "Remembered" if name == "fleet" else "SubmissionAsked"} <= kinds


@pytest.mark.parametrize("name", ["fleet", "with-parameters"])
def test_a_journal_of_form_2_goes_on_in_the_present_form(tmp_path: Path, name: str) -> None:
    with SqliteStore(shutil.copy(JOURNALS / "form-2" / f"{name}.db", tmp_path)) as store:
        fleets = list(read_state(store).fleets)
        records = list(store.read())
        more = store.append([record.event for record in records])
        assert [record.event for record in store.read()] == [record.event for record in (*records, *more)]
    with MemoryStore() as fresh:
        fresh.append([record.event for record in records])
        assert list(read_state(fresh).fleets) == fleets, "fleets have the same keys"


def test_policies_and_markets_are_values_in_a_journal_not_text(tmp_path: Path) -> None:
    event = build.submitted(
        "one", policy=json.dumps({"ahap": {"window": 3}}), market=json.dumps({"spec": "prices.csv"})
    )
    with SqliteStore(tmp_path / "journal.db") as store:
        store.append([event])
        ((written, read),) = told(store.path)
    assert read == event
    assert (written["policy"], written["market"]) == ({"ahap": {"window": 3}}, {"spec": "prices.csv"})


def test_json_that_is_spelled_otherwise_is_kept_as_json_writes_it() -> None:
    store = MemoryStore()
    (record,) = store.append([build.submitted("one", policy='{"ahap":{"window":3}}')])
    assert isinstance(record.event, Submitted)
    assert record.event.policy == '{"ahap": {"window": 3}}'
    with pytest.raises(InputError, match="policy must be JSON"):
        store.append([build.submitted("one", policy="ahap")])
