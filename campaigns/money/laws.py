"""What must hold of money in any life: bill, audit and recount agree, and no limit is passed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from campaigns.finding import Finding
from campaigns.lives.mixed import rented_gpu_hours, stretches
from campaigns.lives.owed import owed
from campaigns.money.lives import Lived
from campaigns.recount import Sum
from slacktide.engine.bills.audit import audit
from slacktide.engine.job.job_context import JobContext
from slacktide.journal.events import ClusterSized, Decided, Kept
from slacktide.journal.events import Lived as LivedThrough
from slacktide.physics import ledger
from slacktide.physics.ledger import Priced
from slacktide.physics.tariff import BY_THE_SECOND
from slacktide.simulation import plain

CLOSE_USD = 1e-6
"""Much less than a cent: these lives are too short for rounding to matter."""
FIXED = ("fifo", "equi")
"""Allocators whose budget is the size of their cluster, at every moment."""
NOTHING = Sum(0.0, 0.0, 0.0)


def check(lived: Lived) -> None:
    """See that every law holds."""
    paid = stretches(lived.store)
    counted = owed(paid, lived.life.site.job_contexts)
    for job, context in lived.life.site.job_contexts.items():
        _job(lived, job, context, counted.get(job, NOTHING).usd)
    _all(lived, paid, sum(one.usd for one in counted.values()))
    _fleet(lived, paid)


def _job(lived: Lived, job: str, context: JobContext, counted_usd: float) -> None:
    record = lived.engine.state.jobs[job]
    if record.ended is None:
        raise Finding(f"{job} must be over, but it is {record.status}")
    checked = audit(record, context, lived.store.read())
    if not checked.clean:
        raise Finding(f"the audit of {job} is not clean: {checked}")
    _same(f"{job}: bill and recount", record.money.bill.cost_usd, counted_usd)
    _same(f"{job}: audit and recount", checked.cost_usd, counted_usd)
    _same(f"{job}: state and recount", record.progress.state.cost_usd, counted_usd)
    _within(job, counted_usd, context)


def _within(what: str, usd: float, context: JobContext) -> None:
    most = context.job.max_cost_usd
    if most is not None and usd > most + CLOSE_USD:
        raise Finding(f"{what} cost {usd:.6f} USD at max_cost {most:.6f}")


def _all(lived: Lived, paid: list[Priced], counted_usd: float) -> None:
    contexts = lived.life.site.job_contexts
    checked = ledger.audit(paid, lambda payer: contexts[payer].tariff if payer in contexts else BY_THE_SECOND)
    _same("all: audit and recount", checked.cost_usd, counted_usd)
    _same("all: bill and recount", ledger.bill(paid).cost_usd, counted_usd)
    # What nobody chose to hold is paid as it was held: slots that nobody saw, workers on their way out.
    chosen = [] if lived.life.absent else [one.stretch for one in _chosen(lived)]
    checked = dataclasses.replace(checked, oversold=tuple(ledger.oversold(chosen)))
    if not checked.clean:
        raise Finding(f"the audit of all is not clean: {checked}")


def _chosen(lived: Lived) -> Iterator[Priced]:
    """Yield what was held, but for that of jobs that were told to stop before the slot began."""
    stopping = dict[str, bool]()
    for record in lived.store.read():
        match record.event:
            case Decided(job=job, why=why):
                stopping[job] = why == "stopping"
            case LivedThrough() | Kept() as event if not stopping.get(event.job, False):
                yield event.priced


def _fleet(lived: Lived, paid: list[Priced]) -> None:
    """A fleet's GPU-hours are those of its jobs and machines; a fixed cluster is never above the budget."""
    site = lived.life.site
    for fleet in lived.engine.state.fleets.values():
        own = [one for one in paid if not one.stretch.payer.startswith("alone")]
        _same("the fleet's GPU-hours", fleet.spent_gpu_hours, ledger.bill(own).gpu_hours)
        if fleet.cluster.rented:
            raise Finding(f"{fleet.cluster.rented} nodes are rented though all is over")
        if site.opened(fleet.first).owns_machines:
            _same("the fleet's machines", fleet.spent_gpu_hours, rented_gpu_hours(lived.store))
    if site.allocator in FIXED:
        most = -(-site.fleet.budget_gpus // site.fleet.node_gpus)
        for record in lived.store.read():
            if isinstance(record.event, ClusterSized) and record.event.nodes > most:
                raise Finding(f"{record.event.nodes} nodes were asked for, but the budget is {most:g}")


def check_back_test(context: JobContext) -> None:
    """A back-test's bill is a recount of what it held, and keeps to the maximum cost."""
    run = plain.run(context.job, context.market_pool, context.policy, start=context.start_slot)
    # A back-test numbers its slots from its start on, a market from its own beginning.
    lived = [slot.lived for slot in run.slots]
    moved = [
        one._replace(stretch=one.stretch._replace(slot=one.stretch.slot + run.start_slot)) for one in lived
    ]
    (counted,) = owed(moved, {one.stretch.payer: context for one in moved}).values()
    _same("a back-test: bill and recount", run.cost_usd, counted.usd)
    _same("a back-test: spot GPU-hours", run.spot_gpu_hours, counted.spot_gpu_hours)
    _same("a back-test: on-demand GPU-hours", run.on_demand_gpu_hours, counted.on_demand_gpu_hours)
    _within("a back-test", counted.usd, context)


def _same(what: str, one: float, other: float) -> None:
    if abs(one - other) > CLOSE_USD:
        raise Finding(f"{what} must be the same, got {one:.9f} and {other:.9f}")
