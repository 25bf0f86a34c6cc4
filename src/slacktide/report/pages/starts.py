"""Every start of a back-test as one row of a page, the policies side by side."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from slacktide.report import words
from slacktide.report.pages import markup
from slacktide.units import format_usd

if TYPE_CHECKING:
    from slacktide.market.base import Pool
    from slacktide.results.comparison import Comparison
    from slacktide.results.run import Run
    from slacktide.types import Job


def starts_table(comparison: Comparison) -> str:
    """Return a row per start with each policy's cost, finish and preemptions."""
    policies = [one.policy for one in comparison.summary]
    pools = {pool.name: pool for pool in comparison.pools}
    by_start: dict[tuple[str, int], dict[str, Run]] = {}
    for run in comparison.runs:
        by_start.setdefault(_start(comparison, pools, run), {})[run.policy] = run
    several = len(pools) > 1 and not comparison.roams
    heads = ['<th scope="col">pool</th>'] if several else []
    heads += ['<th scope="col">start, UTC</th>']
    heads += [f'<th scope="col" class="n">{markup.text(policy)}</th>' for policy in policies]
    rows = []
    for (pool, slot), runs in by_start.items():
        cells = [f"<td>{markup.text(pool)}</td>"] if several else []
        cells += [f"<td>{words.short_time(pools[pool].time(slot))}<small>slot {slot}</small></td>"]
        cells += [_cell(comparison.job, runs.get(policy)) for policy in policies]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = f"<thead><tr>{''.join(heads)}</tr></thead>"
    return markup.wide(f"{head}\n<tbody>\n" + "\n".join(rows) + "\n</tbody>", "lines")


def _start(comparison: Comparison, pools: Mapping[str, Pool], run: Run) -> tuple[str, int]:
    """Return the pool and slot of a start; of a job that may move, that of the first pool."""
    if not comparison.roams:
        return run.pool, run.start_slot
    first = comparison.pools[0]
    since = pools[run.pool].time(run.start_slot) - first.start
    return first.name, round(since / timedelta(hours=first.slot_hours))


def _cell(job: Job, run: Run | None) -> str:
    if run is None:
        return '<td class="n">–</td>'
    done = markup.text(words.finish(job, run.finish_hours))
    small = [done if run.on_time else f'<span class="late">{done}</span>']
    if run.preemptions:
        small.append(words.count(run.preemptions, "preemption"))
    if run.moves:
        small.append(words.count(run.moves, "move"))
    if run.lost_gpu_hours > 0:
        small.append(f"{words.gpu_hours(run.lost_gpu_hours)} GPU-h lost")
    below = "".join(f"<small>{line}</small>" for line in small)
    return f'<td class="n">{format_usd(run.cost_usd)}{below}</td>'
