"""A back-test as text: which policy to take and what that rests on, the summary, and one run's decisions.

Decisions that decided and held the same become one line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from slacktide.core.types import Job, Reason
from slacktide.core.units import format_usd
from slacktide.physics.ledger import CENT_USD
from slacktide.report import words
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Column, Grid, left, right
from slacktide.results.run import CLAIRVOYANT, CLAIRVOYANTS, IN_THE_POOL, OVER_POOLS

if TYPE_CHECKING:
    from rich.table import Table

    from slacktide.results.comparison import Comparison, PolicySummary
    from slacktide.results.run import Decision, RunResult

POOL = (Column("pool", right=False, breaks=True),)
MOVES = (Column("moves"), Column("egress"))  # further columns for a job that may move
ROAMS = "moves"  # what stands for the pool of a policy that chooses it
DECISIONS = (
    *left("slot", "UTC"), Column("offered", narrow="of-\nfered"), Column("$/GPU-hour", narrow="$/GPU-\nhour"),
    *right("spot held", "on demand", "done", "vs line", "cost"), Column("why", right=False, breaks=True),
)  # fmt: skip

SHOWN_SIGNALS = {
    "progress_gpu_hours", "line_gpu_hours", "hours_left", "spot_gpus", "spot_usd_per_gpu_hour"
}  # fmt: skip
"""Signals of a reason that other columns show already."""
STOPPED = " (stopped: it reached its maximum cost)"


def summary(comparison: Comparison) -> Grid:
    """Return one line per policy: its bill, next to the clairvoyant's and on demand's, and its lateness."""
    valued = comparison.job.value_usd > 0
    columns: tuple[Column, ...] = (
        Column("policy", right=False, breaks=True), *(POOL if comparison.roams else ()),
        *right("mean cost", "p10–p90"), Column("× clairvoyant", narrow="× clair-\nvoyant"),
        Column("vs on demand", narrow="to on\ndemand"), *right("on time", "mean finish", "spot"),
        Column("preempted", narrow="pre-\nempted"),
    )  # fmt: skip
    if comparison.roams:
        columns += MOVES
    if valued:
        columns += (Column("mean utility"),)
    rows = tuple(_line(comparison, one, valued) for one in comparison.summary)
    return Grid(columns, rows, strong=comparison.summary.index(best(comparison)))


def in_pools(comparison: Comparison) -> Grid:
    """Return what every policy that stays, and the clairvoyant, would have paid in each pool."""
    pools = [pool.name for pool in comparison.pools]
    names = list(dict.fromkeys(one.policy for one in comparison.fixed))
    cost = {(one.policy, one.pool): one for one in comparison.fixed}
    rows = tuple(
        (words.plain(name, 60), *(_paid(cost.get((name, pool))) for pool in pools)) for name in names
    )
    columns = (Column("policy", right=False), *(Column(words.plain(pool, 40)) for pool in pools))
    return Grid(columns, rows)


def _paid(one: PolicySummary | None) -> str:
    if one is None:
        return words.NOTHING
    late = "" if one.on_time_share >= 1 else f" ({words.percent(one.on_time_share)} on time)"
    return f"{format_usd(one.mean_cost_usd)}{late}"


def summary_table(comparison: Comparison) -> Table:
    """Return the summary for a terminal, with the question above it and the verdict below."""
    return grid.as_rich(
        summary(comparison), title=_question(comparison), caption="\n".join(_answer(comparison))
    )


def summary_text(comparison: Comparison) -> str:
    """Return the summary as plain aligned text."""
    return "\n".join(
        [_question(comparison), "", grid.as_text(summary(comparison)), "", *_answer(comparison), ""]
    )


def decisions_table(run: RunResult) -> Table:
    """Return one run, decision by decision, for a terminal."""
    return grid.as_rich(decisions(run), title=_heading(run))


def decisions_text(run: RunResult) -> str:
    """Return one run, decision by decision, as plain aligned text."""
    return "\n".join([_heading(run), "", grid.as_text(decisions(run)), ""])


def _line(comparison: Comparison, one: PolicySummary, valued: bool) -> tuple[str, ...]:
    where = (words.plain(one.pool, 40) or ROAMS,) if comparison.roams else ()
    finish, held = one.mean_finish_hours, one.mean_spot_gpu_hours + one.mean_on_demand_gpu_hours
    line: tuple[str, ...] = (
        words.plain(one.policy, 60),
        *where,
        format_usd(one.mean_cost_usd),
        words.usd_range(one.p10_cost_usd, one.p90_cost_usd),
        words.ratio(one.cost_over_clairvoyant),
        words.signed_percent(words.against_on_demand(comparison, one)),
        words.in_time(comparison, one.policy).replace(" of ", "/"),
        words.duration(finish) if math.isfinite(finish) else "not always",  # a run that never finished
        words.percent(one.mean_spot_gpu_hours / held) if held > 0 else words.NOTHING,
        f"{one.mean_preemptions:.1f}",
    )
    if comparison.roams:
        line += (f"{one.mean_moves:.1f}", format_usd(one.mean_move_usd))
    return (*line, format_usd(one.mean_utility_usd)) if valued else line


def _question(comparison: Comparison) -> str:
    job = comparison.job
    return f"{words.plain(job.name, 60)}: {words.task(job)}; market {words.plain(comparison.market, 80)}"


def _answer(comparison: Comparison) -> list[str]:
    return [verdict(comparison), *caveats(comparison)]


def _heading(run: RunResult) -> str:
    where = words.count(len(run.pools), "pool") if run.pools else f"pool {words.plain(run.pool.name, 60)}"
    place = f"{where}, from {words.long_time(run.pool.time(run.start_slot))}"
    outcome = f"{format_usd(run.bill.cost_usd)}, {words.finish(run.job, run.finish_hours)}"
    stays = f"; {words.stays(run.stays)}" if run.pools else ""
    return f"{words.plain(run.policy, 60)} in {place}: {outcome}{stays}"


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
        return Grid(DECISIONS, tuple(rows))
    placed = tuple(
        (*row[:2], words.plain(_pool(span.first), 40), *row[2:])
        for row, span in zip(rows, found, strict=True)
    )
    return Grid((*DECISIONS[:2], Column("pool", right=False), *DECISIONS[2:]), placed)


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


def by_value(job: Job) -> bool:
    """Whether policies are ranked by what is left of the result's value, not by time and cost."""
    return not job.hard and job.value_usd > 0


def best(comparison: Comparison) -> PolicySummary:
    """Return the policy to take: in time most often, then cheapest; with a soft deadline worth most."""
    able = [one for one in comparison.summary if one.policy not in CLAIRVOYANTS] or comparison.summary
    return max(able, key=_rank(comparison.job))


def _rank(job: Job) -> Callable[[PolicySummary], tuple[float, float]]:
    if by_value(job):
        return lambda one: (one.mean_utility_usd, 0.0)
    return lambda one: (one.on_time_share, -one.mean_cost_usd)


def verdict(comparison: Comparison) -> str:
    """Say which policy did best and what it paid compared with the clairvoyant and on demand."""
    one = best(comparison)
    if one.on_time_share <= 0 and not by_value(comparison.job):
        starts = len(words.runs_of(comparison, one.policy))
        return "No policy was on time" + (f" from any of {starts} starts." if starts > 1 else ".")
    over = " over pools" if comparison.roams else ""
    paid = f"paid {_against_clairvoyant(one)}{over}{_against_on_demand(comparison, one)}"
    worth = f", leaving {format_usd(one.mean_utility_usd)} of value" if by_value(comparison.job) else ""
    where = f" in {words.plain(one.pool)}" if one.pool else ""
    said = f"{words.plain(one.policy)}{where} was {_when(comparison, one.policy)} and {paid}{worth}."
    return " ".join(filter(None, (said, _moving(comparison))))


def _moving(comparison: Comparison) -> str:
    """Say what moving saved or cost against the best that stayed in one pool; nothing where no job moves."""
    able = [one for one in comparison.summary if one.policy not in CLAIRVOYANTS]
    moved, stayed = [one for one in able if not one.pool], [one for one in able if one.pool]
    if not comparison.roams or not moved or not stayed:
        return ""
    rank = _rank(comparison.job)
    first, other = max(moved, key=rank), max(stayed, key=rank)
    best = f"{words.plain(other.policy)} in {words.plain(other.pool)}, the best that stayed in one pool"
    less = other.mean_cost_usd - first.mean_cost_usd
    share = f" ({words.percent(abs(less) / other.mean_cost_usd)})" if other.mean_cost_usd > 0 else ""
    paid = f"{format_usd(abs(less))}{share} {'less' if less >= 0 else 'more'} than"
    paid = "as much as" if abs(less) < CENT_USD else paid
    return f"{words.plain(first.policy)} moved {first.mean_moves:.1f} times a run and paid {paid} {best}."


def caveats(comparison: Comparison) -> list[str]:
    """Say what the verdict alone would hide: a wrong file, lateness, who paid less but was late, no money."""
    one = best(comparison)
    said = [words.truth(comparison.job, comparison.truth)]
    said += ["No policy was on time from every start."] if 0 < one.on_time_share < 1 else []
    said += [_cheaper_but_late(comparison, one, other) for other in comparison.summary]
    said += [_money_ended(comparison), _clairvoyant_late(comparison), _clairvoyant_spare(comparison)]
    said += [_rounded(comparison)]
    return [sentence for sentence in said if sentence]


def _when(comparison: Comparison, policy: str) -> str:
    runs = words.runs_of(comparison, policy)
    if len(runs) == 1:
        return "on time" if runs[0].on_time else "late"
    return f"on time from {words.in_time(comparison, policy)} starts"


def _against_clairvoyant(one: PolicySummary) -> str:
    if not math.isfinite(one.cost_over_clairvoyant):
        return f"{format_usd(one.mean_cost_usd)} where the clairvoyant paid nothing"
    return f"{words.ratio(one.cost_over_clairvoyant)} the clairvoyant"


def _against_on_demand(comparison: Comparison, one: PolicySummary) -> str:
    share = words.against_on_demand(comparison, one)
    if share is None:
        return ""
    if round(share, 2) == 0:
        return ", as much as on demand"
    return f", {words.percent(abs(share))} {'less' if share < 0 else 'more'} than on demand"


def _cheaper_but_late(comparison: Comparison, one: PolicySummary, other: PolicySummary) -> str:
    later, cheaper = other.on_time_share < one.on_time_share, other.mean_cost_usd < one.mean_cost_usd
    if other.policy in CLAIRVOYANTS or not (later and cheaper):
        return ""
    late = sum(not run.on_time for run in words.runs_of(comparison, other.policy))
    paid = f"{words.plain(other.policy)} paid less ({format_usd(other.mean_cost_usd)} on average)"
    return f"{paid} but was late from {words.count(late, 'start')}."


def _money_ended(comparison: Comparison) -> str:
    said = []
    for one in comparison.summary:
        runs = words.runs_of(comparison, one.policy)
        never = sum(not math.isfinite(run.finish_hours) for run in runs)
        if never:
            said.append(f"{words.plain(one.policy)} {never} of {len(runs)} times")
    return f"The maximum cost was reached before the work was done: {', '.join(said)}." if said else ""


def _clairvoyant_spare(comparison: Comparison) -> str:
    """Say what the yardstick of a wide job leaves open, so that it is not taken for the best then."""
    if comparison.clairvoyant_spare_usd is None:
        return ""
    known = next(one for one in comparison.summary if one.policy == CLAIRVOYANT)
    said = words.spare(comparison.clairvoyant_spare_usd, known.mean_cost_usd)
    return f"The clairvoyant is close, not exact: {said} on average."


def _rounded(comparison: Comparison) -> str:
    """Say where the clairvoyant over pools was beaten by that of one pool, as rounding lets it be."""
    if not comparison.roams:
        return ""
    over, stayed = (words.runs_of(comparison, name) for name in (OVER_POOLS, IN_THE_POOL))
    more = [one.cost_usd - other.cost_usd for one, other in zip(over, stayed, strict=True)]
    more = [usd for usd in more if usd >= CENT_USD]
    if not more or by_value(comparison.job):
        return ""
    return (
        f"The clairvoyant over pools is close, not exact: from {words.count(len(more), 'start')} the one in "
        f"the pool paid less, by at most {format_usd(max(more))}."
    )


def _clairvoyant_late(comparison: Comparison) -> str:
    runs = words.runs_of(comparison, OVER_POOLS if comparison.roams else CLAIRVOYANT)
    late = sum(not run.on_time for run in runs)
    return f"Even the clairvoyant was late from {late} of {words.count(len(runs), 'start')}." if late else ""
