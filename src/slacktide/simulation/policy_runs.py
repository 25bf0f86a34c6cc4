"""One policy, or the clairvoyant, from many starts of one pool: compiled where it can be, plain elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from slacktide.core.errors import InputError
from slacktide.core.register import Spec
from slacktide.core.types import Allocation, Job, Reason
from slacktide.market.base import Market, Pool
from slacktide.market.forecast.base import Forecaster
from slacktide.physics.truth import AS_SAID, Truth
from slacktide.policies.base import policies as register
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.no_checkpoints import keeping
from slacktide.policies.view import Policy, View
from slacktide.results.run import CLAIRVOYANT, Run
from slacktide.results.runs import Runs
from slacktide.simulation import batch, plain
from slacktide.simulation.plain import Setting, TruthByStart
from slacktide.solvers.clairvoyant.clairvoyant import Plan, Yardstick, clairvoyant, yardstick

COMPILE_FROM = 40  # with fewer runs than this the plain loop is done before compiled code is loaded


class PlanFollower:
    """Holds what a plan made with knowledge of the future says: the clairvoyant in a policy's place."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def decide(self, view: View) -> Allocation:
        if view.slot >= len(self._plan.spot_gpus):
            return Allocation(reason=Reason("plan-ended"))
        spot, on_demand = self._plan.spot_gpus[view.slot], self._plan.on_demand_gpus[view.slot]
        return Allocation(int(spot), int(on_demand), reason=Reason("knows-the-future"))


def label(policy: Policy) -> str:
    """Return a policy's name with the parameters that are not at their defaults."""
    name = register.name_of(policy)
    if isinstance(policy, DeadlineGuard):
        return f"{name}({label(policy.inner)})"
    words = [f"{key}={value}" for key, value in register.changed(policy).items()]
    return f"{name}({','.join(words)})" if words else name


def named(policies: Sequence[Spec | Policy]) -> dict[str, Policy]:
    """Make policies and name them; raises InputError for none, or for one that is given twice."""
    if not policies:
        raise InputError("at least one policy must be given, got none")
    made = [register.make(policy) for policy in policies]
    found = {label(policy): policy for policy in made}
    if len(found) != len(made):
        raise InputError(f"each policy must be given once, got {[label(policy) for policy in made]}")
    return found


def guarded(policy: Policy, job: Job) -> Policy:
    """Return the policy as it will run: behind the deadline guard when the deadline is hard.

    For a job without checkpoints it keeps workers that have work to lose.
    """
    if isinstance(policy, DeadlineGuard):
        return DeadlineGuard(keeping(policy.inner, job))
    acting = keeping(policy, job)
    return DeadlineGuard(acting) if job.hard else acting


def setting_for(
    market: Market, pool: Pool, forecaster: Forecaster | None, truth: TruthByStart = AS_SAID
) -> Setting:
    """Return what all policies share on a pool of a market: forecaster, the other pools' past, the truth."""
    others = tuple(other for other in market.pools if other is not pool)
    return Setting(forecaster=forecaster or Setting().forecaster, neighbours=others, truth=truth)


def run_many(
    job: Job,
    pool: Pool,
    policy: Policy,
    starts: Sequence[int],
    *,
    name: str,
    setting: Setting = plain.USUAL,
    few: bool | None = None,
) -> Sequence[Run]:
    """Run one policy from many starts: compiled where it can be and is worth it, plain elsewhere.

    Where these are but some of the starts, `few` says whether all of them are too few to be worth it.
    """
    acting = guarded(policy, job)
    small = (len(starts) < COMPILE_FROM if few is None else few) and not batch.needs_preparing(acting)
    if small or not batch.can_compile(acting, pool):
        ready = (acting if small else batch.prepare(acting, job, pool, start, setting) for start in starts)
        return [
            # Only what a run comes to is kept: slots of thousands of runs would fill the memory.
            dataclasses.replace(plain.run(job, pool, one, start=start, name=name, setting=setting), slots=())
            for one, start in zip(ready, starts, strict=True)
        ]
    return batch.run_many(job, pool, acting, starts, name=name, setting=setting)


def run_in_detail(
    job: Job,
    pool: Pool,
    policy: Policy | None,
    start: int,
    *,
    name: str,
    setting: Setting = plain.USUAL,
    among: int = 1,
) -> Run:
    """Run from one of `among` starts and keep every slot; no policy stands for the clairvoyant."""
    if policy is not None:
        ready = batch.prepare(guarded(policy, job), job, pool, start, setting)
        return plain.run(job, pool, ready, start=start, name=name, setting=setting)
    true = setting.truth.at(start).of(job)
    free = dataclasses.replace(true, checkpoint_hours=0.0, max_cost_usd=None, after_deadline="finish-fast")
    plan = clairvoyant(true, pool, start, among=among)
    return plain.run(free, pool, PlanFollower(plan), start=start, name=name)


def run_clairvoyant(job: Job, pool: Pool, starts: Sequence[int]) -> Runs:
    """Run the clairvoyant's plan from many starts."""
    return run_yardstick(job, pool, starts)[0]


def run_yardstick(
    job: Job,
    pool: Pool,
    starts: Sequence[int],
    *,
    among: int | None = None,
    tell: Callable[[int], None] | None = None,
) -> tuple[Runs, list[float]]:
    """Run the clairvoyant's plan from many starts, which may be some among more.

    Returns with the runs what the best plan could gain from each start, where the job is too wide to be sure
    of it; nothing where the plans are the best.
    """
    found = yardstick(job, pool, starts, among=among, report=tell)
    runs = batch.runs_of(job, pool, starts, found.table, name=CLAIRVOYANT)
    return runs, [] if found.spare_usd is None else found.spare_usd.tolist()


def solve_yardstick(
    job: Job, pool: Pool, starts: Sequence[int], *, among: int, truth: TruthByStart = AS_SAID
) -> Yardstick:
    """Solve the job that it really is from some of `among` starts."""
    if isinstance(truth, Truth):
        return yardstick(truth.of(job), pool, starts, among=among)
    # Another job from each start: there is no grid that they could share.
    return joined_yardstick(
        [yardstick(truth.at(start).of(job), pool, [start], among=among) for start in starts]
    )


def joined_yardstick(parts: Sequence[Yardstick]) -> Yardstick:
    """Put parts of the clairvoyant's table together; parts whose plans are the best have nothing to gain."""
    table = np.concatenate([part.table for part in parts])
    if all(part.spare_usd is None for part in parts):
        return Yardstick(table, None)
    spares = [np.zeros(len(part.table)) if part.spare_usd is None else part.spare_usd for part in parts]
    return Yardstick(table, np.concatenate(spares))
