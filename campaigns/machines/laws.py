"""What must hold after every step of a life, and at its end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from campaigns.finding import Finding
from campaigns.lives.owed import owed
from slacktide.engine.bills.audit import audit
from slacktide.engine.bills.machines import machine_bill
from slacktide.journal.events import Lived, Rented

if TYPE_CHECKING:
    from campaigns.machines.life import Life

CLOSE_USD = 1e-6
SHARE = 0.01
"""By how much the bill of machines may differ from the cloud's account."""
AWAY_S = 60.0
"""... and by how much more in one life: who is killed between a ticket and its machine is away that long."""


def check_step(life: Life) -> None:
    """See that no limit is passed."""
    living = life.cloud.living
    if len(living) > life.rules.max_machines:
        raise Finding(f"{len(living)} machines live, but at most {life.rules.max_machines:g} may")
    usd = sum(life.rules.price(one.spec) for one in living)
    if usd > life.rules.max_usd_per_hour + CLOSE_USD:
        raise Finding(
            f"machines for {usd:g} USD an hour live, but {life.rules.max_usd_per_hour:g} is the most"
        )
    tickets = [one.ticket for one in living]
    if len(tickets) != len(set(tickets)):
        raise Finding("two machines live for one ticket")


def check_end(life: Life) -> None:
    """See that all work was done, nothing is left, and all bills agree."""
    assert life.controller is not None
    state, store = life.controller.engine.state, life.controller.store
    if life.cloud.living:
        raise Finding(f"{len(life.cloud.living)} machines are left")
    if any(crew.alive for crew in life.truth.crews):
        raise Finding("workers are left")
    for job, work in life.truth.works.items():
        record = state.jobs[job]
        if record.status != "succeeded" or not work.finished:
            raise Finding(f"{job} must succeed with all work done, but it is {record.status}: {work}")
        if record.progress.failures:
            raise Finding(f"{record.progress.failures} losses of {job} were taken for failures of its own")
        checked = audit(record, life.controller.engine.context.job_context(record), store.read())
        if not checked.clean:
            raise Finding(f"the audit of {job} is not clean: {checked}")
    _bills(life)
    _machines(life)


def _bills(life: Life) -> None:
    assert life.controller is not None
    engine, store = life.controller.engine, life.controller.store
    paid = [record.event.priced for record in store.read() if isinstance(record.event, Lived)]
    contexts = {job: engine.context.job_context(job_record) for job, job_record in engine.state.jobs.items()}
    counted = owed(paid, contexts)
    for job, job_record in engine.state.jobs.items():
        usd = counted[job].usd if job in counted else 0.0
        if abs(job_record.money.bill.cost_usd - usd) > CLOSE_USD:
            raise Finding(
                f"{job}: the bill is {job_record.money.bill.cost_usd:.9f}, its stretches are {usd:.9f}"
            )


def _machines(life: Life) -> None:
    """Compare what machines cost by the journal with the account of the cloud."""
    assert life.controller is not None
    records = list(life.controller.store.read())
    rented = {record.event.ticket for record in records if isinstance(record.event, Rented)}
    for one in life.cloud.instances.values():
        if one.ticket not in rented:
            raise Finding(f"machine {one.id} has no ticket in the journal")
    ours = math.fsum(line.hours for line in machine_bill(records).lines)
    theirs = life.cloud.billed_hours()
    life.counts["machine-seconds by the cloud"] += round(theirs * 3600)
    life.counts["by the journal"] += round(ours * 3600)
    off_s = abs(ours - theirs) * 3600
    life.counts["seconds off"] += round(off_s)
    if off_s > SHARE * theirs * 3600 + AWAY_S:
        raise Finding(f"machines cost {ours:.4f} hours by the journal, {theirs:.4f} by the cloud")


def state(life: Life) -> str:
    """Say how things stand, for a life that does not end."""
    if life.controller is None:
        return "no controller"
    engine = life.controller.engine
    jobs = {
        job: (record.status, record.holding.order, record.progress.blocked)
        for job, record in engine.state.jobs.items()
    }
    tickets = len(engine.state.tickets.open)
    return f"{jobs}, {tickets} open tickets, {len(life.cloud.living)} machines, kills {life.counts['kills']}"
