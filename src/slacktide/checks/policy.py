"""The contract of a policy, as checks that anyone can run on their own.

    from slacktide.checks import check_policy
    check_policy(MyPolicy())

Each check takes a policy and one case, and raises CheckFailed with a sentence if the promise does not hold.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

import numpy as np

from slacktide.checks.base import CheckFailed, run_all
from slacktide.checks.cases import Case, cases, with_other_future
from slacktide.core.types import Allocation, JobState
from slacktide.physics import progress as physics
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.view import Policy, View, decision_of, look
from slacktide.simulation import batch, plain
from slacktide.simulation.playback import Playback
from slacktide.solvers.slotted import deadline_slots

PolicyCheck = Callable[[Policy, Case, np.random.Generator], None]


def requests_only_what_is_allowed(policy: Policy, case: Case, rng: np.random.Generator) -> None:
    """A policy never requests more spot than is offered, or a width that the job may not have."""
    for record in plain.run(case.job, case.pool, policy).slots:
        wanted, where = record.wanted, f"slot {record.slot} of {case}"
        if min(wanted.spot_gpus, wanted.on_demand_gpus) < 0:
            raise CheckFailed(f"counts must be >= 0, got {wanted} in {where}")
        if wanted.spot_gpus > record.quote.spot_gpus:
            raise CheckFailed(
                f"spot must be <= the {record.quote.spot_gpus} GPUs offered, got {wanted} in {where}"
            )
        if wanted.gpus not in (0, *case.job.widths):
            raise CheckFailed(f"the width must be 0 or in {case.job.widths}, got {wanted} in {where}")


def says_why(policy: Policy, case: Case, rng: np.random.Generator) -> None:
    """Every decision is an `Allocation` that names the rule behind it."""
    for record in plain.run(case.job, case.pool, policy).slots:
        if not isinstance(record.wanted, Allocation):
            raise CheckFailed(f"a decision must be an Allocation, got {record.wanted!r}")
        if not record.wanted.reason.rule or record.wanted.reason.rule == "unexplained":
            raise CheckFailed(f"a decision must carry its reason, got {record.wanted} in slot {record.slot}")


def decides_the_same_for_the_same_view(policy: Policy, case: Case, rng: np.random.Generator) -> None:
    """The same view gives the same decision, in any order of decisions, and after pickling."""
    views = list(_views(policy, case))
    first = [decision_of(policy, view) for view in views]
    twin: Policy = pickle.loads(pickle.dumps(policy))
    for index in rng.permutation(len(views)):
        for again in (decision_of(policy, views[index]), decision_of(twin, views[index])):
            if again != first[index]:
                raise CheckFailed(
                    f"the same view must give the same decision, got {first[index]} and then {again} "
                    f"in slot {views[index].slot} of {case}"
                )


def cannot_see_the_future(policy: Policy, case: Case, rng: np.random.Generator) -> None:
    """Two markets that agree up to a slot get the same decisions up to that slot."""
    first = int(rng.integers(1, len(case.pool)))
    one = plain.run(case.job, case.pool, policy).slots[:first]
    other_pool = with_other_future(case.pool, first, rng)
    other = plain.run(case.job, other_pool, policy).slots[:first]
    for left, right in zip(one, other, strict=False):
        if left.wanted != right.wanted:
            raise CheckFailed(
                f"a policy must not see the future, but slot {left.slot} got {left.wanted} or "
                f"{right.wanted} depending on slots from {first} on, in {case}"
            )


def is_never_late_behind_the_guard(policy: Policy, case: Case, rng: np.random.Generator) -> None:
    """With the deadline guard a job is on time if on demand from the start would be."""
    terms = physics.terms(case.job)
    alone = physics.on_demand_finish(terms, JobState(), 0.0, terms.fastest)
    if not case.job.on_time(alone) or case.job.max_cost_usd is not None:
        return
    acting = policy if isinstance(policy, DeadlineGuard) else DeadlineGuard(policy)
    run = plain.run(case.job, case.pool, acting)
    if not run.on_time:
        raise CheckFailed(
            f"a guarded job must be on time: on demand alone takes {alone:g} h, "
            f"got {run.finish_hours:g} h in {case}"
        )


def runs_in_batch_as_it_does_plainly(policy: Policy, case: Case, rng: np.random.Generator) -> None:
    """A policy with a compiled rule has the same costs and finish times in a batch as in plain runs."""
    if not batch.can_compile(policy, case.pool):
        return
    last = plain.last_start(case.job, case.pool)
    starts = sorted({0, last, int(rng.integers(0, last + 1))})
    for row, start in zip(batch.run_compiled(case.job, case.pool, policy, starts), starts, strict=True):
        run = plain.run(case.job, case.pool, policy, start=start)
        if (row.cost_usd, row.finish_hours) != (run.cost_usd, run.finish_hours):
            raise CheckFailed(
                f"a batch must equal the plain run ({run.cost_usd} USD, {run.finish_hours} h), "
                f"got {row.cost_usd} USD, {row.finish_hours} h from slot {start} of {case}"
            )


POLICY_CHECKS: tuple[PolicyCheck, ...] = (
    requests_only_what_is_allowed, says_why, decides_the_same_for_the_same_view, cannot_see_the_future,
    is_never_late_behind_the_guard, runs_in_batch_as_it_does_plainly,
)  # fmt: skip


def check_policy(policy: Policy, *, examples: int = 30, seed: int = 0) -> None:
    """Run every check on `examples` random cases; raises CheckFailed at the first broken promise."""
    run_all(POLICY_CHECKS, policy, lambda: cases(seed, examples), seed)


def _views(policy: Policy, case: Case) -> Iterator[View]:
    slots = deadline_slots(case.job, case.pool.slot_hours)
    memory: tuple[float, ...] = ()
    market = Playback(case.pool, 0)
    for record in plain.run(case.job, case.pool, policy).slots:
        if record.slot < slots:
            now = market.at(record.slot, spot_gpus=record.before.spot_gpus)
            yield look(case.job, now, record.before, record.slot, case.pool.slot_hours, memory)
            memory = record.wanted.memory
