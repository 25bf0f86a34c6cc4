"""Experiment 5: a thousand jobs, one policy drawn for each, and trust that moves to those that do well.

What every policy earns from a start does not depend on the draws, so it is worked out once, compiled, for
a number of starts; the jobs of a scenario are then drawn from these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.types import Job
from slacktide.market.base import Pool
from slacktide.market.forecast.base import Forecaster
from slacktide.market.synthetic import PROFILES, Profile
from slacktide.policies.selection.hedge import Hedge
from slacktide.policies.selection.rate import FixedRate, LearningRate
from slacktide.policies.view import Policy
from slacktide.simulation import batch
from slacktide.simulation.learn_on_past import bounds_usd
from slacktide.simulation.parallel.base import HERE, Spread
from slacktide.simulation.playback import Setting
from slacktide_papers.deadline.places import (
    CONTESTED,
    USUAL_DEADLINE_HOURS,
    Size,
    job_of,
    starts_of,
    synthetic,
)
from slacktide_papers.deadline.policy_set import PAPER_SET, make_arms
from slacktide_papers.deadline.rows import OWN_RATE, PAPER_RATE, Chosen, Step
from slacktide_papers.deadline.sweeps import GOOD_LEVEL, baselines
from slacktide_papers.forecasters.noisy_truth import NoisyTruth

POINTS = 100  # steps kept of each scenario
GOOD, POOR, OTHER = "contested, good forecasts", "contested, poor forecasts", "h100, good forecasts"
SCENARIOS: dict[str, tuple[str, ...]] = {
    "good forecasts": (GOOD,),
    "poor forecasts": (POOR,),
    "forecasts go bad half-way": (GOOD, POOR),
    "the market changes half-way": (OTHER, GOOD),
}


class Earned(NamedTuple):
    """What every arm, and every baseline, earns from each of a number of starts."""

    arms: tuple[str, ...]
    usd: Floats  # [start, arm]
    shares: Floats  # the same scaled to [0, 1] by the least and the most the job can bring
    baselines: Floats  # [start, baseline] in USD


def situations(seed: int) -> dict[str, tuple[Profile, Forecaster]]:
    """Return the markets and forecasts that scenarios are made of."""
    poor = NoisyTruth(1.0, "heavy-tailed", "fixed", seed)
    good = NoisyTruth(GOOD_LEVEL, seed=seed)
    return {GOOD: (CONTESTED, good), POOR: (CONTESTED, poor), OTHER: (PROFILES["h100"], good)}


def arms_of(size: Size) -> dict[str, Policy]:
    """Return the paper's policies, or one in `size.every_arm` of them."""
    return make_arms(PAPER_SET[:: size.every_arm])


class Situation(NamedTuple):
    """A market and forecasts, with the policies that are run there."""

    pool: Pool
    job: Job
    starts: tuple[int, ...]
    forecaster: Forecaster
    policies: tuple[Policy, ...]  # the arms, then the baselines


def earn(
    size: Size, seed: int, tick: Callable[[], None] = lambda: None, spread: Spread = HERE
) -> dict[str, Earned]:
    """Run all policies in every situation from every start; `tick` is called after each policy."""
    arms = arms_of(size)
    policies = (*arms.values(), *(contender.policy for contender in baselines()))
    made = {name: _situation(*parts, size, seed, policies) for name, parts in situations(seed).items()}
    todo = [(name, at) for name in made for at in range(len(policies))]
    columns: dict[str, list[Floats]] = {name: [] for name in made}
    for (name, _), came in zip(todo, spread.each(do_policy, made, todo), strict=True):
        columns[name].append(came)
        tick()
    return {name: _earned(tuple(arms), one, np.array(columns[name]).T) for name, one in made.items()}


def _situation(
    profile: Profile, forecaster: Forecaster, size: Size, seed: int, policies: tuple[Policy, ...]
) -> Situation:
    (pool,) = synthetic(profile, size, seed).pools
    job = job_of(pool, USUAL_DEADLINE_HOURS)
    return Situation(pool, job, starts_of(job, pool, size.job_starts), forecaster, policies)


def do_policy(made: Mapping[str, Situation], task: tuple[str, int]) -> Floats:
    """Return what one policy earns in one situation, from each start."""
    name, at = task
    one = made[name]
    setting = Setting(forecaster=one.forecaster)
    runs = batch.run_compiled(one.job, one.pool, one.policies[at], one.starts, setting=setting)
    return np.array([run.utility_usd for run in runs])


def _earned(arms: tuple[str, ...], one: Situation, table: Floats) -> Earned:
    usd, usual = table[:, : len(arms)], table[:, len(arms) :]
    bounds = [bounds_usd(one.job, one.pool, start) for start in one.starts]
    least, most = np.array(bounds).T[:, :, None]
    return Earned(arms, usd, np.clip((usd - least) / (most - least), 0.0, 1.0), usual)


def converge(
    scenario: str, phases: Sequence[Earned], jobs: int, seed: int
) -> tuple[list[Step], list[Chosen]]:
    """Run a scenario with the paper's learning rate and with ours; phases share the jobs equally."""
    stream = _stream(phases, jobs, seed)
    rates: dict[str, LearningRate | None] = {PAPER_RATE: FixedRate(jobs), OWN_RATE: None}
    steps: list[Step] = []
    ends: list[Chosen] = []
    for name, rate in rates.items():
        hedge = Hedge(stream.arms, rate=rate)
        drawn = np.empty(jobs)
        for number in range(jobs):
            arm = stream.arms.index(hedge.begin(str(number), seed=seed))
            drawn[number] = stream.usd[number, arm]
            hedge.end(str(number), stream.shares[number])
            if _kept(number + 1, jobs):
                steps.append(_step(scenario, name, stream, drawn[: number + 1], hedge))
        ends.append(_chosen(scenario, name, stream, drawn, hedge))
    return steps, ends


def _stream(phases: Sequence[Earned], jobs: int, seed: int) -> Earned:
    """Draw the jobs of a scenario: one row for each, phase after phase."""
    rng = np.random.default_rng([seed, 5])
    rows = [
        rng.integers(len(phase.usd), size=len(part))
        for phase, part in zip(phases, np.array_split(np.arange(jobs), len(phases)), strict=True)
    ]
    usd, shares, usual = (
        np.concatenate([table[row] for table, row in zip(tables, rows, strict=True)])
        for tables in (
            [phase.usd for phase in phases],
            [phase.shares for phase in phases],
            [phase.baselines for phase in phases],
        )
    )
    return Earned(phases[0].arms, usd, shares, usual)


def _kept(number: int, jobs: int) -> bool:
    return number in (1, jobs) or number % max(1, jobs // POINTS) == 0


def _step(scenario: str, rate: str, stream: Earned, drawn: Floats, hedge: Hedge) -> Step:
    jobs = len(drawn)
    best = int(stream.usd.mean(axis=0).argmax())
    return Step(
        scenario,
        rate,
        jobs,
        utility_usd=float(drawn.mean()),
        best_usd=float(stream.usd[:jobs, best].mean()),
        pool_usd=float(stream.usd[:jobs].mean()),
        leader=hedge.leader,
        leader_weight=float(hedge.weights.max()),
        regret=hedge.regret().expected,
        rate_bound=hedge.rate.worst_regret(len(hedge.arms), jobs),
        paper_bound=paper_bound(jobs, len(hedge.arms)),
    )


def paper_bound(jobs: int, arms: int) -> float:
    """Return the paper's upper bound on the regret after that many jobs."""
    return math.sqrt(jobs * math.log(arms) / 2.0)


def _chosen(scenario: str, rate: str, stream: Earned, drawn: Floats, hedge: Hedge) -> Chosen:
    jobs = len(drawn)
    late = slice(jobs - max(1, jobs // 4), jobs)
    whole, last = stream.usd.mean(axis=0), stream.usd[late].mean(axis=0)
    usual = stream.baselines.mean(axis=0)
    good = last >= last.max() - 0.01 * abs(last.max())
    return Chosen(
        scenario,
        rate,
        jobs,
        len(stream.arms),
        utility_usd=float(drawn.mean()),
        late_utility_usd=float(drawn[late].mean()),
        best=stream.arms[int(whole.argmax())],
        best_usd=float(whole.max()),
        late_best=stream.arms[int(last.argmax())],
        late_best_usd=float(last.max()),
        pool_usd=float(whole.mean()),
        leader=hedge.leader,
        leader_weight=float(hedge.weights.max()),
        good_weight=float(hedge.weights[good].sum()),
        regret=hedge.regret().expected,
        paper_bound=paper_bound(jobs, len(stream.arms)),
        on_demand_usd=float(usual[0]),
        maximal_spot_usd=float(usual[1]),
        uniform_progress_usd=float(usual[2]),
    )
