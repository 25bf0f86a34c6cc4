"""What lives on replay owe by the rules in the docs, at the market's own prices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from campaigns.recount import Held, Sum, recount
from slacktide.engine.job.job_context import JobContext
from slacktide.physics.ledger import Priced


def owed(stretches: Iterable[Priced], lanes: Mapping[str, JobContext]) -> dict[str, Sum]:
    """Say what every payer owes for what it held; machines that no job uses are paid by the second."""
    slots = {job: lane.slot_hours if lane.job.billing == "slot" else None for job, lane in lanes.items()}
    return recount((_held(one, lanes) for one in stretches), slots)


def _held(one: Priced, lanes: Mapping[str, JobContext]) -> Held:
    stretch = one.stretch
    # The site's own machines are of no lane: their quote is known from the stretch alone.
    lane = lanes.get(stretch.payer)
    quote = stretch.quote if lane is None else lane.quote(stretch.slot)
    return Held(
        stretch.payer, stretch.pool, stretch.slot, stretch.held_hours, stretch.spot_gpus,
        stretch.on_demand_gpus, quote.spot_usd_per_gpu_hour, quote.on_demand_usd_per_gpu_hour,
    )  # fmt: skip
