"""Events of the first form are read as today's, wherever reading begins, and beside those of today."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from slacktide.core.errors import FileError
from slacktide.journal.events import Decided, Ended, Event, Lived, Preempted, Submitted
from slacktide.journal.store.sqlite import SqliteStore

JOURNALS = Path(__file__).parents[2] / "golden" / "journals"
NAMES = sorted(path.stem for path in JOURNALS.glob("*.db"))


@pytest.fixture(params=NAMES)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a journal of before."""
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
        ({"kind": "Closed", "form": 3, "at_hours": 1.0}, "newer Slacktide"),
    ],
    ids=["damaged", "of a later form"],
)
def test_what_cannot_be_read_is_refused_in_plain_words(
    tmp_path: Path, tree: dict[str, object], words: str
) -> None:
    with SqliteStore(tmp_path / "journal.db") as store:
        insert(store.path, tree)
        with pytest.raises(FileError, match=words):
            list(store.read())
