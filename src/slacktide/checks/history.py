"""Sample events, at least one of every kind, with which stores and readers of journals are tested."""

from __future__ import annotations

import math

from slacktide.core.quotes import Quote
from slacktide.core.types import JobState, Wish
from slacktide.journal import events
from slacktide.journal.events import Event
from slacktide.physics.ledger import Priced, Stretch
from slacktide.physics.pace import Pace
from slacktide.physics.tariff import Charge

JOB = "fine-tune-1"

STATE = JobState(
    spot_gpus=3, progress_gpu_hours=0.1 + 0.2, checkpointed_gpu_hours=5e-324, since_checkpoint_hours=-0.0,
    cost_usd=1.7976931348623157e308,
)  # fmt: skip
"""Numbers that change unless every bit of them is kept."""

STRETCH = Stretch(
    payer=JOB, use="work", slot=1, from_hours=0.5, to_hours=1.0, held_hours=0.5, pool="zone-a", spot_gpus=3,
    on_demand_gpus=0, quote=Quote(0.1, 2.5, 4, 8), pause_hours=0.1, productive_hours=0.4,
)  # fmt: skip

HISTORY: tuple[Event, ...] = (
    # The beginning of a journal, and requests.
    events.JournalMade(at_hours=-0.0, id="0123456789abcdef"),
    events.ClockSet(at_hours=-0.0, epoch_utc="2025-10-04T00:00:00Z", speed=60.0),
    events.ClockAnchored(
        at_hours=0.1, utc="2025-10-04T00:06:00+00:00", boot_id="b-1", boot_s=0.1 + 0.2, why="a new boot"
    ),
    events.Opened(at_hours=0.0, pid=4711, host="höst", version="0.1.0"),
    events.SiteOpened(
        at_hours=1 / 3, market='{"spec": "synthetic:h100"}', start_utc="2025-09-01T00:00:00+00:00"
    ),
    events.SubmissionAsked(
        at_hours=0.0, actor="user", key="k-1", text="name: other\n", path="/jobs/other.yaml",
        envs={"SIZE": "3"}, policy='"ahap"', pool="zone-a", job_class="small",
    ),
    events.SubmissionRefused(at_hours=0.0, key="k-1", exit_code=3, why="it cannot be done in time"),
    events.Submitted(
        job=JOB, at_hours=1 / 3, actor="user", text="name: fine-tune\nwork: 8 gpu-hours\n",
        submitted_utc="2025-10-04T00:20:00+00:00",
        path="/jobs/\udcff.yaml", policy='"auto"', learning=True, slot_hours=0.5, start_slot=0,
        envs={"NAME": "a=b\0c"}, key="k-2", pool="zone-a", pools=("zone-a", "zone-b"), sight="tried",
    ),
    # A job runs.
    events.Decided(
        job=JOB, at_hours=0.5, why='spot "lives" longer than a restart takes', slot=1,
        quote=Quote(0.1, 2.5, 4), state=STATE, spot_gpus=3, on_demand_gpus=0, wanted_spot_gpus=4,
        wanted_on_demand_gpus=0, signals={"slack_hours": math.inf, "lead": -math.inf},
        memory=(1e-9, -0.0), pool="zone-a", attempt=1, ending=None, wanted_pool="zone-b",
        instead=(Wish(3, 0, "zone-a"), Wish()), missed=1, moved_from="zone-b", move_usd=0.1 + 0.2,
        move_hours=1 / 3, unstocked=(0,), notice_hours=1 / 6,
    ),
    events.Held(job=JOB, at_hours=0.5, attempt=1, spot_gpus=2, on_demand_gpus=0, pending_gpus=1),
    events.Lived(job=JOB, at_hours=1.0, priced=Priced(STRETCH, Charge(usd=0.15)), state=STATE),
    events.ClusterSized(
        at_hours=1.0, fleet="f00d", nodes=2, node_gpus=4, provisioning_hours=0.1, idle_grace_hours=0.0
    ),
    events.Kept(
        at_hours=1.0, fleet="f00d",
        priced=Priced(STRETCH._replace(payer="fleet:f00d", use="boot"), Charge(usd=0.1 + 0.2)),
    ),
    # As `json.dumps` writes it: a journal keeps the JSON value, and returns its text in that form.
    events.Remembered(at_hours=1.0, fleet="f00d", memory='{"paths": [[1, "\\u00fc"]]}'),
    events.Remembered(at_hours=1.5, fleet="f00d", reserved_usd=12.5, usd_per_job_hour=0.75),
    events.Rented(
        at_hours=1.0, ticket="1-f00d", capacity="spot", pool="zone-a", gpus=4, usd_per_hour=0.1 + 0.2
    ),
    events.Joined(at_hours=1.0, ticket="1-f00d", machine="i-1", address="10.0.0.1", boot_hours=5e-324),
    events.HealthChanged(job=JOB, at_hours=1.0, health="at-risk"),
    # Losses, failures and other trouble.
    events.PreemptionAsked(job=JOB, at_hours=1.0, actor="user"),
    events.PreemptionAsked(job="other", at_hours=1.0, actor="user", spot_gpus=0),
    events.Preempted(
        job=JOB, at_hours=1.0, actor="market", slot=2, spot_before=3, spot_left=1, lost_gpu_hours=0.2
    ),
    events.WorkerFailed(
        job=JOB, at_hours=1.1, actor="worker", attempt=2, rank=0, exit_code=-9, checkpointed_gpu_hours=0.5
    ),
    events.Lost(
        job=JOB, at_hours=1.1, attempt=2, on_demand_gpus=1, lost_gpu_hours=0.1,
        checkpointed_gpu_hours=5e-324,
    ),
    events.Blocked(job=JOB, at_hours=1.1, why="secret TOKEN must have a value"),
    events.Unblocked(job=JOB, at_hours=1.1),
    events.FeedTroubled(at_hours=1.1, why="prices.csv, line 7: a price must be >= 0"),
    events.Restarted(job=JOB, at_hours=1.1, attempt=3, delay_s=2.0),
    events.Stalled(job=JOB, at_hours=1.2, attempt=3, silent_s=600.5, checkpointed_gpu_hours=0.5),
    events.Resumed(
        job=JOB, at_hours=1.3, actor="worker", attempt=4, before_gpu_hours=0.1 + 0.2,
        after_gpu_hours=5e-324, lost_gpu_hours=0.3, expected_gpu_hours=0.0,
    ),
    events.ClockJumped(at_hours=9.0, from_hours=1.3),
    # The end of a job, and of what was rented.
    events.CancellationAsked(job=JOB, at_hours=9.1, actor="user", why="seen enough"),
    events.Released(job="other", at_hours=9.1),
    events.Ended(job=JOB, at_hours=9.2, status="cancelled", finish_hours=math.inf),
    events.Learned(job=JOB, at_hours=9.2, policy="ahap", share=2 / 3),
    events.PaceRevised(
        job=JOB, at_hours=9.3, gpus=4, measured_hours=0.5,
        pace=Pace(-0.2, 0.01, 0.002, 0.0, 0.001, 0.5),
        why="30 minutes on 4 GPUs: 0.82 times the pace of its file",
    ),
    events.Returned(
        at_hours=9.3, ticket="1-f00d", left=True, why="interrupted", cause="interrupted",
        ended_utc="2026-01-01T00:00:00+00:00",
    ),
    events.Leaked(
        at_hours=9.3, ticket="1-f00d", machine="i-1", capacity="spot", pool="zone-a", gpus=4,
        usd_per_hour=0.1 + 0.2, stray_hours=1 / 3, why="its ticket is closed",
    ),
    events.Reclaimed(at_hours=9.3, machine="i-1"),
    events.Closed(at_hours=9.3),
)  # fmt: skip
"""Events of every kind, in an order in which they could happen."""
