"""The machines of a fleet in the account: what was paid for though no job used it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from slacktide.budget.cluster import Cluster
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.engine.job.job_context import JobContext
from slacktide.journal.events import ClusterSized, Kept
from slacktide.journal.state.fleet_record import FleetRecord, HeldSpan
from slacktide.physics.ledger import Priced, Stretch, Use
from slacktide.physics.tariff import BY_THE_SECOND, Meter, price
from slacktide.results.stretches import USES


def kept_until(
    fleet: FleetRecord, held: Sequence[HeldSpan], context: JobContext, until_hours: float
) -> list[Kept]:
    """Account for a fleet's machines from the last time on: what its jobs did not use is the fleet's to pay.

    `held` is what its jobs hold in stretches that are not over.
    """
    if until_hours <= fleet.accounted_hours + TIME_TOLERANCE_HOURS:
        return []
    spans = (*fleet.recent, *held)
    cluster = dataclasses.replace(fleet.cluster)
    moments = _moments(fleet.accounted_hours, until_hours, spans, cluster, context)
    found: list[Kept] = []
    for begin, end in itertools.pairwise(moments):
        cluster.arrive(begin)
        used = sum(span.gpus for span in spans if span.from_hours <= begin and end <= span.to_hours)
        unused = zip(USES[1:], cluster.unused(used), strict=True)
        found += [_kept(fleet, context, begin, end, use, gpus) for use, gpus in unused if gpus > 0]
    return found


def sized(fleet: FleetRecord, now_hours: float, nodes: int, like: Cluster) -> ClusterSized | None:
    """Request this many nodes; None where that changes nothing."""
    after = dataclasses.replace(fleet.cluster)
    after.arrive(now_hours)
    before = dataclasses.replace(after)
    after.take_form(like.node_gpus, like.provisioning_hours, like.grace_hours)
    after.resize(nodes, now_hours)
    if after == before:
        return None
    return ClusterSized(
        at_hours=now_hours,
        fleet=fleet.key,
        nodes=nodes,
        node_gpus=like.node_gpus,
        provisioning_hours=like.provisioning_hours,
        idle_grace_hours=like.grace_hours,
    )


def _moments(
    begin: float, end: float, spans: Sequence[HeldSpan], cluster: Cluster, context: JobContext
) -> list[float]:
    """Return the moments at which anything changes between two, both included."""
    changes = {each for span in spans for each in (span.from_hours, span.to_hours)}
    changes |= set(_transitions(dataclasses.replace(cluster), end))
    first, last = context.slot(begin), context.slot(end)
    changes |= {context.begins(slot) for slot in range(first + 1, last + 1)}
    return [begin, *sorted(each for each in changes if begin < each < end), end]


def _transitions(cluster: Cluster, until_hours: float) -> Iterator[float]:
    """Yield when nodes come and go by themselves."""
    while (hours := cluster.next_hours) < until_hours:
        yield hours
        cluster.arrive(hours)


def _kept(fleet: FleetRecord, context: JobContext, begin: float, end: float, use: Use, gpus: int) -> Kept:
    slot = context.slot(begin)
    hours = end - begin
    quote = context.quote(slot)
    charge, _ = price(BY_THE_SECOND, Meter(), slot, 0, quote, 0, gpus, hours, 0.0)
    stretch = Stretch(
        payer=f"fleet:{fleet.key}",
        use=use,
        slot=slot,
        from_hours=begin,
        to_hours=end,
        held_hours=hours,
        pool=context.market_pool.name,
        spot_gpus=0,
        on_demand_gpus=gpus,
        quote=quote,
    )
    return Kept(at_hours=end, fleet=fleet.key, priced=Priced(stretch, charge))
