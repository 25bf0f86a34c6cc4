"""Why a job holds what it holds, in plain sentences: its state, the last decision and its reason, losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slacktide.core.units import format_usd
from slacktide.journal.events import Decided, Ended, Event, Preempted, Resumed, Stalled, WorkerFailed
from slacktide.physics.ledger import CENT_USD
from slacktide.report import words
from slacktide.report.text.sentences.events import ending, journey, lacked
from slacktide.report.text.sentences.reasons import because, offer
from slacktide.results.status import JobStatus

NO_NEW_DECISION = "what-is-left"
"""The reason of a decision that no policy made: after an event inside a slot the GPUs left are kept."""


def why(status: JobStatus, events: Sequence[Event]) -> list[str]:
    """Say why a job is as it is, from the events of its journal, oldest first."""
    began = events[0].at_hours if events else 0.0
    decided = [event for event in events if isinstance(event, Decided) and event.ending is None]
    ended = next((event for event in events if isinstance(event, Ended)), None)
    said = [_standing(status, over=ended is not None)]
    if ended is not None:
        said.append(_ending(ended, began))
    left = decided[-1] if decided and decided[-1].why == NO_NEW_DECISION else None
    while decided and decided[-1].why == NO_NEW_DECISION:
        decided.pop()
    if left is not None and ended is None:
        when = words.rounded(left.at_hours - began)
        said.append(f"It keeps what was left {when} after the start until {status.policy} decides again.")
    if decided:
        said += _decision(decided, status, began, last=ended is not None or left is not None)
    elif left is None:
        said.append("Nothing has been decided for this job yet.")
    if status.blocked:
        said.append(f"It cannot continue: {words.plain(status.blocked)}.")
    return [*said, *_losses(events, began)]


def _standing(one: JobStatus, *, over: bool) -> str:
    state = words.state(one.status, one.health)
    held = words.holding(one.spot_gpus, one.on_demand_gpus)
    done = f"{_done(one)} and {format_usd(one.cost_usd)} is spent"
    within = "" if one.deadline_hours is None else f" of {words.duration(one.deadline_hours)}"
    after = f"{words.rounded(one.hours)}{within}"
    if over:
        return f"{words.plain(one.name, 60)} ended after {after}: {done}."
    return f"{words.plain(one.name, 60)} is {state} after {after}: it holds {held}, {done}."


def _done(one: JobStatus) -> str:
    share = one.progress_gpu_hours / one.work_gpu_hours
    if not one.progress_estimated or one.status == "succeeded":
        return f"{words.percent(share)} of its work is done"
    if share >= 1:
        return f"it is not done after the {words.work(one.work_gpu_hours)} of work that its file says"
    return f"about {words.percent(share)} of its work is done (estimated: it reports no progress)"


def _ending(event: Ended, began: float) -> str:
    after = words.rounded(event.at_hours - began)
    text = f"It {ending(event.status, event.finish_hours)} after {after}"
    return f"{text}: {words.plain(event.why)}." if event.why else f"{text}."


def _decision(decided: Sequence[Decided], status: JobStatus, began: float, *, last: bool) -> list[str]:
    newest = same = decided[-1]
    for event in reversed(decided):
        if rule_and_holding(event) != rule_and_holding(newest):
            break
        same = event
    held = words.holding(newest.spot_gpus, newest.on_demand_gpus)
    if newest.wanted_pool and newest.spot_gpus + newest.on_demand_gpus:
        held += f" in {words.plain(newest.pool, 60)}"
    verb = "decided last" if last else "decided"
    when = words.rounded(newest.at_hours - began)
    since = "" if same is newest else f", as it had since {words.rounded(same.at_hours - began)}"
    whose = f"{status.policy} {verb}, {when} after the start, to hold {held}{since}"
    said = [f"{whose}{_grounds(newest.why)}"]
    said += _signals(newest.signals)
    said += _moves(decided, began)
    gpus = newest.wanted_spot_gpus, newest.wanted_on_demand_gpus
    if newest.missed:
        where = words.plain(newest.wanted_pool, 60)
        said.append(f"It wanted {words.holding(*gpus)} in {where}, but there was {lacked(newest)}.")
    elif gpus != (newest.spot_gpus, newest.on_demand_gpus):
        said.append(f"It wanted {words.holding(*gpus)}, but no more were available.")
    return said


def _grounds(rule: str) -> str:
    """Return the reason as the end of a sentence; an allocator's whole sentences follow it instead."""
    said = words.plain(rule).rstrip(".")
    return f". {said}." if " " in said and said[0].isupper() else f", because {because(rule)}."


def _moves(decided: Sequence[Decided], began: float) -> list[str]:
    """Say how often a job moved; of the last move, from where to where and at what cost."""
    moved = [event for event in decided if event.moved_from]
    if not moved:
        return []
    times, last = words.count(len(moved), "time"), moved[-1]
    when = words.rounded(last.at_hours - began)
    where = words.plain(last.pool, 60)
    return [f"It moved {times}, last {when} after the start to {where}: {journey(last)}."]


def rule_and_holding(event: Decided) -> tuple[str, str, int, int]:
    """Return the rule, the pool and the GPUs held; decisions in a row that agree in them are one row."""
    return event.why, event.pool, event.spot_gpus, event.on_demand_gpus


def _signals(signals: Mapping[str, float]) -> list[str]:
    """Say what the rule read: the work against the line, the time left, and the market."""
    said = []
    if "progress_gpu_hours" in signals and "line_gpu_hours" in signals:
        ahead = signals["progress_gpu_hours"] - signals["line_gpu_hours"]
        side = "ahead of" if ahead >= 0 else "behind"
        said.append(f"It was {words.gpu_hours(abs(ahead))} GPU-hours {side} an even pace to the deadline.")
    if "hours_left" in signals:
        said.append(f"{words.rounded(signals['hours_left'])} were left until the deadline.")
    if offered := offer(signals):
        said.append(f"The market offered {offered}.")
    if "usd_per_job_hour" in signals:
        said.append(f"An hour of a job's waiting was worth {format_usd(signals['usd_per_job_hour'])}.")
    if signals.get("scarcity_usd_per_gpu_hour", 0.0) >= CENT_USD:
        extra = format_usd(signals["scarcity_usd_per_gpu_hour"])
        said.append(f"Spot was short: it was worth {extra} a GPU-hour above its price.")
    if "notice_hours" in signals:
        said.append(f"A warning said that spot here would go in {words.rounded(signals['notice_hours'])}.")
    return said


def _measured_otherwise(events: Sequence[Event]) -> float:
    """Return by how much reports of new workers correct the work that was expected to be lost."""
    resumed = [event for event in events if isinstance(event, Resumed)]
    return sum(event.lost_gpu_hours - event.expected_gpu_hours for event in resumed)


def _requested(times: int, of: int) -> str:
    if times == of:
        return "because a user asked for it"
    return f"{'once' if times == 1 else f'{times} times'} because a user asked for it"


def _losses(events: Sequence[Event], began: float) -> list[str]:
    taken = [event for event in events if isinstance(event, Preempted)]
    failed = [event for event in events if isinstance(event, WorkerFailed | Stalled)]
    requested = sum(event.actor == "user" for event in taken)
    said = []
    if taken:
        lost = max(0.0, sum(event.lost_gpu_hours for event in taken) + _measured_otherwise(events))
        times = "once" if len(taken) == 1 else f"{len(taken)} times"
        when = words.rounded(taken[-1].at_hours - began)
        cost = f"{words.work(lost)} of work were lost" if lost > 0 else "no work was lost"
        who = "The market took spot GPUs" if not requested else "Spot GPUs were taken"
        by = "" if not requested else f", {_requested(requested, len(taken))}"
        said.append(f"{who} {times}, last {when} after the start{by}; {cost}.")
    if failed:
        times = "once" if len(failed) == 1 else f"{len(failed)} times"
        job = words.plain(events[0].job)
        said.append(f"Its workers failed {times}; `slacktide logs {job}` shows what they printed.")
    return said
