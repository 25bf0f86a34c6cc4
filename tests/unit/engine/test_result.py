"""What a journal tells of a run, journals of before included, adds up to its bill and can be shown."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from slacktide.engine.bills.bill import bill
from slacktide.engine.bills.result import run_result, yardsticks
from slacktide.engine.job.job_context import lane_of
from slacktide.journal.events import Decided, Lived, Preempted
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.store.base import Store
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.report.pages.run import page
from slacktide.report.text.tables.decisions import decisions

JOURNALS = Path(__file__).parents[2] / "golden" / "journals"
SINGLE = ("finished", "unfinished", "cancelled", "whole-slots", "whole-slots-unclean")
"""Journals of one job, which has the journal's name."""
RUNS = [*((name, name) for name in SINGLE), *(("stream", name) for name in ("one", "two", "three"))]


@pytest.fixture(params=RUNS, ids="-".join)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, str]]:
    file, job = request.param
    with SqliteStore(shutil.copy(JOURNALS / f"{file}.db", tmp_path)) as store:
        yield store, job


def test_a_run_is_what_its_events_add_up_to(journal: tuple[Store, str]) -> None:
    store, job = journal
    world = JournalState()
    for record in store.read():
        world.apply(record)
    track = world.jobs[job]
    lane = lane_of(track.submitted)
    events = [record.event for record in store.read(job=job)]
    run = run_result(events, lane.job, lane.pool, "policy")
    assert run.bill == track.money.bill
    assert len(run.decisions) == sum(isinstance(event, Decided) for event in events)
    assert len(run.laps) == sum(isinstance(event, Lived) for event in events)
    assert sum(one.lost_gpus for one in run.losses) == sum(
        event.spot_before - event.spot_left for event in events if isinstance(event, Preempted)
    )
    assert (len(run.losses), len(run.restarts)) == (track.holding.preemptions, track.restarts)
    assert run.lost_gpu_hours == pytest.approx(track.progress.lost_gpu_hours)
    assert run.status == (None if track.ended is None else track.ended.status)
    assert run.laps[-1].after_gpu_hours == track.progress.state.progress_gpu_hours
    assert decisions(run).rows
    text = page([run, *yardsticks(lane, lane.job)], bill(track, lane), events)
    assert text.count("<svg") == 4
