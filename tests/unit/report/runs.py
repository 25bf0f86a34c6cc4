"""Journals of small runs, written from back-tests: everyday ones and odd ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from slacktide.core.quotes import Quote
from slacktide.core.types import Job, JobState, Wish
from slacktide.engine.bills.bill import run_result
from slacktide.journal import events
from slacktide.journal.events import Decided, Ended, Event, Lived, Preempted, Submitted
from slacktide.market.base import Pool
from slacktide.physics.ledger import Priced, Stretch
from slacktide.physics.pace import Pace
from slacktide.physics.tariff import Charge
from slacktide.policies.base import policies
from slacktide.results.bill import Bill
from slacktide.results.run import CLAIRVOYANT, ON_DEMAND_ALONE, Run, RunResult, result_of
from slacktide.simulation import plain
from slacktide.simulation.batch import run_in_detail
from slacktide.simulation.plain import guarded
from tests import build

from .conftest import NASTY, job, pool

BEGAN = 2.5
"""When the runs begin on their journal's clock."""


def submitted(name: str = "job") -> Submitted:
    """Return a submission of an everyday job."""
    return build.submitted(
        name,
        at_hours=BEGAN,
        actor="user",
        text="name: job\n",
        path="/somewhere/job.yaml",
        policy=json.dumps({"uniform-progress": {"gang": True}}),
        learning=True,
        market=json.dumps({"spec": "synthetic:h100"}),
        pool="zone-a",
        start_slot=3,
        envs={"SIZE": "3"},
    )


def journal_of(run: Run, of: Job, where: Pool, *, name: str = "job") -> list[Event]:
    """Write a back-test's run as the engine would have."""
    told: list[Event] = [submitted(name)]
    held, attempt = (0, 0), 0
    for slot in run.slots:
        begin, at_slot = BEGAN + slot.slot * where.slot_hours, 3 + slot.slot
        if slot.lost_gpus:
            told.append(
                Preempted(
                    job=name, at_hours=begin, actor="market", why="the market left some",
                    slot=at_slot, spot_before=slot.before.spot_gpus + slot.lost_gpus,
                    spot_left=slot.before.spot_gpus, lost_gpu_hours=slot.lost_gpu_hours,
                )
            )  # fmt: skip
        attempt += (slot.spot_gpus, slot.on_demand_gpus) != held or slot.lost_gpus > 0
        held = slot.spot_gpus, slot.on_demand_gpus
        reason = slot.wanted.reason
        told.append(
            Decided(
                job=name, at_hours=begin, why=reason.rule, signals=dict(reason.signals), slot=at_slot,
                quote=slot.quote, state=slot.before, pool=where.name, spot_gpus=held[0],
                on_demand_gpus=held[1], wanted_spot_gpus=slot.wanted.spot_gpus,
                wanted_on_demand_gpus=slot.wanted.on_demand_gpus, attempt=attempt,
            )
        )  # fmt: skip
        one, charge = slot.lived
        end = BEGAN + one.to_hours
        stretch = one._replace(payer=name, slot=at_slot, from_hours=begin, to_hours=end)
        after = slot.after._replace(finish_hours=slot.after.finish_hours + BEGAN)
        told.append(Lived(job=name, at_hours=end, priced=Priced(stretch, charge), state=after))
    status: events.Status = "succeeded" if run.on_time else "deadline_missed"
    if run.slots[-1].after.exhausted:
        status = "budget_exhausted"
    return [*told, Ended(job=name, at_hours=told[-1].at_hours, status=status, finish_hours=run.finish_hours)]


def back_test(policy: str = "uniform-progress", **changes: Any) -> tuple[Job, Pool, Run]:
    """Run the everyday job with changes on the everyday pool, from slot 3."""
    of, where = job(**changes), pool()
    return of, where, plain.run(of, where, guarded(policies.make(policy), of), start=3)


class Told(NamedTuple):
    """A run with what stands beside it, as its journal tells it."""

    runs: list[RunResult]
    events: list[Event]

    @property
    def run(self) -> RunResult:
        return self.runs[0]


def told(policy: str = "uniform-progress", *, name: str = "job", **changes: Any) -> Told:
    """Return such a run from its journal, on demand alone and the clairvoyant beside it."""
    of, where, run = back_test(policy, **changes)
    alone = plain.run(of, where, policies.make("on-demand"), start=3, name=ON_DEMAND_ALONE)
    best = run_in_detail(of, where, None, 3, name=CLAIRVOYANT)
    events = journal_of(run, of, where, name=name)
    beside = [result_of(other, of, where) for other in (alone, best)]
    return Told([run_result(events, of, where, policy), *beside], events)


def bill_of(run: RunResult) -> Bill:
    """Add a run up to a bill."""
    paid = run.bill
    return Bill(
        job=run.name, status=run.status or "running", cost_usd=paid.cost_usd,
        spot_usd=paid.spot_usd, on_demand_usd=paid.on_demand_usd, spot_gpu_hours=paid.spot_gpu_hours,
        on_demand_gpu_hours=paid.on_demand_gpu_hours,
        work_gpu_hours=run.job.work_gpu_hours, done_gpu_hours=run.laps[-1].after_gpu_hours,
        finish_hours=run.finish_hours, deadline_hours=run.job.deadline_hours, on_time=run.on_time,
        preemptions=len(run.losses), restarts=2, failures=0, lost_gpu_hours=run.lost_gpu_hours,
        on_demand_alone_usd=400.0, clairvoyant_usd=100.0,
    )  # fmt: skip


ODD_RUNS: dict[str, Callable[[], Told]] = {
    "everyday": told,
    "all spot": lambda: told("maximal-spot"),
    "all on demand": lambda: told("on-demand"),
    "money ends": lambda: told(max_cost_usd=20.0),
    "money ends at once": lambda: told(max_cost_usd=0.001, billing="slot"),
    "late": lambda: told(work_gpu_hours=500.0),
    "soft": lambda: told("maximal-spot", value_usd=300.0, worthless_after_hours=9.0),
    "nasty names": lambda: told(name=NASTY),
}

QUOTE = Quote(2.0, 10.0, 3)
STRETCH = Stretch(
    payer="job", use="work", slot=7, from_hours=6.0, to_hours=6.5, held_hours=0.5, pool="zone-a", spot_gpus=1,
    on_demand_gpus=2, quote=QUOTE, pause_hours=0.1, productive_hours=0.4,
)  # fmt: skip

ONE_OF_EACH: list[Event] = [
    events.ClockSet(at_hours=0.0, epoch_utc="2026-01-01T00:00:00+00:00", speed=600.0),
    events.Opened(at_hours=0.0, pid=12, host="here", version="0.1.0"),
    submitted(),
    events.Preempted(
        job="job", at_hours=6.0, actor="market", why="the market left 1", slot=7, spot_before=4, spot_left=1,
        lost_gpu_hours=0.4,
    ),
    events.Decided(
        job="job", at_hours=6.0, why="behind-line", slot=7, quote=QUOTE, state=JobState(1, 0), spot_gpus=1,
        on_demand_gpus=2, wanted_spot_gpus=1, wanted_on_demand_gpus=3, pool="zone-a", attempt=4,
        signals={"progress_gpu_hours": 4.1, "line_gpu_hours": 5.0, "spot_usd_per_gpu_hour": 2.1},
    ),
    events.Decided(
        job="job", at_hours=6.2, why="moving-pays", slot=7, quote=QUOTE, state=JobState(1, 0), spot_gpus=2,
        on_demand_gpus=0, wanted_spot_gpus=4, wanted_on_demand_gpus=0, pool="zone-b", attempt=5,
        wanted_pool="zone-c", instead=(Wish(2, 0, "zone-b"), Wish(0, 2, "zone-a")), missed=1,
        moved_from="zone-a", move_usd=1.0, move_hours=0.2, notice_hours=1 / 6,
    ),
    events.SiteOpened(
        at_hours=2.5, market='{"spec": "synthetic:h100"}', start_utc="2025-01-01T01:30:00+00:00"
    ),
    events.SubmissionAsked(
        at_hours=2.6, actor="user", key="k-1", text="name: b", path="/b.yaml", policy='"ahap"'
    ),
    events.SubmissionRefused(at_hours=2.7, key="k-1", exit_code=2, why="b.yaml: it must say what to run"),
    events.Lived(
        job="job", at_hours=6.5, priced=Priced(STRETCH, Charge(11.0, 10.0)),
        state=JobState(1, 2, progress_gpu_hours=5.2),
    ),
    events.ClusterSized(
        at_hours=6.5, fleet="f1", nodes=3, node_gpus=4, provisioning_hours=0.1, idle_grace_hours=0.0
    ),
    events.Kept(
        at_hours=6.5, fleet="f1",
        priced=Priced(STRETCH._replace(payer="fleet:f1", use="idle", spot_gpus=0), Charge(10.0, 10.0)),
    ),
    events.Remembered(at_hours=6.5, fleet="f1", memory="{}"),
    events.WorkerFailed(
        job="job", at_hours=6.6, actor="worker", attempt=4, rank=1, exit_code=-9, checkpointed_gpu_hours=5.0,
    ),
    events.Stalled(job="job", at_hours=6.7, attempt=5, silent_s=61.0, checkpointed_gpu_hours=5.0),
    events.Restarted(job="job", at_hours=6.7, attempt=6, delay_s=2.0, why="failure 1 in a row, 3 allowed"),
    events.PreemptionAsked(job="job", at_hours=6.8, actor="user", spot_gpus=2),
    events.CancellationAsked(job="job", at_hours=6.9, actor="user"),
    events.HealthChanged(job="job", at_hours=7.0, health="at-risk", why="on demand must start within 0.20 h"),
    events.Released(job="job", at_hours=7.0, why="the controller is stopping"),
    events.ClockJumped(job="job", at_hours=9.0, from_hours=7.0, why="4 slots passed unseen"),
    events.Ended(job="job", at_hours=10.0, status="succeeded", finish_hours=7.5),
    events.Learned(job="job", at_hours=10.0, policy="uniform-progress", share=0.8),
    events.Closed(at_hours=10.0),
    events.JournalMade(at_hours=0.0, id="0123abcd"),
    events.ClockAnchored(
        at_hours=0.5, utc="2026-01-01T00:00:00+00:00", boot_id="b", boot_s=12.5, why="the machine was booted"
    ),
    events.Held(job="job", at_hours=6.0, attempt=4, spot_gpus=1, on_demand_gpus=0, pending_gpus=2),
    events.Lost(job="job", at_hours=6.1, attempt=4, on_demand_gpus=2, lost_gpu_hours=0.2, why="they went"),
    events.Blocked(job="job", at_hours=6.2, why="secret TOKEN must have a value, got none"),
    events.Unblocked(job="job", at_hours=6.3),
    events.FeedTroubled(at_hours=6.4, why="prices.csv must stay readable"),
    events.PaceRevised(
        job="job",
        at_hours=10.0,
        gpus=4,
        measured_hours=0.5,
        pace=Pace(-0.2, 0.01, 0.002, 0.0, 0.001, 0.5),
        why="30 minutes on 4 GPUs: 0.82 times the pace of its file",
    ),
    events.Resumed(
        job="job", at_hours=6.8, actor="worker", attempt=6, before_gpu_hours=5.2, after_gpu_hours=5.0,
        lost_gpu_hours=0.2, expected_gpu_hours=0.4,
    ),
    events.Rented(at_hours=6.0, ticket="1-f00d", capacity="spot", pool="zone-a", gpus=4, usd_per_hour=9.5),
    events.Joined(at_hours=6.1, ticket="1-f00d", machine="i-1", address="10.0.0.1", boot_hours=0.1),
    events.Returned(at_hours=6.5, ticket="1-f00d", why="interrupted"),
    events.Leaked(
        at_hours=6.5, machine="i-1", ticket="1-f00d", capacity="spot", pool="zone-a", gpus=4,
        usd_per_hour=2.5, stray_hours=0.2, why="its ticket is closed",
    ),
    events.Reclaimed(at_hours=6.5, machine="i-1"),
]  # fmt: skip
"""An event of every kind."""

WRITTEN = datetime(2026, 1, 1, 12, tzinfo=UTC)
