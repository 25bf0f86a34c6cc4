"""Several jobs by themselves on one site, submitted anywhere inside a slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from slacktide.backends.replay import Replay
from slacktide.core.speedup import Amdahl
from slacktide.core.types import Allocation, Job
from slacktide.engine.engine import Engine
from slacktide.engine.job.job_context import JobContext, make_context
from slacktide.journal.events import Submitted
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.store.base import MemoryStore
from slacktide.market.base import Market, Pool
from slacktide.policies.base import policies
from slacktide.policies.view import Policy, View

SLOT_HOURS = 0.5
SLOTS = 40
FIRST_SLOT = 3
LATEST_SLOT = 8
"""The last slot of the site in which a job is submitted."""


@dataclass(frozen=True)
class Always:
    """Wants the same whatever is offered and however little time is left: only the guard can save its job."""

    spot_gpus: int

    def decide(self, view: View) -> Allocation:
        """Want it."""
        return Allocation(self.spot_gpus, 0)


POLICIES: list[str | Policy] = [
    Always(0),  # waits until somebody else acts
    Always(5),  # takes no notice of what others hold
    *sorted(name for name in policies if name not in ("stochastic-horizon", "deadline-guard")),
]


@st.composite
def markets(draw: st.DrawFn) -> Market:
    """Draw a market of two pools that give, take and change their prices."""

    def pool(name: str) -> Pool:
        spot_usd = draw(st.lists(st.floats(0.1, 3.0), min_size=SLOTS, max_size=SLOTS))
        spot_gpus = draw(st.lists(st.integers(0, 9), min_size=SLOTS, max_size=SLOTS))
        return Pool(name, SLOT_HOURS, spot_usd, [4.0] * SLOTS, spot_gpus)  # type: ignore[arg-type]

    return Market((pool("here"), pool("there")))


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Draw a job with a hard deadline that on demand alone just meets, or meets with room."""
    restart = draw(st.sampled_from([0.0, 0.1, 0.7]))
    work, widths = draw(st.floats(0.5, 12.0)), draw(st.sampled_from([(1, 2, 4), (4,), (1, 2, 3, 4, 5)]))
    least = restart + work / Amdahl(0.95)(max(widths))
    return Job(
        work_gpu_hours=work,
        deadline_hours=least + draw(st.sampled_from([0.0, 0.01, 0.3, 1.0, 4.0]) | st.floats(0.0, 1.5)),
        widths=widths,
        speedup=Amdahl(0.95),
        restart_hours=restart,
        shrink_hours=draw(st.sampled_from([None, 0.5 * restart])),
        checkpoint_hours=draw(st.sampled_from([0.0, 0.15, 0.6])),
    )


@st.composite
def contexts(
    draw: st.DrawFn,
    market: Market,
    names: Sequence[str | Policy],
    tasks: st.SearchStrategy[Job] | None = None,
) -> JobContext:
    """Draw a job that is submitted anywhere inside a slot of the site, into one of its pools."""
    slot, share = draw(st.integers(0, LATEST_SLOT)), draw(st.sampled_from([0.0, 0.2, 0.5, 0.999]))
    return make_context(
        draw(jobs() if tasks is None else tasks),
        market,
        draw(st.sampled_from(market.pools)),
        policies.make(draw(st.sampled_from(names))),
        FIRST_SLOT + slot,
        began_hours=(slot + share) * SLOT_HOURS,
        origin_hours=slot * SLOT_HOURS,
    )


@st.composite
def sites(draw: st.DrawFn, names: Sequence[str | Policy], fewest: int, most: int) -> dict[str, JobContext]:
    """Draw some jobs of one site, in the order in which they are submitted."""
    market = draw(markets())
    drawn = draw(st.lists(contexts(market, names), min_size=fewest, max_size=most))
    drawn.sort(key=lambda context: context.terms.submitted_hours)
    return {f"job-{number}": context for number, context in enumerate(drawn)}


def submitted(job: str, context: JobContext) -> Submitted:
    """Return what the journal says of a job that was submitted."""
    return Submitted(
        job=job, at_hours=context.terms.submitted_hours, text="", submitted_utc="", path="", policy="",
        slot_hours=SLOT_HOURS, start_slot=context.start_slot, origin_hours=context.origin_hours,
    )  # fmt: skip


def lived(site: dict[str, JobContext], *, steps_per_slot: int = 1) -> tuple[MemoryStore, JournalState]:
    """Run the jobs of a site to their ends: a step at every border, and one whenever a job is submitted."""
    store = MemoryStore()
    engine = Engine(store, Replay(), open_job=lambda event: site[event.job])
    arrivals = {context.terms.submitted_hours for context in site.values()}
    ticks = {tick * SLOT_HOURS / steps_per_slot for tick in range(6 * SLOTS * steps_per_slot)}
    for now in sorted(arrivals | ticks):
        for job, context in site.items():
            if context.terms.submitted_hours == now:
                engine.submit(submitted(job, context))
        engine.step(now)
        if len(engine.state.jobs) == len(site) and not engine.state.active:
            break
    return store, engine.state
