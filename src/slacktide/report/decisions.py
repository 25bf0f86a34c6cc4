"""A run told as decisions: slots in which the same was decided and held become one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slacktide.report import words
from slacktide.report.grid import Column, Grid
from slacktide.types import Job, Reason
from slacktide.units import format_usd

if TYPE_CHECKING:
    from slacktide.results.comparison import Comparison
    from slacktide.results.run import Run, SlotRecord

COLUMNS = (
    Column("slot", right=False), Column("UTC", right=False), Column("offered", narrow="of-\nfered"),
    Column("$/GPU-hour", narrow="$/GPU-\nhour"), Column("spot held"), Column("on demand"), Column("done"),
    Column("to line"), Column("cost"), Column("why", right=False, breaks=True),
)  # fmt: skip

SHOWN_SIGNALS = {
    "progress_gpu_hours", "line_gpu_hours", "hours_left", "spot_gpus", "spot_usd_per_gpu_hour"
}  # fmt: skip
"""Signals of a reason that the columns beside it show already."""


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive slots with one decision, one holding and one rule."""

    records: tuple[SlotRecord, ...]

    @property
    def first(self) -> SlotRecord:
        return self.records[0]

    @property
    def last(self) -> SlotRecord:
        return self.records[-1]

    @property
    def cost_usd(self) -> float:
        return sum(record.cost_usd for record in self.records)

    def end_hours(self, slot_hours: float) -> float:
        """Return when the span ends, in hours since the start: with the run, when that ends in it."""
        held = self.last.lived.stretch.held_hours if self.last.after.ended else slot_hours
        return self.last.slot * slot_hours + held


def spans(run: Run) -> list[Span]:
    """Merge consecutive slots of a run in which nothing new was decided and nothing was lost."""
    groups: list[list[SlotRecord]] = []
    for record in run.slots:
        if groups and _goes_on(groups[-1][-1], record):
            groups[-1].append(record)
        else:
            groups.append([record])
    return [Span(tuple(group)) for group in groups]


def decisions(run: Run, comparison: Comparison) -> Grid:
    """Return a run's decisions as a table, one line per span."""
    pool = words.pool_of(comparison, run)
    rows = [
        (
            _slots(span),
            words.short_time(pool.time(run.start_slot + span.first.slot)),
            *_offer(span),
            _of(span.first.spot_gpus, span.first.wanted.spot_gpus),
            _of(span.first.on_demand_gpus, span.first.wanted.on_demand_gpus),
            *_standing(comparison.job, span, pool.slot_hours),
            format_usd(span.cost_usd),
            why(span),
        )
        for span in spans(run)
    ]
    return Grid(COLUMNS, tuple(rows))


def why(span: Span) -> str:
    """Say what the market took just before, and the rule that then decided."""
    lost, reason = span.first, span.first.wanted.reason
    parts = []
    if lost.lost_gpus:
        work = f" and {words.gpu_hours(lost.lost_gpu_hours)} GPU-h of work" if lost.lost_gpu_hours > 0 else ""
        parts.append(f"lost {lost.lost_gpus} spot{work};")
    told = {name: signal for name, signal in reason.signals.items() if name not in SHOWN_SIGNALS}
    parts.append(words.plain(str(Reason(reason.rule, told))))
    if span.last.after.exhausted:
        parts.append("(stopped: the greatest cost was reached)")
    return " ".join(parts)


def _goes_on(one: SlotRecord, other: SlotRecord) -> bool:
    # A loss always begins a new line: what the market took is held no longer.
    return _choice(one) == _choice(other)


def _choice(record: SlotRecord) -> tuple[int, int, int, int, str]:
    wanted = record.wanted
    return (
        wanted.spot_gpus, wanted.on_demand_gpus, record.spot_gpus, record.on_demand_gpus, wanted.reason.rule
    )  # fmt: skip


def _slots(span: Span) -> str:
    first, last = span.first.slot, span.last.slot
    return str(first) if first == last else f"{first}–{last}"


def _offer(span: Span) -> tuple[str, str]:
    gpus = [record.quote.spot_gpus for record in span.records]
    usd = [record.quote.spot_usd_per_gpu_hour for record in span.records]
    return _range(f"{min(gpus)}", f"{max(gpus)}"), _range(f"{min(usd):.2f}", f"{max(usd):.2f}")


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low}–{high}"


def _of(held: int, wanted: int) -> str:
    return str(held) if held == wanted else f"{held} of {wanted}"


def _standing(job: Job, span: Span, slot_hours: float) -> tuple[str, str]:
    """Return the share done when the span ends, and how far that is from the straight line."""
    done = span.last.after.progress_gpu_hours
    ahead = done - job.line_gpu_hours(span.end_hours(slot_hours))
    sign = "+" if ahead >= 0.05 else "−" if ahead <= -0.05 else ""
    return words.percent(done / job.work_gpu_hours), f"{sign}{words.gpu_hours(abs(ahead))}"
