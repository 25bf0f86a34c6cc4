"""Events of a journal as sentences: what happened, why, and what was paid."""

from __future__ import annotations

import json
import math
import signal

from slacktide.core.units import format_usd
from slacktide.journal import events
from slacktide.journal.events import Event
from slacktide.report import words
from slacktide.report.text.sentences.reasons import reason

ENDINGS = {
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "was cancelled",
    "budget_exhausted": "was stopped before it would cost more than its max_cost",
    "deadline_missed": "finished too late",
    "released": "is released until it is resumed",
}
"""How a job ended, or will end once its workers are gone, in words."""

OUTLOOKS = {
    "measuring": "its pace is being measured",
    "on-time": "is on time now",
    "at-risk": "is on time, but on-demand GPUs must start soon",
    "late-expected": "is expected to be late",
    "late": "can no longer be on time",
}
USES = {"boot": "starting up", "idle": "idle", "rounding": "left over on nodes in use", "work": "at work"}
"""What rented GPUs were doing, by the `use` of a stretch."""


SIMPLE: dict[type[Event], str] = {
    events.Blocked: "is blocked",
    events.Unblocked: "is no longer blocked",
    events.Released: "no longer holds GPUs; the job has not ended",
    events.CancellationAsked: "asked to cancel the job",
    events.PaceRevised: "measured the pace of the job",
    events.Closed: "controller stopped; nothing is held",
}
"""The sentences of events that have no details."""


def sentence(event: Event) -> str:
    """Write an event as a sentence, without its time and actor."""
    match event:
        case events.Decided():
            return _decided(event)
        case events.Lived():
            return _lived(event)
        case events.Submitted():
            return _submitted(event)
        case events.Stalled():
            why = event.why or f"no progress for {event.silent_s:.0f} s"
            return f"attempt {event.attempt} hangs: {words.plain(why)}"
    what = SIMPLE.get(type(event)) or _of_job(event) or _of_machine(event) or _of_site(event)
    return f"{what}: {words.plain(event.why)}" if event.why else what


def _decided(event: events.Decided) -> str:
    held = words.holding(event.spot_gpus, event.on_demand_gpus)
    if event.ending is not None:
        return f"stops all workers ({held}): {words.plain(event.why)}"
    warned = {} if event.notice_hours is None else {"notice_hours": event.notice_hours}
    why, before = reason(event.why, {**event.signals, **warned}), event.state
    if event.spot_gpus + event.on_demand_gpus and event.wanted_pool and not event.moved_from:
        held = f"{held} in {words.plain(event.pool, 60)}"
    spot, on_demand = event.spot_gpus - before.spot_gpus, event.on_demand_gpus - before.on_demand_gpus
    if event.moved_from:
        details = f"{journey(event)}{_short(event)}{_thrown_away(event)}"
        return f"moves to {words.plain(event.pool, 60)}: holds {held} ({details}): {why}"
    if spot or on_demand:
        details = f"{words.change(spot, on_demand)}{_short(event)}{_thrown_away(event)}"
        return f"{_move(spot, on_demand)} {held} ({details}): {why}"
    return f"keeps {held}: {why}" if before.gpus else f"waits and holds nothing: {why}"


def _move(spot: int, on_demand: int) -> str:
    """Return the verb of a change; one between spot and on demand is always pointed out."""
    if on_demand > 0:
        return "rents on demand: holds"
    if on_demand < 0 < spot:
        return "goes back to spot: holds"
    return "holds"


def journey(event: events.Decided) -> str:
    """Say from where a job moves, and what that costs on top of the restart."""
    hours = f" and {words.since(event.move_hours)}" if event.move_hours > 0 else ""
    cost = f"{format_usd(event.move_usd)}{hours}" if event.move_usd > 0 or hours else "nothing"
    return f"from {words.plain(event.moved_from, 60)}, moving costs {cost}"


def _short(event: events.Decided) -> str:
    """Say what was wanted, where less was available."""
    wanted = event.wanted_spot_gpus, event.wanted_on_demand_gpus
    if event.missed:
        where = f" in {words.plain(event.wanted_pool, 60)}"
        more = f" and {words.count(event.missed - 1, 'other pool')}" if event.missed > 1 else ""
        return f"; wanted {words.holding(*wanted)}{where}; {lacked(event)} there{more}"
    if wanted == (event.spot_gpus, event.on_demand_gpus):
        return ""
    return f"; wanted {words.holding(*wanted)}"


def lacked(event: events.Decided) -> str:
    """Say what was missing for the first choice of a job that may move."""
    return "too little on demand" if 0 in event.unstocked else "no such spot"


def _thrown_away(event: events.Decided) -> str:
    """Say what a change of workers costs a job that has no checkpoints."""
    lost = event.lost_gpu_hours
    return f"; starts over without a checkpoint, {words.work(lost)} of work lost" if lost > 0 else ""


def _lived(event: events.Lived) -> str:
    stretch, charge = event.priced
    took = words.since(stretch.to_hours - stretch.from_hours)
    done = f"{words.work(event.state.progress_gpu_hours)} done"
    if not stretch.gpus:
        return f"waited {took} without GPUs; {done}"
    kinds = (
        (charge.spot_usd, "spot"),
        (charge.on_demand_usd, "on demand"),
        (charge.move_usd, "to move the checkpoint"),
    )
    split = " + ".join(f"{format_usd(usd)} {kind}" for usd, kind in kinds if usd > 1e-9)
    parts = f" ({split})" if " + " in split else ""
    held = words.holding(stretch.spot_gpus, stretch.on_demand_gpus)
    return f"paid {format_usd(charge.usd)}{parts} for {took} of {held}; {done}"


def _preempted(event: events.Preempted) -> str:
    taken = event.spot_before - event.spot_left
    # Work done since the last report is not known, so it cannot be said whether any was lost.
    some = event.lost_gpu_hours > 0
    lost = f"{words.work(event.lost_gpu_hours)} of work lost" if some else "no reported work lost"
    noun = "GPU" if event.spot_before == 1 else "GPUs"
    return f"took {taken} of {event.spot_before} spot {noun} ({lost})"


def _exit(code: int) -> str:
    if code >= 0:
        return f"failed with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _submitted(event: events.Submitted) -> str:
    policy = policy_name(event.policy)
    chosen = f"{policy}, which the learner chose" if event.learning else policy
    where = f"pool {words.plain(event.pool, 60) or 'unnamed'}"
    if event.pools:
        where = f"any of {words.count(len(event.pools), 'pool')}"
    name, market = words.plain(event.job, 60), _market(event.market)
    return f"submitted {name}: policy {chosen}; {market}{where} from slot {event.start_slot}"


def policy_name(written: str) -> str:
    """Write a journal's policy, a name or JSON, as users do: the name, with its parameters if it has some."""
    try:
        spec = json.loads(written)
    except ValueError:
        return words.plain(written, 60)
    if isinstance(spec, dict) and len(spec) == 1:
        ((name, parameters),) = spec.items()
        inside = ", ".join(f"{key}={value}" for key, value in (parameters or {}).items())
        return words.plain(f"{_short_place(name)}({inside})", 80)
    return words.plain(_short_place(str(spec)), 60)


def _short_place(name: str) -> str:
    # A class in a file is written with the file's name, without its folders.
    return name.rpartition("/")[2] if ".py:" in name else name


def _market(written: str) -> str:
    try:
        spec = json.loads(written).get("spec", "")
    except (ValueError, AttributeError):
        return ""
    return f"market {words.plain(str(spec), 80)}, " if spec else ""


def ending(status: str, finish_hours: float) -> str:
    """Say what became of a job; one that missed its deadline may have been stopped before it was done."""
    if status == "deadline_missed" and not math.isfinite(finish_hours):
        return "was stopped unfinished at its deadline"
    return ENDINGS[status]


def _of_job(event: Event) -> str:
    """Say what happened to a job; empty for an event of another kind."""
    match event:
        case events.Preempted():
            return _preempted(event)
        case events.WorkerFailed():
            return f"rank {event.rank} of attempt {event.attempt} {_exit(event.exit_code)}"
        case events.Restarted():
            later = f" after {event.delay_s:.1f} s" if event.delay_s > 0 else ""
            return f"restarts the workers{later}, attempt {event.attempt}"
        case events.Ended():
            when = f" after {words.since(event.finish_hours)}" if math.isfinite(event.finish_hours) else ""
            return f"the job {ending(event.status, event.finish_hours)}{when}"
        case events.Held():
            pending = f"; {event.pending_gpus} more ordered but not ready yet" if event.pending_gpus else ""
            held = words.holding(event.spot_gpus, event.on_demand_gpus)
            return f"attempt {event.attempt} now actually holds {held}{pending}"
        case events.Lost():
            lost = f"{words.work(event.lost_gpu_hours)} of work" if event.lost_gpu_hours > 0 else "no work"
            return f"lost the workers of attempt {event.attempt}, and {lost} with them"
        case events.Resumed():
            lost = f"{words.work(event.lost_gpu_hours)} lost" if event.lost_gpu_hours > 0 else "nothing lost"
            return (
                f"attempt {event.attempt} continues at {words.work(event.after_gpu_hours)} of work; "
                f"{words.gpu_hours(event.before_gpu_hours)} had been reported before: {lost}"
            )
        case events.PreemptionAsked():
            return f"asked to preempt {'all' if event.spot_gpus is None else event.spot_gpus} spot GPUs"
        case events.HealthChanged():
            return OUTLOOKS.get(event.health, f"is {event.health} now")
        case events.Learned():
            return f"learned from the job: {words.plain(event.policy)} earned {event.share:.2f} of 1"
    return ""


def _of_machine(event: Event) -> str:
    """Say what happened to a rented machine or the cluster; empty for an event of another kind."""
    match event:
        case events.Rented():
            cost = f"{format_usd(event.usd_per_hour)}/h (ticket {words.plain(event.ticket, 40)})"
            return f"rents a machine of {_gpus_of(event)} for {cost}"
        case events.Joined():
            ticket = f"(ticket {words.plain(event.ticket, 40)})"
            ready = f"is ready after {words.since(event.boot_hours)} {ticket}"
            return f"machine {words.plain(event.machine, 40)} {ready}"
        case events.Returned():
            return f"returns a machine (ticket {words.plain(event.ticket, 40)})"
        case events.Leaked():
            name, cost = words.plain(event.machine, 40), f"{format_usd(event.usd_per_hour)}/h"
            return f"machine {name} ({_gpus_of(event)}, {cost}) has no owner and still costs money"
        case events.Reclaimed():
            return f"machine {words.plain(event.machine, 40)}, which had no owner, is gone"
        case events.ClusterSized():
            return _cluster(event)
        case events.Kept():
            stretch, charge = event.priced
            took = words.since(stretch.to_hours - stretch.from_hours)
            return f"paid {format_usd(charge.usd)} for {took} of {stretch.gpus} GPUs {USES[stretch.use]}"
    return ""


def _gpus_of(event: events.Rented | events.Leaked) -> str:
    return f"{event.gpus} {event.capacity} GPUs in {words.plain(event.pool, 80)}"


def _cluster(event: events.ClusterSized) -> str:
    gpus = f" of {event.node_gpus} GPUs" if event.node_gpus > 1 else ""
    noun = "node" if event.nodes == 1 else "nodes"
    after = words.since(event.provisioning_hours)
    later = f"; new ones are ready after {after}" if event.nodes and event.provisioning_hours else ""
    return f"sized the cluster of fleet {event.fleet}: {event.nodes} {noun}{gpus}{later}"


def _of_site(event: Event) -> str:
    """Say what happened to the journal, its clock, its market or a request; the kind of any other event."""
    match event:
        case events.JournalMade():
            return f"created the journal {words.plain(event.id, 40)}"
        case events.ClockAnchored():
            return f"read the market clock: it is at hour {event.at_hours:.2f}"
        case events.FeedTroubled():
            return "the market feed has a problem" if event.why else "the market feed works again"
        case events.ClockSet():
            return f"set the market clock: hour 0 is {event.epoch_utc}, at {event.speed:g} times real time"
        case events.ClockJumped():
            return f"noticed that the clock jumped, from hour {event.from_hours:.2f}"
        case events.Opened():
            return f"controller started: pid {event.pid} on {event.host}, version {event.version}"
        case events.SiteOpened():
            return f"opened {_market(event.market)}from {event.start_utc} on; all jobs run on it"
        case events.SubmissionAsked():
            wanted = f" with policy {policy_name(event.policy)}" if event.policy else ""
            return f"asked to run {words.plain(event.path, 80)}{wanted} (key {words.plain(event.key, 40)})"
        case events.SubmissionRefused():
            return f"refused the submission with key {words.plain(event.key, 40)}"
        case events.Remembered():
            return f"the allocator of fleet {event.fleet} decided and saved what it knows"
    return type(event).__name__
