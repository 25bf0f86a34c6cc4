"""What lives on replay owe by the rules in the docs, at the market's own prices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from campaigns.recount import Held, Sum, recount
from slacktide.engine.job.job_context import JobContext
from slacktide.physics.ledger import Priced


def owed(stretches: Iterable[Priced], contexts: Mapping[str, JobContext]) -> dict[str, Sum]:
    """Say what every payer owes for what it held; machines that no job uses are paid by the second."""
    slots = {
        job: context.slot_hours if context.job.billing == "slot" else None
        for job, context in contexts.items()
    }
    return recount((_held(one, contexts) for one in stretches), slots)


def _held(one: Priced, contexts: Mapping[str, JobContext]) -> Held:
    stretch = one.stretch
    # The site's own machines belong to no job: their quote is known from the stretch alone.
    context = contexts.get(stretch.payer)
    quote = stretch.quote if context is None else context.quote(stretch.slot)
    return Held(
        stretch.payer, stretch.pool, stretch.slot, stretch.held_hours, stretch.spot_gpus,
        stretch.on_demand_gpus, quote.spot_usd_per_gpu_hour, quote.on_demand_usd_per_gpu_hour,
    )  # fmt: skip
