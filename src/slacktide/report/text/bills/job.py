"""The bill of a job as text, table and JSON, compared with on demand alone and with the clairvoyant."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, get_args

from slacktide.core.units import format_usd
from slacktide.journal.events import Status
from slacktide.report import words
from slacktide.report.text.sentences.events import ending
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Column, Grid
from slacktide.report.wire.values import document, picked

if TYPE_CHECKING:
    from slacktide.physics.ledger import Audit
    from slacktide.results.bill import Bill

ESTIMATED = "estimated from time and width, and so is the work lost: the job reported no progress"
OUTRAN = "not done after the work that its file says"
MOST_STATIONS = 6  # how many of the pools a job was in are named


def text(bill: Bill) -> str:
    """Return the bill as plain text: the outcome, what was paid, what happened, and the comparison."""
    facts = [f"{name:<17}{said}" for name, said in (*happenings(bill), *comparisons(bill))]
    lines = [*grid.as_text(paid(bill)).splitlines(), "", *facts]
    return "\n".join([outcome(bill), "", *(f"  {line}".rstrip() for line in lines)])


def outcome(bill: Bill) -> str:
    """Say in one sentence how the job ended, when, and for how much."""
    ended = bill.status in get_args(Status)
    status = ending(bill.status, bill.finish_hours) if ended else f"has not ended ({bill.status})"
    return f"{words.plain(bill.job, 60)} {status}: {format_usd(bill.cost_usd)}, {finish(bill)}"


def finish(bill: Bill) -> str:
    """Say when the work was done, and how long before or after the deadline that was."""
    timed = math.isfinite(bill.deadline_hours)
    within = words.duration(bill.deadline_hours) if timed else ""
    if not math.isfinite(bill.finish_hours):
        share = bill.done_gpu_hours / bill.work_gpu_hours
        shown = words.percent(share if share >= 1 else min(share, 0.99))  # 100 % only when it was done
        done = OUTRAN if outran_its_file(bill) else f"{shown} of the work done"
        return done + (f", deadline {within}" if timed else "")
    if not timed:
        return f"done after {words.since(bill.finish_hours)}"
    apart = bill.deadline_hours - bill.finish_hours
    side = f"{words.since(apart)} before" if bill.on_time else f"{words.since(-apart)} after"
    return f"done after {words.since(bill.finish_hours)}, {side} the deadline of {within}"


def outran_its_file(bill: Bill) -> bool:
    """Whether a job without progress reports ran longer than its file's work: what is left is unknown."""
    unfinished = not math.isfinite(bill.finish_hours)
    return unfinished and bill.progress_estimated and bill.done_gpu_hours >= bill.work_gpu_hours


def paid(bill: Bill) -> Grid:
    """Return what was paid for each kind of GPU, for moves, and in all."""
    hours = bill.spot_gpu_hours + bill.on_demand_gpu_hours
    rows = (
        ("spot", f"{bill.spot_gpu_hours:,.2f}", cents(bill.spot_usd)),
        ("on demand", f"{bill.on_demand_gpu_hours:,.2f}", cents(bill.on_demand_usd)),
        *([("moves", "", cents(bill.move_usd))] if bill.pools else ()),
        ("total", f"{hours:,.2f}", cents(bill.cost_usd)),
    )
    columns = Column("", right=False), Column("GPU-hours"), Column("USD")
    return Grid(columns, rows, strong=len(rows) - 1)


def happenings(bill: Bill) -> list[tuple[str, str]]:
    """Return what happened to the job, as pairs of label and text."""
    lost = f"{words.work(bill.lost_gpu_hours)} of work lost" if bill.lost_gpu_hours > 0 else "no work lost"
    failures = f", {words.count(bill.failures, 'failure')} of its own" if bill.failures else ""
    names = [words.plain(name, 40) for name in bill.pools]
    shown = names if len(names) <= MOST_STATIONS else [*names[:MOST_STATIONS], "..."]
    return [
        ("preempted", f"{words.count(bill.preemptions, 'time')}, {lost}"),
        ("restarted", f"{words.count(bill.restarts, 'time')}{failures}"),
        *([("moved", f"{words.count(bill.moves, 'time')}: {', then '.join(shown)}")] if bill.pools else ()),
        ("work done", _work(bill)),
        *([("progress", ESTIMATED)] if bill.progress_estimated else ()),
    ]


def _work(bill: Bill) -> str:
    """Write the work done, as it was measured, and what the file says where that differs."""
    said, measured = bill.work_gpu_hours, bill.measured_work_gpu_hours
    if outran_its_file(bill):
        return f"unknown: its file says {words.work(said)}, and it was not done after them"
    if measured is None or words.work(measured) == words.work(said):
        return f"{bill.done_gpu_hours:,.1f} of {words.work(said)}"
    done = bill.done_gpu_hours * measured / said
    return f"{done:,.1f} of {words.work(measured)} as measured; its file says {words.work(said)}"


def comparisons(bill: Bill) -> list[tuple[str, str]]:
    """Return what on demand alone and the clairvoyant would have paid, as pairs of label and text."""
    why = "the market cannot be read" if bill.market_gone else "the market data ends before that"
    unknown = f"unknown: {why}"
    alone, best = bill.on_demand_alone_usd, bill.clairvoyant_usd
    return [
        ("on demand alone", unknown if alone is None else f"{format_usd(alone)}{_saved(bill, alone)}"),
        ("clairvoyant", unknown if best is None else f"{format_usd(best)}{_times(bill, best)}"),
    ]


def as_json(bill: Bill) -> dict[str, Any]:
    """Return the bill under its documented keys; null for work not done and for no deadline."""
    fields = document(bill)
    del fields["market_gone"]  # two nulls say so, and a note on stderr says why
    if not bill.pools:
        for name in ("pools", "moves", "move_usd"):
            del fields[name]
    if bill.clairvoyant_spare_usd is None:  # the usual case: the plan is the best
        del fields["clairvoyant_spare_usd"]
    alone, best = bill.on_demand_alone_usd, bill.clairvoyant_usd
    done = math.isfinite(bill.finish_hours)
    fields["saved_share"] = 1 - bill.cost_usd / alone if done and alone else None
    fields["cost_over_clairvoyant"] = bill.cost_usd / best if done and best else None
    return fields


def agrees(audit: Audit, cost_usd: float) -> bool:
    """Whether an audit found nothing wrong and comes to the same cost as the bill."""
    return audit.clean and cents(audit.cost_usd) == cents(cost_usd)


def audit_text(audit: Audit, cost_usd: float) -> str:
    """Say what the audit, which prices every stretch again, found wrong with the bill."""
    if agrees(audit, cost_usd):
        return f"audit: every stretch priced again comes to {format_usd(audit.cost_usd)}; no gap, no overlap"
    found = [*audit.gaps, *audit.wrong, *audit.oversold]
    if cents(audit.cost_usd) != cents(cost_usd):
        found.insert(
            0, f"priced again it is {format_usd(audit.cost_usd)}, the bill says {format_usd(cost_usd)}"
        )
    return "\n".join(["audit: the bill is not right", *(f"  - {words.plain(each)}" for each in found)])


def audit_json(audit: Audit) -> dict[str, Any]:
    """Return an audit under its documented keys."""
    return document(picked(audit, "clean", "cost_usd", "gaps", "wrong"))


def cents(usd: float) -> str:
    """Write money to the cent, however much it is."""
    return f"{usd:,.2f}"


def _saved(bill: Bill, alone_usd: float) -> str:
    """Compare with on demand alone; empty for a job that is not done, which cannot be compared."""
    if alone_usd <= 0 or not math.isfinite(bill.finish_hours):
        return ""
    apart = bill.cost_usd - alone_usd
    word = "saved" if apart <= 0 else "more was paid"
    return f"; {format_usd(abs(apart))} ({words.percent(abs(apart) / alone_usd)}) {word}"


def _times(bill: Bill, best_usd: float) -> str:
    if best_usd <= 0 or not math.isfinite(bill.finish_hours):
        return ""
    spare = bill.clairvoyant_spare_usd
    # No policy beats the clairvoyant on the same job, so a job that did was not quite what its file says.
    beaten = bill.cost_usd < best_usd - (spare or 0.0)
    faster = "; it ran or restarted faster than was measured" if beaten else ""
    close = f"; {words.spare(spare, best_usd)}" if spare is not None else ""
    return f", knowing the future; the bill is {words.ratio(bill.cost_usd / best_usd)} that{faster}{close}"
