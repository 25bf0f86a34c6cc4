"""What policies share: the register, the decision after a deadline, and policies as compilable functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.compiled import compilable, compiled, inlined
from slacktide.core.quotes import Quote
from slacktide.core.register import Register
from slacktide.core.types import FINISH_FAST, STOP, TIME_TOLERANCE_HOURS, Allocation, Job, JobState, Reason
from slacktide.market.base import Pool
from slacktide.physics.pace import Pace, believed
from slacktide.physics.progress import Terms, on_demand_first, terms
from slacktide.physics.tariff import Tariff, tariff_of
from slacktide.policies.view import Policy, View

policies: Register[Policy] = Register(
    "policy",
    packages=("slacktide.policies", "slacktide.policies.pools"),
    entry_points="slacktide.policies",
    view="View",
    papers=("eager-failover", "sky-nomad"),
)
"""All known policies; `@policies.register` adds one."""


LATE = Reason("past-deadline")
"""The reason of every decision after a job's deadline: no policy decides any more."""

terms_of = lru_cache(maxsize=256)(terms)
"""Returns a job as bare numbers on its own clock, which begins when it is submitted."""
_tariff = lru_cache(maxsize=64)(tariff_of)


@lru_cache(maxsize=256)
def believed_terms(job: Job, pace: Pace) -> Terms:
    """Return a job as bare numbers, at its believed pace instead of the one in its file."""
    return believed(terms_of(job), pace)


@inlined
def past_deadline(terms: Terms, now_hours: float) -> bool:
    """Whether the deadline has come: then `after_deadline` in the job's file decides, and no policy does."""
    return now_hours >= terms.deadline_hours - TIME_TOLERANCE_HOURS


@inlined
def held_when_late(terms: Terms, state: JobState, quote: Quote) -> tuple[int, int]:
    """Return the spot and on-demand GPUs that a job holds once its deadline has come.

    To finish fast: the fastest width on demand, with spot for what is out of stock. To finish cheaply: spot
    that costs no more than on demand, else the narrowest width on demand, so that there is progress wherever
    on demand is available; a job without checkpoints keeps the GPUs it has. A job that is to stop keeps
    them too, for the moment until it is stopped.
    """
    if terms.after_deadline == FINISH_FAST:
        return on_demand_first(quote, terms.fastest)
    held = state.spot_gpus + state.on_demand_gpus
    if terms.after_deadline == STOP or (held > 0 and terms.checkpoint_hours == np.inf):
        return state.spot_gpus, state.on_demand_gpus
    spot = terms.fit[min(quote.spot_gpus, len(terms.fit) - 1)]
    if spot > 0 and quote.spot_usd_per_gpu_hour <= quote.on_demand_usd_per_gpu_hour:
        return spot, 0
    narrowest = 1
    while terms.fit[narrowest] == 0:
        narrowest += 1
    return 0, narrowest


def after_deadline(view: View) -> Allocation | None:
    """Return what a job holds once its deadline has come, None before it; call this before any policy."""
    terms = terms_of(view.job)
    return late(terms, view.state, view.quote) if past_deadline(terms, view.now_hours) else None


def late(terms: Terms, state: JobState, quote: Quote) -> Allocation:
    """Return the decision about a job whose deadline has come."""
    spot, on_demand = held_when_late(terms, state, quote)
    return Allocation(int(spot), int(on_demand), reason=LATE)


@inlined
def line(terms: Terms, hours: float) -> float:
    """Return the work done by this time on the straight line from submission to deadline."""
    whole = terms.deadline_hours - terms.submitted_hours
    return terms.work_gpu_hours * min(hours - terms.submitted_hours, whole) / whole


class Sight(NamedTuple):
    """The view of one slot as bare numbers, which is what a compilable rule reads."""

    terms: Terms
    tariff: Tariff
    slot: int
    """Slots since the one in which the job was submitted."""
    now_hours: float
    next_hours: float
    """When the next decision is due at the latest: the slot's end."""
    hours: float
    """From now until then; kept because `next_hours - now_hours` would differ from it in the last bits."""
    state: JobState
    quote: Quote
    at: int
    """Row of this slot in the forecasts."""
    pace: Pace
    """What is believed of the job's speed; `terms` are those at its mean."""


class Context(NamedTuple):
    """What a run gives to the rules it compiles, in addition to a `Sight` for each slot."""

    forecasts: Floats
    """[slot of the market, slots ahead - 1, (spot USD, on-demand USD, spot GPUs)]."""


NO_FORECASTS = Context(np.zeros((1, 0, 3)))


class RuleChoice(NamedTuple):
    """What a rule wants, and why: a place in its policy's `reasons()`."""

    spot_gpus: int
    on_demand_gpus: int
    why: int


@runtime_checkable
class RulePolicy(Protocol):
    """A policy that is one compilable function of numbers, so that batches can run it compiled.

    A policy need not have this form: any class with `decide` is a policy. It is for rules that are to be
    back-tested millions of times.
    """

    def rule(self, context: Context) -> tuple[Callable[..., RuleChoice], tuple[Any, ...]]:
        """Return the function `(parameters, sight) -> RuleChoice`, marked as compilable, and its parameters.

        A rule with a memory keeps it in an array among its parameters, and clears that in slot 0.
        """
        ...

    def reasons(self) -> tuple[str, ...]:
        """Return the words for the numbers in `RuleChoice.why`."""
        ...


@compilable
def inner(parameters: tuple[Any, ...], sight: Sight) -> RuleChoice:
    """Placeholder for the wrapped rule that a wrapper's rule calls; `rule_round` puts the real one here."""
    return RuleChoice(0, 0, 0)


def rule_round(
    outer: Callable[..., RuleChoice], policy: Policy, context: Context
) -> tuple[Callable[..., RuleChoice], tuple[Any, ...]]:
    """Return a wrapper's rule compiled around that of `policy`; raises TypeError if `policy` has none."""
    if not isinstance(policy, RulePolicy):
        raise TypeError(f"{policy!r} has no rule to compile")
    function, parameters = policy.rule(context)
    return compiled(outer, inner=function), parameters


@runtime_checkable
class PreparedPolicy(Protocol):
    """A policy that must compute something for each start of a back-test before it has a rule."""

    def prepared(self, job: Job, pool: Pool, start: int, neighbours: tuple[Pool, ...]) -> Policy:
        """Return a rule policy that decides the same for a run from this start."""
        ...


@runtime_checkable
class ForeseeingPolicy(PreparedPolicy, Protocol):
    """A prepared policy that can compute this once for many futures that share one past."""

    def prepared_together(
        self, job: Job, futures: Sequence[Pool], start: int, neighbours: tuple[Pool, ...]
    ) -> Sequence[Policy]:
        """Return a rule policy for each of some futures of one past; none learns after the start."""
        ...

    def effort(self, job: Job, slot_hours: float) -> float:
        """Return about how many values must be computed for one start."""
        ...

    def coarser(self) -> Policy:
        """Return a form of this policy that computes faster and decides nearly as well."""
        ...


def roams(policy: Policy) -> bool:
    """Whether a policy chooses the pool that a job is in.

    A class says so with an attribute, `roams = True`; a wrapper roams if the policy inside it does.
    """
    inner = getattr(policy, "inner", None)
    return roams(inner) if isinstance(inner, Policy) else bool(getattr(policy, "roams", False))


def heeds_warnings(policy: Policy) -> bool:
    """Whether a policy declares that it reacts to a warning that the spot it holds will be taken."""
    return bool(getattr(policy, "heeds_warnings", False))


def warning_of(view: View) -> dict[str, float]:
    """Return a job's warning as a signal of a decision; empty if it was not warned."""
    return {} if view.notice_hours is None else {"notice_hours": view.notice_hours}


def warned_slots(view: View) -> int | None:
    """Return in how many slots the spot that a job holds will be gone; None if no warning says so.

    Spot that goes in the middle of a slot counts as there until the slot's end.
    """
    if view.notice_hours is None or not view.state.spot_gpus:
        return None
    waited_hours = max(0.0, view.slot_hours - view.hours)
    return max(1, math.ceil((view.notice_hours + waited_hours) / view.slot_hours - 1e-6))


def sight(view: View) -> Sight:
    """Reduce a view to the bare numbers that rules read; `terms` are at the job's believed pace."""
    terms, tariff = believed_terms(view.job, view.pace), _tariff(view.job.billing, view.slot_hours)
    now, following = view.now_hours, view.next_hours  # the first slot of a job may be shorter than others
    return Sight(terms, tariff, view.slot, now, following, view.hours, view.state, view.quote, 0, view.pace)


def decide_by_rule(policy: RulePolicy, view: View) -> Allocation:
    """Decide by a policy's rule, run as plain Python and without forecasts."""
    function, parameters = policy.rule(NO_FORECASTS)
    choice = function(parameters, sight(view))
    return Allocation(
        int(choice.spot_gpus),
        int(choice.on_demand_gpus),
        reason=Reason(policy.reasons()[choice.why], signals(view)),
    )


def signals(view: View) -> dict[str, float]:
    """Return the figures that are reported with the reason of a decision."""
    return {
        "progress_gpu_hours": view.state.progress_gpu_hours,
        "line_gpu_hours": view.job.line_gpu_hours(view.now_hours),
        "hours_left": view.hours_left,
        "spot_gpus": view.quote.spot_gpus,
        "spot_usd_per_gpu_hour": view.quote.spot_usd_per_gpu_hour,
    }
