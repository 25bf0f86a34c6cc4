"""A back-test in the terminal: the summary, one run's decisions, and both as plain text for pipes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.text.sentences.verdict import best, caveats, verdict
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.decisions import decisions
from slacktide.report.text.tables.grid import Column, Grid

if TYPE_CHECKING:
    from rich.table import Table

    from slacktide.results.comparison import Comparison, PolicySummary
    from slacktide.results.run import RunResult


POOL = (Column("pool", right=False, breaks=True),)
MOVES = (Column("moves"), Column("egress"))  # further columns for a job that may move
ROAMS = "moves"  # what stands for the pool of a policy that chooses it


def summary(comparison: Comparison) -> Grid:
    """Return one line per policy: its bill, next to the clairvoyant's and on demand's, and its lateness."""
    valued = comparison.job.value_usd > 0
    columns: tuple[Column, ...] = (
        Column("policy", right=False, breaks=True), *(POOL if comparison.roams else ()), Column("mean cost"),
        Column("p10–p90"),
        Column("× clairvoyant", narrow="× clair-\nvoyant"), Column("vs on demand", narrow="to on\ndemand"),
        Column("on time"), Column("mean finish"), Column("spot"), Column("preempted", narrow="pre-\nempted"),
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


def mean_finish(one: PolicySummary) -> str:
    """Write the mean finish; a run that never finished leaves no mean."""
    return words.duration(one.mean_finish_hours) if math.isfinite(one.mean_finish_hours) else "not always"


def spot_share(one: PolicySummary) -> str:
    """Write the share of GPU-hours that were spot."""
    held = one.mean_spot_gpu_hours + one.mean_on_demand_gpu_hours
    return words.percent(one.mean_spot_gpu_hours / held) if held > 0 else words.NOTHING


def _line(comparison: Comparison, one: PolicySummary, valued: bool) -> tuple[str, ...]:
    where = (words.plain(one.pool, 40) or ROAMS,) if comparison.roams else ()
    line: tuple[str, ...] = (
        words.plain(one.policy, 60),
        *where,
        format_usd(one.mean_cost_usd),
        words.usd_range(one.p10_cost_usd, one.p90_cost_usd),
        words.ratio(one.cost_over_clairvoyant),
        words.signed_percent(words.against_on_demand(comparison, one)),
        words.in_time(comparison, one.policy).replace(" of ", "/"),
        mean_finish(one),
        spot_share(one),
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
