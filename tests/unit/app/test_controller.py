"""A controller opens a journal without reading it twice, and leaves a snapshot for the next."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from slacktide import cli
from slacktide.app.controller import Controller, Setup
from slacktide.engine.snapshots import read_world
from slacktide.events import Ended, Event, Record, Submitted
from slacktide.store.sqlite import SqliteStore

FINISHED = Path(__file__).parents[2] / "golden" / "journals" / "finished.db"


def dry(folder: Path) -> Setup:
    """A controller that starts nothing, and learns apart from the user."""
    return Setup(backend="replay", learned=folder / "learn.json")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of all events that are read from now on."""
    seen: list[int] = []
    original = SqliteStore.read

    def counting(self: SqliteStore, after: int = 0, job: str | None = None) -> Iterator[Record]:
        for record in original(self, after, job):
            seen.append(record.seq)
            yield record

    monkeypatch.setattr(SqliteStore, "read", counting)
    return seen


def test_a_controller_reads_every_event_once_and_later_ones_only_the_rest(
    tmp_path: Path, read: list[int]
) -> None:
    journal = Path(shutil.copy(FINISHED, tmp_path))
    with Controller(journal, dry(tmp_path)) as controller:
        assert controller.engine.world.seq == len(read) == len(set(read))
        assert len(read) > 20
    with SqliteStore(journal) as store:
        last = store.last_seq()
    read.clear()
    with Controller(journal, dry(tmp_path)) as controller:
        assert read == [last + 1, last + 2]  # its own: the clock was set, the journal opened
        assert "finished" in controller.world.jobs


def test_who_asks_begins_with_the_snapshot_too(tmp_path: Path, read: list[int]) -> None:
    journal = Path(shutil.copy(FINISHED, tmp_path))
    with Controller(journal, dry(tmp_path)):
        pass
    read.clear()
    with SqliteStore(journal) as store:
        assert read_world(store).jobs["finished"].status == "succeeded"
    assert read == []


def test_a_list_of_jobs_reads_no_job_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = tmp_path / "journal.db"
    with SqliteStore(journal) as store:
        store.append([event for number in range(3) for event in _finished(f"job-{number}")])
    assert cli.run(["jobs", "--journal", str(journal), "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)["jobs"]
    assert [(one["name"], one["work_gpu_hours"], one["deadline_hours"]) for one in listed] == [
        ("job-0", 8.0, 6.0), ("job-1", 8.0, 6.0), ("job-2", 8.0, 6.0)
    ]  # fmt: skip


def _finished(job: str) -> list[Event]:
    return [
        Submitted(
            job=job,
            at_hours=0.0,
            text="whatever is here is not read",
            submitted_utc="2026-01-01T00:00:00+00:00",
            path="job.yaml",
            policy='"on-demand"',
            slot_hours=0.5,
            start_slot=0,
            work_gpu_hours=8.0,
            deadline_hours=6.0,
        ),
        Ended(job=job, at_hours=2.0, status="succeeded", finish_hours=2.0),
    ]
