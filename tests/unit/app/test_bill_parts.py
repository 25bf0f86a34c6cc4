"""A bill in parts adds up to the bill that is audited."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from slacktide.app.jobs.submission import Submission
from slacktide.app.journal.costs import bill_parts, check_sum, parse_keys
from slacktide.app.journal.journal import Journal
from slacktide.app.journal.listing import RecordedEvent
from slacktide.cli import run
from slacktide.core.errors import BackendError, UnknownNameError
from slacktide.core.quotes import Quote
from slacktide.journal.events import ClockSet, Kept, Record
from slacktide.journal.store.base import MemoryStore
from slacktide.physics.ledger import Priced, Stretch
from slacktide.physics.tariff import Charge

from .parts_of_admission import Desk, write_job

JOURNALS = Path(__file__).parents[2] / "golden" / "journals"


@pytest.fixture
def stream(tmp_path: Path) -> str:
    """A journal of a stream in which jobs of two classes ran."""
    return str(shutil.copy(JOURNALS / "stream.db", tmp_path))


@pytest.mark.parametrize("by", ["owner", "class", "month", "job", "class,month"])
def test_parts_as_csv_add_up_to_the_audited_bill(
    stream: str, by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cost", "--journal", stream, "-o", "json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert run(["cost", "--journal", stream, "--by", by, "-o", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(rows[0])[: len(by.split(","))] == by.split(",")
    assert round(sum(float(row["cost_usd"]) for row in rows), 2) == round(whole["audit"]["cost_usd"], 2)
    assert run(["cost", "--journal", stream, "--by", by, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [str(part["cost_usd"]) for part in told["parts"]] == [row["cost_usd"] for row in rows]
    assert told["total"] == whole["total"]


def test_parts_have_the_names_of_what_they_are(stream: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cost", "--journal", stream, "--by", "class"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["class", "narrow", "wide", "total"]
    assert run(["cost", "--journal", stream, "-o", "csv"]) == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        "job",
        "one",
        "three",
        "two",
    ]


def test_an_unclean_audit_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = str(shutil.copy(JOURNALS / "whole-slots-unclean.db", tmp_path))
    assert run(["cost", "--journal", journal, "--by", "month"]) == 1
    assert "the audit found mistakes" in capsys.readouterr().err


def test_a_job_alone_is_not_divided(stream: str) -> None:
    assert run(["cost", "one", "--journal", stream, "--by", "month"]) == 2
    assert run(["cost", "--journal", stream, "--by", "ownr"]) == 2


def test_owners_are_told_from_job_files(tmp_path: Path) -> None:
    store, path = MemoryStore(), Path(write_job(tmp_path))
    desk = Desk(store, tmp_path)
    text = path.read_text()
    for owner in ("ann", "bob", "ann"):
        path.write_text(f"{text}\nowner: {owner}\n")
        desk.intake.take(Submission.read(str(path)))
    tick = 0
    while desk.engine.state.active:
        desk.engine.step(0.25 * tick)
        tick += 1
    journal = Journal(store)
    parts = bill_parts(journal.events(), ("owner",))
    costs = {one.payer: one.bill.cost_usd for one in journal.cost_of_all().bill.payers}
    assert [one.names for one in parts] == [("ann",), ("bob",)]
    assert parts[1].bill.cost_usd == pytest.approx(costs["job-2"])
    assert parts[0].bill.cost_usd == pytest.approx(costs["job"] + costs["job-3"])
    assert [one.owner for one in journal.jobs()] == ["ann", "bob", "ann"]


def test_a_stretch_counts_in_the_month_in_which_it_began() -> None:
    store = MemoryStore()
    events = [ClockSet(at_hours=0.0, epoch_utc="2026-01-31T22:00:00+00:00", speed=1.0)]
    store.append([*events, kept(1.5, 3.0), kept(2.0, 1.0)])
    told = [RecordedEvent(record, None) for record in store.read()]
    assert [(one.names, one.bill.cost_usd) for one in bill_parts(told, ("month", "owner"))] == [
        (("2026-01", ""), 3.0),
        (("2026-02", ""), 1.0),
    ]


def kept(from_hours: float, usd: float) -> Kept:
    """Return machines that no job used."""
    stretch = Stretch("", "idle", 0, from_hours, from_hours + 1.0, 1.0, "a", 1, 0, Quote(1.0, 4.0, 8))
    return Kept(at_hours=from_hours + 1.0, fleet="f", priced=Priced(stretch, Charge(usd, 0.0, 0.0)))


def test_parts_that_do_not_add_up_are_refused() -> None:
    told = [RecordedEvent(Record(one.seq, one.time_utc, one.event), None) for one in recorded(kept(0.0, 2.0))]
    parts = bill_parts(told, ("job",))
    check_sum(parts, 2.001)
    with pytest.raises(BackendError, match="run the command again"):
        check_sum(parts, 2.01)


def recorded(*events: Kept) -> list[Record]:
    """Return events as they stand in a journal."""
    store = MemoryStore()
    store.append(list(events))
    return list(store.read())


def test_keys_are_known() -> None:
    assert parse_keys("month, owner,month") == ("month", "owner")
    with pytest.raises(UnknownNameError, match="did you mean 'month'"):
        parse_keys("moth")
