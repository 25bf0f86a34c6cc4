"""The decisions of a run as a table: those that decided and held the same become one line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from slacktide.core.types import Reason
from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.text.tables.grid import Column, Grid

if TYPE_CHECKING:
    from slacktide.results.run import Decision, RunResult

COLUMNS = (
    Column("slot", right=False), Column("UTC", right=False), Column("offered", narrow="of-\nfered"),
    Column("$/GPU-hour", narrow="$/GPU-\nhour"), Column("spot held"), Column("on demand"), Column("done"),
    Column("vs line"), Column("cost"), Column("why", right=False, breaks=True),
)  # fmt: skip

SHOWN_SIGNALS = {
    "progress_gpu_hours", "line_gpu_hours", "hours_left", "spot_gpus", "spot_usd_per_gpu_hour"
}  # fmt: skip
"""Signals of a reason that other columns show already."""
STOPPED = " (stopped: it reached its maximum cost)"


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive decisions of one holding by one rule."""

    decisions: tuple[Decision, ...]

    @property
    def first(self) -> Decision:
        return self.decisions[0]

    @property
    def cost_usd(self) -> float:
        return sum(decision.cost_usd for decision in self.decisions)

    def end(self) -> tuple[float, float]:
        """Return when the span ends, and the work done by then."""
        last = self.decisions[-1]
        if not last.laps:
            return last.hours, last.done_gpu_hours
        return last.laps[-1].priced.stretch.to_hours, last.laps[-1].after_gpu_hours


def spans(run: RunResult) -> list[Span]:
    """Merge consecutive decisions of a run in which nothing new was decided and nothing was lost."""
    groups: list[list[Decision]] = []
    for decision in run.decisions:
        if groups and not decision.lost_gpus and _choice(groups[-1][-1]) == _choice(decision):
            groups[-1].append(decision)
        else:
            groups.append([decision])
    return [Span(tuple(group)) for group in groups]


def decisions(run: RunResult) -> Grid:
    """Return a run's decisions as a table, one line per span; with the pool, of a job that may move."""
    found = spans(run)
    rows = [_row(run, span, last=span is found[-1]) for span in found]
    if not run.pools:
        return Grid(COLUMNS, tuple(rows))
    placed = tuple(
        (*row[:2], words.plain(_pool(span.first), 40), *row[2:])
        for row, span in zip(rows, found, strict=True)
    )
    return Grid((*COLUMNS[:2], Column("pool", right=False), *COLUMNS[2:]), placed)


def _pool(decision: Decision) -> str:
    """Return where the job was after a decision; nothing where it was let go."""
    return decision.laps[0].priced.stretch.pool if decision.laps else ""


def _row(run: RunResult, span: Span, *, last: bool) -> tuple[str, ...]:
    first = span.first
    hours, done = span.end()
    return (
        _range(str(first.slot), str(span.decisions[-1].slot)),
        words.short_time(_time(run, first)),
        *_offer(span),
        _of(first.spot_gpus, first.wanted_spot_gpus),
        _of(first.on_demand_gpus, first.wanted_on_demand_gpus),
        words.percent(done / run.job.work_gpu_hours),
        words.NOTHING if words.open_ended(run.job) else words.ahead(done - run.job.line_gpu_hours(hours)),
        format_usd(span.cost_usd),
        why(first) + (STOPPED if last and not first.ending and run.status == "budget_exhausted" else ""),
    )


def why(decision: Decision) -> str:
    """Say what was taken just before, and the rule that then decided."""
    reason, parts = decision.reason, []
    if decision.lost_gpus:
        lost = decision.lost_gpu_hours
        work = f" and {words.gpu_hours(lost)} GPU-h of work" if lost > 0 else ""
        parts.append(f"lost {decision.lost_gpus} spot{work};")
    if decision.ending is not None:
        parts.append("stops all workers:")
    signals = {name: signal for name, signal in reason.signals.items() if name not in SHOWN_SIGNALS}
    parts.append(words.plain(str(Reason(reason.rule, signals))))
    return " ".join(parts)


def _time(run: RunResult, decision: Decision) -> datetime:
    """Return the market's time of a decision: when its slot begins, or a moment inside the slot."""
    begins = run.pool.time(run.start_slot + decision.slot)
    inside = decision.hours - run.origin_hours - decision.slot * run.pool.slot_hours
    return begins + timedelta(seconds=round(max(0.0, inside) * 3600))


def _choice(one: Decision) -> tuple[int, int, int, int, str, str]:
    wanted = one.wanted_spot_gpus, one.wanted_on_demand_gpus
    return (*wanted, one.spot_gpus, one.on_demand_gpus, one.reason.rule, _pool(one))


def _offer(span: Span) -> tuple[str, str]:
    gpus = [decision.quote.spot_gpus for decision in span.decisions]
    usd = [decision.quote.spot_usd_per_gpu_hour for decision in span.decisions]
    return _range(f"{min(gpus)}", f"{max(gpus)}"), _range(f"{min(usd):.2f}", f"{max(usd):.2f}")


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low}–{high}"


def _of(held: int, wanted: int) -> str:
    return str(held) if held == wanted else f"{held} of {wanted}"
