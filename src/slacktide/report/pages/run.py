"""A live run as one HTML page: its bill, its pictures, its decisions, and all that happened."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slacktide.events import Decided, Event, Submitted
from slacktide.files import write_whole
from slacktide.report import words
from slacktide.report.bills import job as bills
from slacktide.report.figures.scene import scene, whereabouts
from slacktide.report.pages import markup, sections
from slacktide.report.sentences.events import sentence
from slacktide.report.tables.grid import Column, Grid
from slacktide.units import format_usd

if TYPE_CHECKING:
    from slacktide.results.bill import Bill
    from slacktide.results.run import RunResult

HAPPENED = (Column("when", right=False), Column("who", right=False), Column("why", right=False, breaks=True))


def write_page(
    runs: Sequence[RunResult], bill: Bill, events: Sequence[Event], path: str | os.PathLike[str]
) -> None:
    """Write a run as a self-contained page; raises InputError when the path cannot be written.

    `runs` are the run itself and those that stand beside it, `events` what its journal says of it.
    """
    write_whole(path, page(runs, bill, events).encode())


def page(runs: Sequence[RunResult], bill: Bill, events: Sequence[Event]) -> str:
    """Return the whole page."""
    parts = [
        _head(runs, bill),
        _bill(bill),
        markup.section("The whole run", *sections.pictures(runs)),
        sections.every_decision(runs),
        _events(events, bill),
        "<footer>Made by Slacktide. Times are the market's, UTC or since the start; money is USD.</footer>",
    ]
    return markup.document(f"Run of {runs[0].name}", parts)


def _head(runs: Sequence[RunResult], bill: Bill) -> str:
    run, start = runs[0], words.long_time(scene(runs).start)
    compared = ". ".join(f"{name.capitalize()}: {said}" for name, said in bills.beside(bill))
    where = f"Run by {run.policy} in {whereabouts(run)}, on the market of {start}."
    return sections.header("Run", run.name, run.job, where, [f"{bills.outcome(bill)}.", f"{compared}."])


def _bill(bill: Bill) -> str:
    facts = [f"{name}: {said}" for name, said in (*bills.happenings(bill), *bills.beside(bill))]
    return markup.section("The bill", markup.table(bills.paid(bill)), markup.bullets(facts))


def _events(events: Sequence[Event], bill: Bill) -> str:
    began = next(event.at_hours for event in events if isinstance(event, Submitted))
    kept = [event for event in events if not isinstance(event, Decided)]
    rows = tuple((words.since(event.at_hours - began), event.actor, sentence(event)) for event in kept)
    paid = format_usd(bill.cost_usd)
    note = f"what the market, the workers and users did, and every payment; {paid} together"
    table = markup.table(Grid(HAPPENED, rows), kind="lines")
    return markup.section("What happened", markup.folded(words.count(len(kept), "event"), note, table))
