"""A back-test as text: which policy to take and what that rests on, the summary, and one run's decisions.

Consecutive decisions that wanted and held the same are one line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from slacktide.core.types import Job, Reason
from slacktide.core.units import format_usd
from slacktide.physics.ledger import CENT_USD
from slacktide.report import words
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Grid, TableOf
from slacktide.results.run import CLAIRVOYANT, CLAIRVOYANTS, IN_THE_POOL, OVER_POOLS

if TYPE_CHECKING:
    from rich.table import Table

    from slacktide.results.comparison import Comparison, PolicySummary
    from slacktide.results.run import Decision, RunResult

ROAMS = "moves"  # shown instead of a pool for a policy that chooses its pools
SHOWN_SIGNALS = {
    "progress_gpu_hours", "line_gpu_hours", "hours_left", "spot_gpus", "spot_usd_per_gpu_hour"
}  # fmt: skip
"""Signals of a reason that other columns show already."""


def summary(comparison: Comparison) -> Grid:
    """Return one line per policy: its bill, next to the clairvoyant's and on demand's, and its lateness."""
    table = TableOf(comparison.summary)
    table.words("policy", lambda row: words.plain(row.policy, 60), breaks=True)
    if comparison.roams:
        table.words("pool", lambda row: words.plain(row.pool, 40) or ROAMS, breaks=True)
    table.number("mean cost", lambda row: format_usd(row.mean_cost_usd))
    table.number("p10–p90", lambda row: words.usd_range(row.p10_cost_usd, row.p90_cost_usd))
    table.number(
        "× clairvoyant", lambda row: words.ratio(row.cost_over_clairvoyant), narrow="× clair-\nvoyant"
    )
    table.number(
        "vs on demand",
        lambda row: words.signed_percent(words.against_on_demand(comparison, row)),
        narrow="to on\ndemand",
    )
    table.number("on time", lambda row: words.in_time(comparison, row.policy).replace(" of ", "/"))
    table.number("mean finish", _mean_finish)
    table.number("spot", _spot_share)
    table.number("preempted", lambda row: f"{row.mean_preemptions:.1f}", narrow="pre-\nempted")
    if comparison.roams:
        table.number("moves", lambda row: f"{row.mean_moves:.1f}")
        table.number("egress", lambda row: format_usd(row.mean_move_usd))
    if comparison.job.value_usd > 0:
        table.number("mean utility", lambda row: format_usd(row.mean_utility_usd))
    return table.grid(strong=comparison.summary.index(best(comparison)))


def _mean_finish(row: PolicySummary) -> str:
    finish = row.mean_finish_hours
    return words.duration(finish) if math.isfinite(finish) else "not always"  # a run that never finished


def _spot_share(row: PolicySummary) -> str:
    held = row.mean_spot_gpu_hours + row.mean_on_demand_gpu_hours
    return words.percent(row.mean_spot_gpu_hours / held) if held > 0 else words.NOTHING


def in_pools(comparison: Comparison) -> Grid:
    """Return what every policy that stays, and the clairvoyant, would have paid in each pool."""
    table = TableOf(dict.fromkeys(row.policy for row in comparison.fixed))
    table.words("policy", lambda policy: words.plain(policy, 60))
    for pool in comparison.pools:
        table.number(words.plain(pool.name, 40), partial(_paid, comparison, pool.name))
    return table.grid()


def _paid(comparison: Comparison, pool: str, policy: str) -> str:
    paid = next((row for row in comparison.fixed if (row.policy, row.pool) == (policy, pool)), None)
    if paid is None:
        return words.NOTHING
    late = "" if paid.on_time_share >= 1 else f" ({words.percent(paid.on_time_share)} on time)"
    return f"{format_usd(paid.mean_cost_usd)}{late}"


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


Span = list["Decision"]
"""Consecutive decisions by the same rule that wanted and held the same."""


def spans(run: RunResult) -> list[Span]:
    """Merge consecutive decisions of a run in which nothing new was decided and nothing was lost."""
    spans: list[Span] = []
    for decision in run.decisions:
        if spans and not decision.lost_gpus and _choice(spans[-1][-1]) == _choice(decision):
            spans[-1].append(decision)
        else:
            spans.append([decision])
    return spans


def _end(span: Span) -> tuple[float, float]:
    """Return when a span ends, and the work done by then."""
    last = span[-1]
    if not last.laps:
        return last.hours, last.done_gpu_hours
    return last.laps[-1].priced.stretch.to_hours, last.laps[-1].after_gpu_hours


def decisions(run: RunResult) -> Grid:
    """Return a run's decisions as a table, one line per span; with the pool, of a job that may move."""
    table = TableOf(spans(run))
    table.words("slot", lambda span: _range(str(span[0].slot), str(span[-1].slot)))
    table.words("UTC", lambda span: words.short_time(_time(run, span[0])))
    if run.pools:
        table.words("pool", lambda span: words.plain(_pool(span[0]), 40))
    table.number("offered", _offered, narrow="of-\nfered")
    table.number("$/GPU-hour", _price, narrow="$/GPU-\nhour")
    table.number("spot held", lambda span: _of(span[0].spot_gpus, span[0].wanted_spot_gpus))
    table.number("on demand", lambda span: _of(span[0].on_demand_gpus, span[0].wanted_on_demand_gpus))
    table.number("done", lambda span: words.percent(_end(span)[1] / run.job.work_gpu_hours))
    table.number("vs line", lambda span: _against_line(run.job, *_end(span)))
    table.number("cost", lambda span: format_usd(sum(decision.cost_usd for decision in span)))
    table.words("why", lambda span: why(span[0]) + _stopped(run, span), breaks=True)
    return table.grid()


def _stopped(run: RunResult, span: Span) -> str:
    last = span[-1] is run.decisions[-1] and not span[0].ending
    return " (stopped: it reached its maximum cost)" if last and run.status == "budget_exhausted" else ""


def _pool(decision: Decision) -> str:
    """Return the pool that the job was in after a decision; empty where no stretch followed."""
    return decision.laps[0].priced.stretch.pool if decision.laps else ""


def _against_line(job: Job, hours: float, done_gpu_hours: float) -> str:
    return words.NOTHING if words.open_ended(job) else words.ahead(done_gpu_hours - job.line_gpu_hours(hours))


def why(decision: Decision) -> str:
    """Say what was lost just before a decision, and the rule that made it."""
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


def _choice(decision: Decision) -> tuple[int, int, int, int, str, str]:
    wanted = decision.wanted_spot_gpus, decision.wanted_on_demand_gpus
    held = decision.spot_gpus, decision.on_demand_gpus
    return (*wanted, *held, decision.reason.rule, _pool(decision))


def _offered(span: Span) -> str:
    gpus = [decision.quote.spot_gpus for decision in span]
    return _range(f"{min(gpus)}", f"{max(gpus)}")


def _price(span: Span) -> str:
    usd = [decision.quote.spot_usd_per_gpu_hour for decision in span]
    return _range(f"{min(usd):.2f}", f"{max(usd):.2f}")


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low}–{high}"


def _of(held: int, wanted: int) -> str:
    return str(held) if held == wanted else f"{held} of {wanted}"


def by_value(job: Job) -> bool:
    """Whether policies are ranked by what is left of the result's value, not by time and cost."""
    return not job.hard and job.value_usd > 0


def best(comparison: Comparison) -> PolicySummary:
    """Return the best policy: on time most often, then cheapest; by utility where `by_value`."""
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
    """Say what moving saved or cost against the best that stayed in one pool; empty where no job moves."""
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
    """Say what the verdict hides: a wrong file, lateness, cheaper policies that were late, money run out."""
    wrong_file = words.truth(comparison.job, comparison.truth)
    of_policies, of_clairvoyant = _policy_caveats(comparison), _clairvoyant_caveats(comparison)
    return [*([wrong_file] if wrong_file else []), *of_policies, *of_clairvoyant]


def _policy_caveats(comparison: Comparison) -> Iterator[str]:
    chosen = best(comparison)
    if 0 < chosen.on_time_share < 1:
        yield "No policy was on time from every start."
    unfinished = []
    for row in comparison.summary:
        runs, policy = words.runs_of(comparison, row.policy), words.plain(row.policy)
        never = sum(not math.isfinite(run.finish_hours) for run in runs)
        if never:
            unfinished.append(f"{policy} {never} of {len(runs)} times")
        later, cheaper = row.on_time_share < chosen.on_time_share, row.mean_cost_usd < chosen.mean_cost_usd
        if later and cheaper and row.policy not in CLAIRVOYANTS:
            late = words.count(sum(not run.on_time for run in runs), "start")
            yield f"{policy} paid less ({format_usd(row.mean_cost_usd)} on average) but was late from {late}."
    if unfinished:
        yield f"The maximum cost was reached before the work was done: {', '.join(unfinished)}."


def _clairvoyant_caveats(comparison: Comparison) -> Iterator[str]:
    runs = words.runs_of(comparison, OVER_POOLS if comparison.roams else CLAIRVOYANT)
    if late := sum(not run.on_time for run in runs):
        yield f"Even the clairvoyant was late from {late} of {words.count(len(runs), 'start')}."
    if comparison.clairvoyant_spare_usd is not None:
        # The clairvoyant of a wide job is close to the best plan, not the best.
        known = next(row for row in comparison.summary if row.policy == CLAIRVOYANT)
        spare = words.spare(comparison.clairvoyant_spare_usd, known.mean_cost_usd)
        yield f"The clairvoyant is close, not exact: {spare} on average."
    if comparison.roams and not by_value(comparison.job):
        # Rounding lets the clairvoyant of one pool beat the one over pools.
        over, stayed = (words.runs_of(comparison, name) for name in (OVER_POOLS, IN_THE_POOL))
        more = [one.cost_usd - other.cost_usd for one, other in zip(over, stayed, strict=True)]
        if more := [usd for usd in more if usd >= CENT_USD]:
            yield (
                f"The clairvoyant over pools is close, not exact: from {words.count(len(more), 'start')} the "
                f"one in the pool paid less, by at most {format_usd(max(more))}."
            )


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
