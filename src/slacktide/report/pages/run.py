"""A live run as one HTML page: its bill, its pictures, its decisions, and its other events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slacktide.core.units import format_usd
from slacktide.journal.events import Decided, Event, Submitted
from slacktide.report import words
from slacktide.report.figures.drawing.scene import scene, whereabouts
from slacktide.report.pages import rendering
from slacktide.report.text.bills import job as bills
from slacktide.report.text.sentences.events import sentence
from slacktide.report.text.tables.grid import TableOf

if TYPE_CHECKING:
    from slacktide.results.bill import Bill
    from slacktide.results.run import RunResult


def page(runs: Sequence[RunResult], bill: Bill, events: Sequence[Event]) -> str:
    """Return the page of a run and of those that it is compared with; `events` are its journal's."""
    run, start = runs[0], words.long_time(scene(runs).start)
    compared = ". ".join(f"{name.capitalize()}: {said}" for name, said in bills.comparisons(bill))
    began = next(event.at_hours for event in events if isinstance(event, Submitted))
    happened = [event for event in events if not isinstance(event, Decided)]
    table = TableOf(happened)
    table.words("when", lambda event: words.since(event.at_hours - began))
    table.words("who", lambda event: event.actor)
    table.words("why", sentence, breaks=True)
    where = f"Run by {run.policy} in {whereabouts(run)}, on the market of {start}."
    return rendering.render(
        "run.html",
        title=f"Run of {run.name}",
        name=run.name,
        task=f"{words.task(run.job)}.",
        facts=[" · ".join(rendering.job_facts(run.job)), where],
        verdict=[f"{bills.outcome(bill)}.", f"{compared}."],
        bill=bills.paid(bill),
        bill_facts=[f"{name}: {said}" for name, said in (*bills.happenings(bill), *bills.comparisons(bill))],
        pictures=rendering.pictures(runs),
        folds=rendering.every_decision(runs),
        decisions_note=rendering.NOTE,
        events=table.grid(),
        events_counted=words.count(len(happened), "event"),
        events_note="what the market, the workers and users did, and every payment; "
        f"{format_usd(bill.cost_usd)} together",
    )
