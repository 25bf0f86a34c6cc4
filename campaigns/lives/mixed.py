"""Jobs by themselves and jobs of a fleet on one site."""

from __future__ import annotations

import dataclasses
import json

from hypothesis import strategies as st

from campaigns.lives.site import FIRST_SLOT, POLICIES, SLOT_HOURS, contexts, markets
from slacktide.allocators.base import allocators
from slacktide.allocators.view import begin
from slacktide.budget.classes import JobClass
from slacktide.budget.cluster import Cluster
from slacktide.budget.fleet import Fleet
from slacktide.core.speedup import Amdahl, Power
from slacktide.core.types import Job, Phase
from slacktide.engine.fleet.fleets import LiveFleet
from slacktide.engine.job.job_context import JobContext, make_context
from slacktide.journal.events import ClusterSized, Kept, Lived, Submitted
from slacktide.journal.store.base import MemoryStore
from slacktide.market.base import Market
from slacktide.physics.ledger import Priced
from slacktide.policies.base import policies

WIDTHS = (1, 2, 4)
CLASSES = (
    JobClass(Job(name="one", work_gpu_hours=1.0, speedup=Amdahl(0.9), widths=WIDTHS, restart_hours=0.1), 2.0),
    JobClass(Job(name="two", phases=(Phase(0.5, Power(0.5)), Phase(1.0, Amdahl(0.9))), widths=WIDTHS), 1.0),
)
MEMBERS = ("fixed-width", "online-width", "efficiency-band", "fifo", "equi")


@dataclasses.dataclass(frozen=True)
class Site:
    """Jobs by themselves, jobs of a fleet, and who decides about those."""

    job_contexts: dict[str, JobContext]
    classes: dict[str, str]
    """The class of each job of the fleet."""
    fleet: Fleet
    allocator: str

    def submitted(self, job: str) -> Submitted:
        """Return what the journal says of a job that was submitted."""
        context = self.job_contexts[job]
        return Submitted(
            job=job, at_hours=context.terms.submitted_hours, text="", submitted_utc="", path="",
            policy=json.dumps(self.allocator), slot_hours=SLOT_HOURS, start_slot=context.start_slot,
            origin_hours=context.origin_hours, fleet="a fleet" if job in self.classes else "",
            fleet_class=self.classes.get(job, ""),
        )  # fmt: skip

    def opened(self, _: Submitted) -> LiveFleet:
        """Begin the fleet."""
        names = {one.name: index for index, one in enumerate(self.fleet.classes)}
        return LiveFleet(self.fleet, begin(allocators.make(self.allocator), self.fleet), "any", names)


@st.composite
def members(draw: st.DrawFn, market: Market) -> tuple[str, JobContext]:
    """Draw a job of the fleet, which is submitted anywhere inside a slot."""
    one = draw(st.sampled_from(CLASSES))
    size, slot, share = draw(st.floats(0.2, 3.0)), draw(st.integers(0, 8)), draw(st.sampled_from([0.0, 0.3]))
    phases = tuple(Phase(phase.work_gpu_hours * size, phase.speedup) for phase in one.phases)
    context = make_context(
        dataclasses.replace(one.job, phases=phases), market, market.pools[0], policies.make("on-demand"),
        FIRST_SLOT + slot, began_hours=(slot + share) * SLOT_HOURS, origin_hours=slot * SLOT_HOURS,
    )  # fmt: skip
    return one.name, context


@st.composite
def sites(draw: st.DrawFn, tasks: st.SearchStrategy[Job] | None = None) -> Site:
    """Draw a site; `tasks` are the jobs by themselves, where not any will do."""
    market = draw(markets())
    alone = draw(st.lists(contexts(market, POLICIES, tasks), max_size=3))
    fleet = draw(st.lists(members(market), min_size=1, max_size=5))
    named = {f"alone-{number}": context for number, context in enumerate(alone)}
    named |= {f"member-{number}": context for number, (_, context) in enumerate(fleet)}
    in_order = dict(sorted(named.items(), key=lambda pair: pair[1].terms.submitted_hours))
    nodes, grace = draw(st.sampled_from([1, 4])), draw(st.sampled_from([0.0, 0.2]))
    return Site(
        in_order,
        {f"member-{number}": name for number, (name, _) in enumerate(fleet)},
        Fleet(CLASSES, 12.0, nodes, draw(st.sampled_from([0.0, 0.3])), grace),
        draw(st.sampled_from(MEMBERS)),
    )


def stretches(store: MemoryStore) -> list[Priced]:
    """Return all that was held and paid, by jobs and by the site."""
    return [record.event.priced for record in store.read() if isinstance(record.event, Lived | Kept)]


def rented_gpu_hours(store: MemoryStore) -> float:
    """Count what was rented by what was asked for, in a way of its own."""
    cluster, last, total = Cluster(1, 0.0, 0.0), 0.0, 0.0
    for event in [record.event for record in store.read() if isinstance(record.event, ClusterSized)]:
        while last < event.at_hours:
            until = min(cluster.next_hours, event.at_hours)
            total += cluster.rented * cluster.node_gpus * (until - last)
            cluster.arrive(until)
            last = until
        cluster = dataclasses.replace(
            cluster, node_gpus=event.node_gpus, provisioning_hours=event.provisioning_hours,
            grace_hours=event.idle_grace_hours,
        )  # fmt: skip
        cluster.resize(event.nodes, event.at_hours)
    while cluster.rented:
        total += cluster.rented * cluster.node_gpus * (cluster.next_hours - last)
        last = cluster.next_hours
        cluster.arrive(last)
    return total
