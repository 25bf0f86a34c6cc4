"""The state of a controller's jobs right now: what the journal says, and the stretch that has not ended."""

from __future__ import annotations

from slacktide.app.journal.listing import (
    SHOWN_SLOTS,
    elapsed_hours,
    health_of,
    held_by,
    policy_of,
    projected,
    status_of,
)
from slacktide.core.quotes import Quote
from slacktide.core.types import Job
from slacktide.engine.bills.bill import as_measured, on_demand_alone
from slacktide.engine.engine import Engine
from slacktide.engine.job.job_context import JobContext
from slacktide.physics.ledger import added
from slacktide.results.status import Standing


class Standings:
    """Returns where jobs of an engine stand, as often as they are shown."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._alone: dict[str, tuple[Job, float | None]] = {}

    def of(self, job: str, now_hours: float) -> Standing | None:
        """Return where a job stands now; None if its market is gone, so that this is not known."""
        engine, record = self._engine, self._engine.state.jobs[job]
        if engine.context.troubles.has(job, "market"):
            return None
        context, account = engine.context.job_context(record), engine.context.account(record, now_hours)
        facts = engine.context.facts.get(job)
        bill = record.money.bill if account is None else added(record.money.bill, account.priced)
        state, held = record.progress.state if account is None else account.state, held_by(record)
        hours, measured = elapsed_hours(record, now_hours), as_measured(record, context.job)
        alone_usd = self._whole_usd(job, context, measured)
        finish_hours, usd = _projected(measured, hours, state.progress_gpu_hours, bill.cost_usd, alone_usd)
        estimated = record.progress.estimated
        if account is not None:  # whether real workers never reported; in a dry run there are none
            estimated = account.priced.stretch.estimated and record.holding.held is not None
        return Standing(
            name=job,
            job=context.job,
            policy=policy_of(record),
            pool=context.market_pool.name,
            status=status_of(record, engine.state, in_charge=True),
            health=health_of(record, now_hours, context.job.deadline_hours),
            hours=hours,
            projected_hours=finish_hours,
            projected_usd=usd,
            quotes=_quotes(context, context.slot(record.began_hours + hours)),
            spot_gpus=held.spot_gpus,
            on_demand_gpus=held.on_demand_gpus,
            progress_gpu_hours=state.progress_gpu_hours,
            estimated=estimated,
            spot_usd=bill.spot_usd,
            on_demand_usd=bill.on_demand_usd,
            on_demand_alone_usd=alone_usd,
            metrics={} if facts is None else facts.metrics,
            may_move=context.may_move,
            move_usd=bill.move_usd,
        )

    def _whole_usd(self, job: str, context: JobContext, measured: Job) -> float | None:
        """Return what the whole work would cost on demand; computed again when its pace is revised."""
        known = self._alone.get(job)
        if known is None or known[0] != measured:
            run = on_demand_alone(context, measured)
            known = self._alone[job] = measured, None if run is None else run.cost_usd
        return known[1]


def _projected(
    job: Job, hours: float, progress_gpu_hours: float, cost_usd: float, alone_usd: float | None
) -> tuple[float | None, float | None]:
    """Return when a job will be done and for how much, at its rate so far; None while too little is done.

    If that would be after a hard deadline, the guard rents on demand: then the job is done at the deadline,
    or as soon as possible after it, with the rest of the work paid on demand.
    """
    share = progress_gpu_hours / job.work_gpu_hours
    finish, usd = projected(hours, share), projected(cost_usd, share)
    if finish is None or usd is None:
        return None, None
    if not job.hard or finish <= job.deadline_hours or alone_usd is None:
        return finish, usd
    soonest = hours + job.work_hours(job.fastest_width) * (1 - share)
    return max(soonest, job.deadline_hours), cost_usd + alone_usd * (1 - share)


def _quotes(context: JobContext, slot: int) -> list[Quote]:
    """Return what the market offered in the last slots up to the present, even before the job began."""
    first = max(0, slot - SHOWN_SLOTS + 1)
    return list(map(context.quote, range(first, slot + 1)))
