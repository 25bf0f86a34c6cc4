"""What a journal tells of a run, older journals included, adds up to its bill and can be shown."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from slacktide.engine.bills.bill import bill, run_result, yardsticks
from slacktide.engine.job.job_context import context_of
from slacktide.journal.events import Decided, Lived, Preempted
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.store.base import Store
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.report.pages.run import page
from slacktide.report.text.tables.backtest import decisions

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
    state = JournalState()
    for record in store.read():
        state.apply(record)
    job_record = state.jobs[job]
    context = context_of(job_record.submitted)
    events = [record.event for record in store.read(job=job)]
    run = run_result(events, context.job, context.pool, "policy")
    assert run.bill == job_record.money.bill
    assert len(run.decisions) == sum(isinstance(event, Decided) for event in events)
    assert len(run.laps) == sum(isinstance(event, Lived) for event in events)
    assert sum(one.lost_gpus for one in run.losses) == sum(
        event.spot_before - event.spot_left for event in events if isinstance(event, Preempted)
    )
    assert (len(run.losses), len(run.restarts)) == (job_record.holding.preemptions, job_record.restarts)
    assert run.lost_gpu_hours == pytest.approx(job_record.progress.lost_gpu_hours)
    assert run.status == (None if job_record.ended is None else job_record.ended.status)
    assert run.laps[-1].after_gpu_hours == job_record.progress.state.progress_gpu_hours
    assert decisions(run).rows
    text = page([run, *yardsticks(context, context.job)], bill(job_record, context), events)
    assert text.count("<svg") == 4
