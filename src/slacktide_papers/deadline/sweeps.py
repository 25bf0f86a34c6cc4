"""Experiments 1 to 4: tightness of the deadline, volatility, quality of forecasts, parameters of AHAP."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from slacktide.market.forecast.persistence import Persistence
from slacktide.market.synthetic import PROFILES
from slacktide.policies.ahanp import Ahanp
from slacktide.policies.ahap import Ahap
from slacktide.policies.maximal_spot import MaximalSpot
from slacktide.policies.on_demand import OnDemand
from slacktide.policies.stochastic_horizon import StochasticHorizon
from slacktide.policies.uniform_progress import UniformProgress
from slacktide_papers.deadline import rows
from slacktide_papers.deadline.measure import Cell, Contender
from slacktide_papers.deadline.places import (
    CONTESTED,
    USUAL_DEADLINE_HOURS,
    Place,
    Size,
    shaken,
    synthetic,
)
from slacktide_papers.forecasters.arima import Arima
from slacktide_papers.forecasters.noisy_truth import NoisyTruth

AHAP = Ahap(window=5, commitment=1, price_threshold=0.7)
"""One AHAP for all experiments; experiment 4 shows what its parameters do."""
ANP = Ahanp(price_threshold=0.7)
GOOD_LEVEL = 0.1
NOISES = tuple(product(("magnitude", "fixed"), ("uniform", "heavy-tailed")))
PROFILE_NAMES = ("h100-good", "h100", "h100-scarce", "v100", "volatile")


def baselines() -> tuple[Contender, ...]:
    """Return the paper's baselines."""
    return (
        Contender(rows.ON_DEMAND, OnDemand()),
        Contender(rows.MAXIMAL_SPOT, MaximalSpot()),
        Contender(rows.UNIFORM, UniformProgress()),
    )


def everyone(seed: int) -> tuple[Contender, ...]:
    """Return the baselines, the paper's policies, and the one beyond the paper."""
    return (
        *baselines(),
        Contender(rows.AHANP, ANP),
        Contender(rows.AHAP_ARIMA, AHAP, Arima()),
        Contender(rows.AHAP_NOISY, AHAP, NoisyTruth(GOOD_LEVEL, seed=seed)),
        Contender(rows.HORIZON, StochasticHorizon(cells=60)),
    )


def tightness(size: Size, seed: int, places: Iterable[Place]) -> list[Cell]:
    """Vary the deadline, on synthetic markets and on real ones."""
    made = [synthetic(profile, size, seed) for profile in (PROFILES["h100"], CONTESTED)]
    tried = [(place, size.slow_starts) for place in made] + [(place, size.trace_starts) for place in places]
    return [
        _by_deadline(place, hours, starts, seed) for place, starts in tried for hours in size.deadlines_hours
    ]


def volatility(size: Size, seed: int) -> list[Cell]:
    """Make one market calmer and wilder, and visit the named ones."""
    names = PROFILE_NAMES[:: 1 if len(size.factors) > 3 else 2]
    tried = [("swings of the contested market", x, f"{x:g}×", shaken(x)) for x in size.factors]
    tried += [("named markets", float(turn), name, PROFILES[name]) for turn, name in enumerate(names)]
    return [
        Cell(
            rows.VOLATILITY, panel, x, label, synthetic(profile, size, seed).pools,
            USUAL_DEADLINE_HOURS, size.slow_starts, everyone(seed),
        )
        for panel, x, label, profile in tried
    ]  # fmt: skip


def noise(size: Size, seed: int, places: Iterable[Place]) -> list[Cell]:
    """Spoil a perfect forecast in four ways, step by step."""
    made = synthetic(CONTESTED, size, seed)
    tried = [(made, size.starts), *((place, size.trace_starts * 2) for place in places)]
    return [
        Cell(
            rows.NOISE, place.name, level, f"{level:.0%}".replace("%", " %"),
            place.pools, USUAL_DEADLINE_HOURS, starts, _spoilt(level, seed),
        )
        for place, starts in tried
        for level in size.levels
    ]  # fmt: skip


def parameters(size: Size, seed: int) -> list[Cell]:
    """Vary window, commitment and threshold one at a time, the others as in AHAP above."""
    pools = synthetic(CONTESTED, size, seed).pools
    windows = {float(n): Ahap(n, 1, AHAP.price_threshold) for n in range(1, 6)}
    commitments = {float(n): Ahap(5, n, AHAP.price_threshold) for n in range(1, 6)}
    thresholds = {share: Ahap(5, 1, share) for share in size.thresholds}
    sweeps = {"window ω": windows, "commitment ν": commitments, "price threshold σ": thresholds}
    return [
        Cell(
            rows.PARAMETERS, panel, x, f"{x:g}", pools, USUAL_DEADLINE_HOURS, size.starts,
            (*_with_forecasts(policy, seed), *_without(panel, x)),
        )
        for panel, sweep in sweeps.items()
        for x, policy in sweep.items()
    ]  # fmt: skip


def _by_deadline(place: Place, hours: float, starts: int, seed: int) -> Cell:
    return Cell(rows.TIGHTNESS, place.name, hours, f"{hours:g} h", place.pools, hours, starts, everyone(seed))


def _spoilt(level: float, seed: int) -> tuple[Contender, ...]:
    noisy = [
        Contender(f"AHAP, {scale} {kind}", AHAP, NoisyTruth(level, kind, scale, seed))  # type: ignore[arg-type]
        for scale, kind in NOISES
    ]
    return (*baselines(), Contender(rows.AHANP, ANP), *noisy)


def _with_forecasts(policy: Ahap, seed: int) -> list[Contender]:
    return [
        Contender("AHAP, perfect forecasts", policy, NoisyTruth(0.0)),
        Contender("AHAP, forecasts 30 % off", policy, NoisyTruth(0.3, seed=seed)),
        Contender(rows.AHAP_ARIMA, policy, Arima()),
        Contender("AHAP, persistence", policy, Persistence()),
    ]


def _without(panel: str, x: float) -> list[Contender]:
    return [Contender(rows.AHANP, Ahanp(x))] if panel.endswith("σ") else []
