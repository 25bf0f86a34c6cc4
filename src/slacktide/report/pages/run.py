"""A live run as one HTML page: its bill, its pictures, its decisions, and all that happened."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slacktide.core.files import write_whole
from slacktide.core.units import format_usd
from slacktide.journal.events import Decided, Event, Submitted
from slacktide.report import words
from slacktide.report.figures.drawing.scene import scene, whereabouts
from slacktide.report.pages import sections
from slacktide.report.pages.rendering import render
from slacktide.report.text.bills import job as bills
from slacktide.report.text.sentences.events import sentence
from slacktide.report.text.tables.grid import Column, Grid

if TYPE_CHECKING:
    from slacktide.results.bill import Bill
    from slacktide.results.run import RunResult

HAPPENED = (Column("when", right=False), Column("who", right=False), Column("why", right=False, breaks=True))


def write_page(
    runs: Sequence[RunResult], bill: Bill, events: Sequence[Event], path: str | os.PathLike[str]
) -> None:
    """Write a run as a self-contained page; raises InputError when the path cannot be written.

    `runs` are the run itself and those that it is compared with, `events` what its journal says of it.
    """
    write_whole(path, page(runs, bill, events).encode())


def page(runs: Sequence[RunResult], bill: Bill, events: Sequence[Event]) -> str:
    """Return the whole page."""
    run, start = runs[0], words.long_time(scene(runs).start)
    compared = ". ".join(f"{name.capitalize()}: {said}" for name, said in bills.comparisons(bill))
    happened = _events(events)
    where = f"Run by {run.policy} in {whereabouts(run)}, on the market of {start}."
    return render(
        "run.html",
        title=f"Run of {run.name}",
        name=run.name,
        task=f"{words.task(run.job)}.",
        facts=[" · ".join(sections.job_facts(run.job)), where],
        verdict=[f"{bills.outcome(bill)}.", f"{compared}."],
        bill=bills.paid(bill),
        bill_facts=[f"{name}: {said}" for name, said in (*bills.happenings(bill), *bills.comparisons(bill))],
        pictures=sections.pictures(runs),
        folds=sections.every_decision(runs),
        decisions_note=sections.NOTE,
        events=happened,
        events_counted=words.count(len(happened.rows), "event"),
        events_note="what the market, the workers and users did, and every payment; "
        f"{format_usd(bill.cost_usd)} together",
    )


def _events(events: Sequence[Event]) -> Grid:
    began = next(event.at_hours for event in events if isinstance(event, Submitted))
    kept = [event for event in events if not isinstance(event, Decided)]
    rows = ((words.since(event.at_hours - began), event.actor, sentence(event)) for event in kept)
    return Grid(HAPPENED, tuple(rows))
