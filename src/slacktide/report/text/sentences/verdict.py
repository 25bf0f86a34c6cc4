"""What a back-test comes to, in sentences: which policy to take, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from slacktide.core.types import Job
from slacktide.core.units import format_usd
from slacktide.physics.ledger import CENT_USD
from slacktide.report import words
from slacktide.results.run import CLAIRVOYANT, CLAIRVOYANTS, IN_THE_POOL, OVER_POOLS

if TYPE_CHECKING:
    from slacktide.results.comparison import Comparison, PolicySummary


def by_value(job: Job) -> bool:
    """Whether policies are ranked by what is left of the result's value, not by time and cost."""
    return not job.hard and job.value_usd > 0


def best(comparison: Comparison) -> PolicySummary:
    """Return the policy to take: in time most often, then cheapest; with a soft deadline worth most."""
    able = [one for one in comparison.summary if one.policy not in CLAIRVOYANTS] or comparison.summary
    return max(able, key=_rank(comparison.job))


def _rank(job: Job) -> Callable[[PolicySummary], tuple[float, float]]:
    if by_value(job):
        return lambda one: (one.mean_utility_usd, 0.0)
    return lambda one: (one.on_time_share, -one.mean_cost_usd)


def verdict(comparison: Comparison) -> str:
    """Say which policy did best and what it paid compared with the clairvoyant and on demand."""
    one = best(comparison)
    if one.on_time_share <= 0 and not by_value(comparison.job):
        starts = len(words.runs_of(comparison, one.policy))
        return "No policy was on time" + (f" from any of {starts} starts." if starts > 1 else ".")
    over = " over pools" if comparison.roams else ""
    paid = f"paid {_against_clairvoyant(one)}{over}{_against_on_demand(comparison, one)}"
    worth = f", leaving {format_usd(one.mean_utility_usd)} of value" if by_value(comparison.job) else ""
    where = f" in {words.plain(one.pool)}" if one.pool else ""
    said = f"{words.plain(one.policy)}{where} was {_when(comparison, one.policy)} and {paid}{worth}."
    return " ".join(filter(None, (said, _moving(comparison))))


def _moving(comparison: Comparison) -> str:
    """Say what moving saved or cost against the best that stayed in one pool; nothing where no job moves."""
    able = [one for one in comparison.summary if one.policy not in CLAIRVOYANTS]
    moved, stayed = [one for one in able if not one.pool], [one for one in able if one.pool]
    if not comparison.roams or not moved or not stayed:
        return ""
    rank = _rank(comparison.job)
    first, other = max(moved, key=rank), max(stayed, key=rank)
    best = f"{words.plain(other.policy)} in {words.plain(other.pool)}, the best that stayed in one pool"
    less = other.mean_cost_usd - first.mean_cost_usd
    share = f" ({words.percent(abs(less) / other.mean_cost_usd)})" if other.mean_cost_usd > 0 else ""
    paid = f"{format_usd(abs(less))}{share} {'less' if less >= 0 else 'more'} than"
    paid = "as much as" if abs(less) < CENT_USD else paid
    return f"{words.plain(first.policy)} moved {first.mean_moves:.1f} times a run and paid {paid} {best}."


def caveats(comparison: Comparison) -> list[str]:
    """Say what the verdict alone would hide: a wrong file, lateness, who paid less but was late, no money."""
    one = best(comparison)
    said = [words.truth(comparison.job, comparison.truth)]
    said += ["No policy was on time from every start."] if 0 < one.on_time_share < 1 else []
    said += [_cheaper_but_late(comparison, one, other) for other in comparison.summary]
    said += [_money_ended(comparison), _clairvoyant_late(comparison), _clairvoyant_spare(comparison)]
    said += [_rounded(comparison)]
    return [sentence for sentence in said if sentence]


def _when(comparison: Comparison, policy: str) -> str:
    runs = words.runs_of(comparison, policy)
    if len(runs) == 1:
        return "on time" if runs[0].on_time else "late"
    return f"on time from {words.in_time(comparison, policy)} starts"


def _against_clairvoyant(one: PolicySummary) -> str:
    if not math.isfinite(one.cost_over_clairvoyant):
        return f"{format_usd(one.mean_cost_usd)} where the clairvoyant paid nothing"
    return f"{words.ratio(one.cost_over_clairvoyant)} the clairvoyant"


def _against_on_demand(comparison: Comparison, one: PolicySummary) -> str:
    share = words.against_on_demand(comparison, one)
    if share is None:
        return ""
    if round(share, 2) == 0:
        return ", as much as on demand"
    return f", {words.percent(abs(share))} {'less' if share < 0 else 'more'} than on demand"


def _cheaper_but_late(comparison: Comparison, one: PolicySummary, other: PolicySummary) -> str:
    later, cheaper = other.on_time_share < one.on_time_share, other.mean_cost_usd < one.mean_cost_usd
    if other.policy in CLAIRVOYANTS or not (later and cheaper):
        return ""
    late = sum(not run.on_time for run in words.runs_of(comparison, other.policy))
    paid = f"{words.plain(other.policy)} paid less ({format_usd(other.mean_cost_usd)} on average)"
    return f"{paid} but was late from {words.count(late, 'start')}."


def _money_ended(comparison: Comparison) -> str:
    said = []
    for one in comparison.summary:
        runs = words.runs_of(comparison, one.policy)
        never = sum(not math.isfinite(run.finish_hours) for run in runs)
        if never:
            said.append(f"{words.plain(one.policy)} {never} of {len(runs)} times")
    return f"The maximum cost was reached before the work was done: {', '.join(said)}." if said else ""


def _clairvoyant_spare(comparison: Comparison) -> str:
    """Say what the yardstick of a wide job leaves open, so that it is not taken for the best then."""
    if comparison.clairvoyant_spare_usd is None:
        return ""
    known = next(one for one in comparison.summary if one.policy == CLAIRVOYANT)
    said = words.spare(comparison.clairvoyant_spare_usd, known.mean_cost_usd)
    return f"The clairvoyant is close, not exact: {said} on average."


def _rounded(comparison: Comparison) -> str:
    """Say where the clairvoyant over pools was beaten by that of one pool, as rounding lets it be."""
    if not comparison.roams:
        return ""
    over, stayed = (words.runs_of(comparison, name) for name in (OVER_POOLS, IN_THE_POOL))
    more = [one.cost_usd - other.cost_usd for one, other in zip(over, stayed, strict=True)]
    more = [usd for usd in more if usd >= CENT_USD]
    if not more or by_value(comparison.job):
        return ""
    return (
        f"The clairvoyant over pools is close, not exact: from {words.count(len(more), 'start')} the one in "
        f"the pool paid less, by at most {format_usd(max(more))}."
    )


def _clairvoyant_late(comparison: Comparison) -> str:
    runs = words.runs_of(comparison, OVER_POOLS if comparison.roams else CLAIRVOYANT)
    late = sum(not run.on_time for run in runs)
    return f"Even the clairvoyant was late from {late} of {words.count(len(runs), 'start')}." if late else ""
