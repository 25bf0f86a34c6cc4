"""What policies share: the register, and the short form of a policy as one rule of numbers."""

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
"""Why a job that missed its deadline holds what it holds: no policy decides any more."""

terms_of = lru_cache(maxsize=256)(terms)
"""A job as bare numbers on its own clock, which begins when it is submitted."""
_tariff = lru_cache(maxsize=64)(tariff_of)


@lru_cache(maxsize=256)
def believed_terms(job: Job, pace: Pace) -> Terms:
    """Return a job as bare numbers at the pace that is believed."""
    return believed(terms_of(job), pace)


@inlined
def past_deadline(terms: Terms, now_hours: float) -> bool:
    """Whether the deadline has come: from then on no policy decides; the job's file says what is done."""
    return now_hours >= terms.deadline_hours - TIME_TOLERANCE_HOURS


@inlined
def held_when_late(terms: Terms, state: JobState, quote: Quote) -> tuple[int, int]:
    """Return the spot and on-demand GPUs that a job holds once its deadline has come.

    Fast: the fastest width on demand, with spot for what is out of stock. Cheaply: spot while there is some
    that is not more expensive, else the narrowest width on demand, so that there is progress on any market
    that has it; who has no checkpoints keeps what there is. A job that stops holds what it holds for the
    moment that is left to it.
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
    """Return what a job holds once its deadline has come, None before: comes before any policy."""
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
    """The view of one slot in bare numbers, as a compilable rule reads it."""

    terms: Terms
    tariff: Tariff
    slot: int
    """The job's own, counted from the slot in which it was submitted."""
    now_hours: float
    next_hours: float
    """When the next decision is taken whatever happens: the slot's end."""
    hours: float
    """From now until then; kept as a number because `next - now` differs from it in the last bits."""
    state: JobState
    quote: Quote
    at: int
    """Row of this slot in the forecasts."""
    pace: Pace
    """What is believed of the job's speed; `terms` are those at its mean."""


class Context(NamedTuple):
    """What a run gives to the rules it compiles, in addition to each slot's sight."""

    forecasts: Floats
    """[slot of the market, slots ahead - 1, (spot USD, on-demand USD, spot GPUs)]."""


NO_FORECASTS = Context(np.zeros((1, 0, 3)))


class RuleChoice(NamedTuple):
    """What a rule wants, and which of its reasons applied."""

    spot_gpus: int
    on_demand_gpus: int
    why: int


@runtime_checkable
class RulePolicy(Protocol):
    """A policy that is one compilable function of numbers, so that batches can run it compiled.

    A policy needs none of this: any class with `decide` is one. This form is for rules that
    are to be back-tested millions of times.
    """

    def rule(self, context: Context) -> tuple[Callable[..., RuleChoice], tuple[Any, ...]]:
        """Return the marked function `(parameters, sight) -> RuleChoice` and its parameters.

        A rule that remembers keeps an array among its parameters and clears it in slot 0.
        """
        ...

    def reasons(self) -> tuple[str, ...]:
        """Return the words for the numbers in `RuleChoice.why`."""
        ...


@compilable
def inner(parameters: tuple[Any, ...], sight: Sight) -> RuleChoice:
    """Stand for the wrapped rule in a rule round it: `rule_round` puts the real one here."""
    return RuleChoice(0, 0, 0)


def rule_round(
    outer: Callable[..., RuleChoice], policy: Policy, context: Context
) -> tuple[Callable[..., RuleChoice], tuple[Any, ...]]:
    """Return a rule round a policy's own, compiled; raises TypeError when the policy has none."""
    if not isinstance(policy, RulePolicy):
        raise TypeError(f"{policy!r} has no rule to compile")
    function, parameters = policy.rule(context)
    return compiled(outer, inner=function), parameters


@runtime_checkable
class PreparedPolicy(Protocol):
    """A policy whose compiled rule must be worked out for each start of a run."""

    def prepared(self, job: Job, pool: Pool, start: int, neighbours: tuple[Pool, ...]) -> Policy:
        """Return a rule policy that decides the same for a run from this start."""
        ...


@runtime_checkable
class ForeseeingPolicy(PreparedPolicy, Protocol):
    """A policy that solves for each start, and can share that among futures that begin alike."""

    def prepared_together(
        self, job: Job, futures: Sequence[Pool], start: int, neighbours: tuple[Pool, ...]
    ) -> Sequence[Policy]:
        """Return a rule policy for each of some futures of one past; it learns nothing after the start."""
        ...

    def effort(self, job: Job, slot_hours: float) -> float:
        """Return how much work one start is: about how many values are worked out."""
        ...

    def coarser(self) -> Policy:
        """Return a quicker form of it that decides nearly as well."""
        ...


def roams(policy: Policy) -> bool:
    """Whether a policy chooses the pool that a job is in.

    A class says so with an attribute, `roams = True`; what wraps another policy does what that one does.
    """
    inner = getattr(policy, "inner", None)
    return roams(inner) if isinstance(inner, Policy) else bool(getattr(policy, "roams", False))


def heeds_warnings(policy: Policy) -> bool:
    """Whether a policy declares that it decides otherwise where the spot that it holds is warned to go."""
    return bool(getattr(policy, "heeds_warnings", False))


def warning_of(view: View) -> dict[str, float]:
    """Return the warning that a job got, as a signal; nothing where it got none."""
    return {} if view.notice_hours is None else {"notice_hours": view.notice_hours}


def warned_slots(view: View) -> int | None:
    """Return how many slots from now on spot is gone that the job holds, as it was warned; None: it was not.

    Spot that goes inside a slot is taken to be there until its end.
    """
    if view.notice_hours is None or not view.state.spot_gpus:
        return None
    waited_hours = max(0.0, view.slot_hours - view.hours)
    return max(1, math.ceil((view.notice_hours + waited_hours) / view.slot_hours - 1e-6))


def sight(view: View) -> Sight:
    """Reduce a view to bare numbers."""
    terms, tariff = believed_terms(view.job, view.pace), _tariff(view.job.billing, view.slot_hours)
    now, following = view.now_hours, view.next_hours  # the first slot of a job may be shorter than others
    return Sight(terms, tariff, view.slot, now, following, view.hours, view.state, view.quote, 0, view.pace)


def decide_by_rule(policy: RulePolicy, view: View) -> Allocation:
    """Decide by a policy's rule, run as plain Python, and say why."""
    function, parameters = policy.rule(NO_FORECASTS)
    choice = function(parameters, sight(view))
    return Allocation(
        int(choice.spot_gpus),
        int(choice.on_demand_gpus),
        reason=Reason(policy.reasons()[choice.why], signals(view)),
    )


def signals(view: View) -> dict[str, float]:
    """Return the signals that deadline policies read, under their own names."""
    return {
        "progress_gpu_hours": view.state.progress_gpu_hours,
        "line_gpu_hours": view.job.line_gpu_hours(view.now_hours),
        "hours_left": view.hours_left,
        "spot_gpus": view.quote.spot_gpus,
        "spot_usd_per_gpu_hour": view.quote.spot_usd_per_gpu_hour,
    }
