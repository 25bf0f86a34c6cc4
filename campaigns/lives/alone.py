"""One job on a market of its own, looked at at any moments, asked to be preempted or cancelled."""

from __future__ import annotations

import dataclasses

from hypothesis import strategies as st

from slacktide.backends.replay import Replay
from slacktide.core.speedup import Amdahl
from slacktide.core.types import Job
from slacktide.engine.engine import Engine
from slacktide.engine.job.job_context import JobContext, make_context
from slacktide.journal.events import CancellationAsked, Event, Lived, PreemptionAsked, Submitted
from slacktide.journal.state.journal_state import JobRecord
from slacktide.journal.store.base import MemoryStore
from slacktide.market.base import Market, Pool
from slacktide.physics.ledger import Priced
from slacktide.policies.base import policies

SLOT_HOURS = 0.5
SLOTS = 24
POLICIES = ("uniform-progress", "maximal-spot", "ahanp", "on-demand")
SUBMITTED = Submitted(
    job="job",
    at_hours=0.0,
    text="",
    submitted_utc="",
    path="",
    policy="",
    slot_hours=SLOT_HOURS,
    start_slot=0,
)


@st.composite
def contexts(draw: st.DrawFn) -> JobContext:
    """Draw a job on a market that gives, takes and changes its prices."""
    rows = [
        st.floats(0.1, 3.0, allow_subnormal=False),
        st.floats(3.0, 6.0, allow_subnormal=False),
        st.integers(0, 5),
    ]
    spot_usd, on_demand_usd, spot_gpus = (draw(st.lists(row, min_size=SLOTS, max_size=SLOTS)) for row in rows)
    pool = Pool("here", SLOT_HOURS, spot_usd, on_demand_usd, spot_gpus)  # type: ignore[arg-type]
    restart = draw(st.sampled_from([0.0, 0.1, 0.7]))
    job = Job(
        work_gpu_hours=draw(st.floats(1.0, 20.0)),
        deadline_hours=draw(st.floats(3.0, 10.0)),
        widths=draw(st.sampled_from([(1, 2, 4), (4,), (1, 2, 3, 4, 5)])),
        speedup=Amdahl(0.95),
        restart_hours=restart,
        shrink_hours=draw(st.sampled_from([None, 0.5 * restart])),
        checkpoint_hours=draw(st.sampled_from([0.0, 0.15, 0.6])),
        max_cost_usd=draw(st.none() | st.floats(1.0, 40.0)),
        billing=draw(st.sampled_from(["second", "slot"])),
    )
    return make_context(job, Market((pool,)), pool, policies.make(draw(st.sampled_from(POLICIES))), 0)


@st.composite
def looks(draw: st.DrawFn) -> list[float]:
    """Draw moments at which the engine looks: the first one, then any, at least one in every slot."""
    # Not up to 1: added to the number of its slot, the largest share below 1 is the next slot.
    shares = st.lists(st.floats(0.0, 0.999), min_size=1, max_size=3)
    inside = [sorted(draw(shares)) for _ in range(2 * SLOTS)]
    return [0.0, *((slot + share) * SLOT_HOURS for slot, row in enumerate(inside) for share in row)]


requests = st.dictionaries(
    st.integers(1, 60),
    st.builds(
        PreemptionAsked, job=st.just("job"), at_hours=st.just(0.0), spot_gpus=st.none() | st.integers(1, 3)
    )
    | st.just(CancellationAsked(job="job", at_hours=0.0)),
    max_size=8,
)
"""What is asked before which look."""


class Driven:
    """An engine on replay that looks at these moments; before some of them another one takes its place."""

    def __init__(
        self,
        context: JobContext,
        moments: list[float],
        asked: dict[int, Event] | None = None,
        restarts: frozenset[int] = frozenset(),
    ) -> None:
        self.job_context, self.store = context, MemoryStore()
        self.engine = self._engine()
        self.engine.submit(SUBMITTED)
        for number, now in enumerate(moments):
            if not self.engine.state.active:
                break
            if number in restarts:
                self.engine = self._engine()
                self.engine.recover()
            if asked and number in asked:
                self.store.append([dataclasses.replace(asked[number], at_hours=now)])
            self.engine.step(now)

    def _engine(self) -> Engine:
        return Engine(self.store, Replay(), open_job=lambda _: self.job_context)

    @property
    def record(self) -> JobRecord:
        """The job as the journal tells it."""
        return self.engine.state.jobs["job"]

    @property
    def stretches(self) -> list[Priced]:
        """What was held and paid."""
        return [record.event.priced for record in self.store.read() if isinstance(record.event, Lived)]
