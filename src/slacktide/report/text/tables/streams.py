"""A comparison of allocators in the terminal: one line for each, and what to know about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.text.tables.grid import Grid, TableOf, printable

if TYPE_CHECKING:
    from slacktide.results.stream import StreamComparison, StreamRow, StreamRun

RATE_OFF = 0.2  # a stream whose arrivals are off from the file's by more than this share is mentioned
SPEND_OFF = 0.02  # so is a policy that spends more than the budget by more than this share


def page(found: StreamComparison, source: str) -> list[Any]:
    """Return things to print: the question, a line for each policy, and notes."""
    return printable(head(found, source), [summary(found)], (f"- {note}" for note in notes(found)))


def head(found: StreamComparison, source: str) -> list[str]:
    """Describe the jobs, the budget and the machines that were simulated."""
    fleet, stream = found.fleet, found.stream
    nodes = "single GPUs" if fleet.node_gpus == 1 else f"nodes of {fleet.node_gpus} GPUs"
    ready = (
        f"ready after {words.duration(fleet.provisioning_hours)}" if fleet.provisioning_hours else "at once"
    )
    kept = f", kept idle for {words.duration(fleet.idle_grace_hours)}" if fleet.idle_grace_hours else ""
    money = ""
    if found.usd_per_gpu_hour is not None:
        money = f" ({format_usd(fleet.budget_gpus * found.usd_per_gpu_hour)} an hour)"
    return [
        f"{words.plain(source, 60)}: {words.count(len(stream), 'job')} over "
        f"{words.duration(stream.hours)}, {words.plain(found.jobs_from, 80)}",
        f"budget {words.gpus(fleet.budget_gpus)} GPUs on average{money}; {nodes}, {ready}{kept}",
    ]


def summary(found: StreamComparison) -> Grid:
    """Return one line for each policy, next to the optimum that spends the same."""
    usd = found.usd_per_gpu_hour
    table = TableOf(found.rows)
    table.words("policy", lambda row: words.plain(row.policy, 60), breaks=True)
    table.number("mean response", lambda row: words.response(row.run.mean_response_hours))
    table.number("p50", lambda row: words.response(row.run.responses.p50_hours))
    table.number("p95", lambda row: words.response(row.run.responses.p95_hours))
    table.number("average GPUs", lambda row: _spend(row.run, usd))
    table.number("peak", lambda row: f"{row.run.peak_gpus:,}")
    table.number("idle", lambda row: words.share(row.run.bill.share(row.run.bill.idle_gpu_hours)))
    table.number("restart", lambda row: words.share(row.run.bill.share(row.run.bill.restart_gpu_hours)))
    table.number("fragments", _fragments, narrow="frag-\nments")
    table.number("optimum at that spend", _optimum, narrow="optimum\nat that\nspend")
    table.number("× optimum", _times_optimum, narrow="× opti-\nmum")
    means = [row.run.mean_response_hours for row in found.rows]
    return table.grid(strong=means.index(min(means)))


def notes(found: StreamComparison) -> list[str]:
    """Explain the figures, and point out what is unusual about them."""
    return [
        "average GPUs: all that was paid for until the last job was done, over the time when jobs arrived; "
        "a policy given by name only was tuned to spend the budget, as closely as it can",
        *_odd(found),
    ]


def _odd(found: StreamComparison) -> Iterator[str]:
    fleet, stream = found.fleet, found.stream
    whole_nodes = fleet.node_gpus > 1 or fleet.provisioning_hours > 0
    if whole_nodes or any(one.restart_hours for one in fleet.classes):
        yield (
            "fixed widths are optimal where single GPUs start instantly and restarts are free; where nodes "
            "must be waited for or filled, or jobs restart, another policy can be below 1.000"
        )
    expected = sum(one.arrivals_per_hour for one in fleet.classes)
    came = len(stream) / stream.hours if stream.hours else expected
    if abs(came / expected - 1) > RATE_OFF:
        yield f"the fleet file says {words.rate(expected)} jobs, but {words.rate(came)} arrived"
    for row in found.rows:
        more = row.run.average_gpus / fleet.budget_gpus - 1
        if more > SPEND_OFF:
            yield f"{words.plain(row.policy, 60)} spent {words.percent(more)} more than the budget"


def _fragments(row: StreamRow) -> str:
    return words.share(row.run.bill.share(row.run.bill.fragmentation_gpu_hours))


def _optimum(row: StreamRow) -> str:
    return words.response(row.optimum.mean_response_hours) if row.optimum else words.NOTHING


def _times_optimum(row: StreamRow) -> str:
    return f"{row.ratio:.3f}" if row.ratio is not None else words.NOTHING


def _spend(run: StreamRun, usd_per_gpu_hour: float | None) -> str:
    if usd_per_gpu_hour is None:
        return words.gpus(run.average_gpus)
    return f"{words.gpus(run.average_gpus)} ({format_usd(run.average_gpus * usd_per_gpu_hour)}/h)"
