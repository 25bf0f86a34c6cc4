"""A plan in sentences: what a job will probably cost, what it holds first, and what would change that."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from slacktide.core.units import format_duration
from slacktide.physics.pace import UNKNOWN_SPREAD
from slacktide.report import words
from slacktide.report.text.sentences.reasons import because, offer
from slacktide.results.run import CLAIRVOYANT, OVER_POOLS

if TYPE_CHECKING:
    from slacktide.results.plan import CurvePoint, JobPlan, Outcomes, Outlook


def opening(plan: JobPlan) -> list[str]:
    """Return the sentences before the tables, in paragraphs."""
    said = verdict(plan), wrong_words(plan), last_words(plan), now(plan), saving_words(plan)
    return [sentence for sentence in said if sentence]


def verdict(plan: JobPlan) -> str:
    """Say what the job will probably cost, when it will be done, and how sure that is."""
    chosen = plan.outlooks[0]
    cost, finish = chosen.futures.cost_usd, chosen.futures.finish_hours
    done = [format_duration(hours) for hours in (finish.p10, finish.p50, finish.p90)]
    place = f"in {words.plain(chosen.pool or plan.pool, 60)}"
    if plan.moving is not None and not chosen.pool:
        place = f"over {len(plan.moving.pools)} pools"
    past = "" if chosen.history is None else f" and from {_of(chosen.history)} recent starts"
    return (
        f"{words.plain(plan.job.name, 60)} with {plan.policy} {place}: probably {_usd(cost.p50)} "
        f"({_usd(cost.p10)} to {_usd(cost.p90)}), done after {done[1]} ({done[0]} to {done[2]}) of "
        f"{format_duration(plan.job.deadline_hours)}.\n"
        f"On time in {_of(chosen.futures)} simulated futures{past}. {_means(chosen)} {_compared(plan)}"
    )


def _means(chosen: Outlook) -> str:
    said = [f"{_mean(chosen.futures)} over simulated futures"]
    if chosen.history is not None:
        said.append(f"{_mean(chosen.history)} from recent starts")
    return f"The mean is {', '.join(said)}, +- standard error."


def _mean(found: Outcomes) -> str:
    return f"{found.mean_cost_usd:.2f} USD (+-{found.mean_cost_error_usd:.2f})"


def _compared(plan: JobPlan) -> str:
    """Compare the chosen policy's mean with on demand and the clairvoyant."""
    means = {outlook.policy: outlook.futures.mean_cost_usd for outlook in plan.outlooks}
    mine, said = plan.outlooks[0].futures.mean_cost_usd, []
    if means.get("on-demand"):
        said.append(f"{1 - mine / means['on-demand']:.0%} less than on demand")
    for name, where in ((CLAIRVOYANT, ""), (OVER_POOLS, " over all pools")):
        if means.get(name):
            said.append(f"{mine / means[name]:.2f}x the cost with perfect foresight{where}")
    return f"On average {', '.join(said)}." if said else ""


def wrong_words(plan: JobPlan) -> str:
    """Say what the figures become if the file is wrong about the work; empty where the work is certain."""
    wrong = plan.wrong_work
    if wrong is None:
        return ""
    hopeless = (
        f"; in {wrong.hopeless_share:.0%} there is more work than on demand from the start can do in time"
        if wrong.hopeless_share > 0
        else ""
    )
    return (
        f"These figures take `work` as the file says it. If it is off by {wrong.spread:.0%} (one standard "
        f"deviation), the cost is {_usd(wrong.cost_usd.p10)} to {_usd(wrong.cost_usd.p90)}, and "
        f"{wrong.on_time_share:.0%} of the futures are on time{hopeless}."
    )


def last_words(plan: JobPlan) -> str:
    """Say how much work the last run of the same name took; empty where none was measured."""
    earlier = plan.last_runs
    if earlier is None:
        return ""
    took, expected = earlier.last.work_gpu_hours, plan.job.work_gpu_hours
    unknown = plan.job.work_spread >= UNKNOWN_SPREAD - 1e-9
    file = "the file says that it is unknown" if unknown else f"the file says {words.gpu_hours(expected)}"
    mean = f" The mean of {earlier.runs} runs is {words.gpu_hours(earlier.mean_work_gpu_hours)}."
    return (
        f"The last run of {words.plain(plan.job.name, 60)} took {words.gpu_hours(took)} GPU-hours; {file}."
        f"{mean if earlier.runs > 1 else ''}"
    )


def now(plan: JobPlan) -> str:
    """Say where the job would start, what would be held in the first slot, and why."""
    held = " and ".join(
        words.count(gpus, kind)
        for gpus, kind in zip(plan.first_gpus, ("spot GPU", "on-demand GPU"), strict=True)
        if gpus
    )
    why = because(plan.first.reason.rule)
    if plan.moving is not None:
        if not held:
            return f"Start: {when(plan)} it would hold nothing yet, because {why}."
        return (
            f"Start in {words.plain(plan.pool, 60)}: {when(plan)} it would hold {held} there, because {why}."
        )
    said = f"Started {when(plan)} it would hold {held or 'nothing yet'}, because {why}."
    offered = offer(plan.first.reason.signals)
    return f"{said} The market then offers {offered}." if offered else said


def when(plan: JobPlan) -> str:
    """Say in which slot of its market the job would begin."""
    if plan.begin_utc is None:
        return "now"
    slot = "" if plan.moving else f", in slot {plan.begin_slot} of its market,"
    return f"at {plan.begin_utc:%Y-%m-%d %H:%M} UTC{slot}"


def saving_words(plan: JobPlan) -> str:
    """Say what moving may save over staying in the best pool, and how often the job would move."""
    if plan.moving is None or plan.moving.saving is None:
        return ""
    found = plan.moving.saving
    moved = next(one for one in plan.outlooks if not one.pool)
    stayed = next(one for one in plan.outlooks if (one.policy, one.pool) == (found.policy, found.pool))
    usual, error = stayed.futures.mean_cost_usd, f"+-{found.error_usd:.2f}"
    what = f"Moving makes no difference that these futures show ({-found.mean_usd:+.2f} USD, {error})"
    if abs(found.mean_usd) > found.error_usd:
        word, share = "save" if found.mean_usd >= 0 else "cost", abs(found.mean_usd) / usual
        what = f"Moving may {word} {abs(found.mean_usd):.2f} USD ({error}), {share:.0%},"
    return (
        f"{what} against {found.policy} in {words.plain(found.pool, 60)} ({usual:.2f} USD), the best that "
        f"stays over the same futures. It would move {moved.mean_moves:.1f} times on average, in "
        f"{found.moving_share:.0%} of the futures at all, and pay {moved.mean_move_usd:.2f} USD for that."
    )


def deadline_words(plan: JobPlan) -> list[str]:
    """Say what each other deadline would save or cost."""
    more_hours = [(point, point.at - plan.job.deadline_hours) for point in plan.by_deadline]
    return [
        f"  {format_duration(abs(hours))} {'more' if hours > 0 else 'less'} would {_change(point)}"
        for point, hours in more_hours
        if abs(hours) > 1e-9
    ]


def width_words(plan: JobPlan) -> list[str]:
    """Say what each other widest width would save or cost."""
    most = plan.by_width[-1].at if plan.by_width else 0.0
    return [
        f"  at most {point.at:g} GPUs instead of {most:g} would {_change(point)}"
        for point in plan.by_width
        if point.at < most
    ]


def _change(point: CurvePoint) -> str:
    error = f"(+-{point.more_error_usd:.2f})"
    if abs(point.more_usd) <= point.more_error_usd:
        return f"make no difference that these futures show: {point.more_usd:+.2f} USD {error}"
    return f"{'save' if point.more_usd < 0 else 'cost'} {_usd(abs(point.more_usd))} {error}"


def advice_words(plan: JobPlan) -> str:
    """Advise how often to write a checkpoint; empty where the plan has no advice."""
    advice, job = plan.checkpoints, plan.job
    if advice is None:
        return ""
    taken = f"some of {advice.spot_gpus} spot GPUs" if advice.spot_gpus > 1 else "a spot GPU"
    saving = "is assumed to take" if advice.takes_assumed else "takes"
    return (
        f"Save a checkpoint about every {words.about(advice.every_hours)}: this market takes back {taken} "
        f"every {words.about(advice.hours_between_losses)} on average, and saving {saving} "
        f"{words.about(advice.takes_hours)}; the job file {_said_of_saving(job.checkpoint_hours)}."
    )


def _said_of_saving(every_hours: float) -> str:
    if math.isinf(every_hours):
        return "has no checkpoints"
    return f"says every {format_duration(every_hours)}" if every_hours else "does not say how often"


def _of(found: Outcomes) -> str:
    return f"{round(found.on_time_share * found.runs)} of {found.runs}"


def _usd(value: float) -> str:
    return f"{value:.2f} USD"
