"""The bound of a fleet: search for the prices of money and of scarce spot that prove the most.

Take any price of money nu >= 0 (hours per USD) and any rent r >= 0 of a spot GPU-hour in each slot and pool.
Every allocator that spends at most B, is in time for all hard deadlines and never holds more spot than there
is has

    sum of weight * response  >=  sum over jobs of the least that a plan of this job alone costs at these
    prices
                                  - nu * B - sum of r * spot GPUs * slot hours,

because its own plans cost that much at least, and the money and the spot that they leave unused count for
nothing or more (weak duality). This stays true if anything is relaxed in a job's favour, so all rounding is
in its favour. The right side is concave in the prices, and its slope is what the best plans hold, so each set
of prices that was tried gives a plane above it for each block of jobs; the highest point under all planes
within a trust region is tried next (a bundle method whose steps are linear programmes).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InputError
from slacktide_papers.fleet_bound.dual import Answer, Dual
from slacktide_papers.fleet_bound.problem import Problem, trivial_hours

ITERATIONS = 60  # the most sets of prices that are tried for a budget
ENOUGH_SHARE = 1e-3  # the climb ends where the planes promise no more than this share of the bound
KEPT_ANSWERS = 80
FIRST_REACH, MOST_REACH = 0.5, 2.0
"""How far prices may move at once: money by a factor of exp(reach), rents by this share of the highest."""
GOOD_SHARE, POOR_SHARE = 0.5, 0.1
"""A step that keeps this much of its promise lets the next one reach further, or at least not less far."""

Progress = Callable[[int, int], None]


class Bound(NamedTuple):
    """A mean response that no allocator can beat, and the prices that prove it."""

    mean_response_hours: float
    nu_hours_per_usd: float  # what a USD of budget is worth; an hour of waiting is worth the inverse
    scarcity: Floats  # [slot, pool]: USD per GPU-hour that spot is worth beyond its price
    history: tuple[float, ...]
    """What each set of prices that was tried proves, in hours; the mean response is the greatest of them."""


class _Prices(NamedTuple):
    money: float
    rent: Floats  # where there is spot at all


@dataclass(slots=True)
class Climb:
    """Finds the bound of a problem at one budget after another; what was learned of the jobs is kept."""

    problem: Problem
    dual: Dual = field(init=False)
    _places: Ints = field(init=False)  # the slots and pools that have spot
    _highest_usd: Floats = field(init=False)
    """The most that spot there can be worth beyond its price, since on demand is as good."""
    _offered: Floats = field(init=False)
    _planes: list[tuple[Floats, Floats]] = field(default_factory=list)
    _prices: _Prices | None = None

    def __post_init__(self) -> None:
        future = self.problem.future
        self.dual = Dual(self.problem)
        self._places = np.flatnonzero(future.spot_gpus.ravel() > 0)
        highest: Floats = np.maximum(future.on_demand_usd - future.spot_usd, 0.0)
        self._highest_usd = highest.ravel()[self._places]
        self._offered = np.asarray(
            future.spot_gpus.ravel()[self._places] * future.slot_hours, dtype=np.float64
        )

    def bound(
        self, budget_usd: float, iterations: int = ITERATIONS, progress: Progress | None = None
    ) -> Bound:
        """Return the bound for a budget; the climb begins where the last one ended."""
        if not budget_usd > 0:
            raise InputError(f"budget_usd must be > 0, got {budget_usd:g}")
        trivial, weight = trivial_hours(self.problem), self.problem.weight
        at = self._prices or _Prices(trivial * weight / budget_usd, np.zeros(len(self._places)))
        best, history, reach = self._value(at, budget_usd), [], FIRST_REACH
        for iteration in range(iterations):
            history.append(best)
            step, promised = self._step(at, budget_usd, reach)
            if promised - best < ENOUGH_SHARE * max(best, trivial):
                break
            found = self._value(step, budget_usd)
            got = (found - best) / (promised - best)
            if got > POOR_SHARE:
                reach = min(reach * 1.5, MOST_REACH) if got > GOOD_SHARE else reach
            else:
                reach *= 0.6
            if found > best:
                best, at = found, step
            if progress:
                progress(iteration + 1, iterations)
        self._prices = at
        return Bound(max(best, trivial), at.money, self._scarcity(at), (*history, best))

    def _scarcity(self, at: _Prices) -> Floats:
        return self._spread(at.rent) / at.money

    def _spread(self, rent: Floats) -> Floats:
        shape = self.problem.future.spot_gpus.shape
        whole = np.zeros(shape[0] * shape[1])
        whole[self._places] = rent
        return whole.reshape(shape)

    def _value(self, at: _Prices, budget_usd: float) -> float:
        """Return the bound that some prices prove, and keep what jobs do at them."""
        answer = self.dual.answer(at.money, self._spread(at.rent))
        self._keep(at, answer)
        given = at.money * budget_usd + float((at.rent * self._offered).sum())
        return (float(answer.hours.sum()) - given) / self.problem.weight

    def _keep(self, at: _Prices, answer: Answer) -> None:
        """Keep the planes: at other prices jobs of a block pay no more than with their present plans."""
        held = answer.spot_gpu_hours.reshape(len(answer.hours), -1)[:, self._places]
        hours = answer.hours - at.money * answer.spent_usd - held @ at.rent
        self._planes = [
            *self._planes[-KEPT_ANSWERS + 1 :],
            (np.column_stack((answer.spent_usd, held)), hours),
        ]

    def _step(self, at: _Prices, budget_usd: float, reach: float) -> tuple[_Prices, float]:
        """Return the prices within reach at which the planes are highest, and how high."""
        optimize, sparse = _scipy()
        blocks, weight = self.dual.blocks, self.problem.weight
        slopes = sparse.vstack([sparse.csr_array(one) for one, _ in self._planes])
        ones = sparse.vstack([sparse.identity(blocks, format="csr")] * len(self._planes))
        highest = at.money * self._highest_usd
        low = np.maximum(at.rent - reach * highest, 0.0)
        bounds = np.empty((1 + len(low) + blocks, 2))
        bounds[0] = at.money * np.exp((-reach, reach))
        bounds[1:-blocks, 0], bounds[1:-blocks, 1] = low, np.maximum(at.rent + reach * highest, low)
        bounds[-blocks:] = -np.inf, np.inf
        costs = np.concatenate(([budget_usd], self._offered, -np.ones(blocks))) / weight
        found = optimize.linprog(
            costs,
            A_ub=sparse.hstack((-slopes, ones), format="csr"),
            b_ub=np.concatenate([hours for _, hours in self._planes]),
            bounds=bounds,
            method="highs",
        )
        if found.x is None:  # the solver gave up: what was found so far stands
            return at, -np.inf
        return _Prices(float(found.x[0]), found.x[1:-blocks]), -float(found.fun)


def _scipy() -> tuple[Any, Any]:
    try:
        return importlib.import_module("scipy.optimize"), importlib.import_module("scipy.sparse")
    except ImportError:
        raise InputError(
            "the bound of a fleet needs SciPy, which is not installed; install it with: "
            "pip install 'slacktide[bound]'"
        ) from None


def bound_below(
    problem: Problem, budget_usd: float, iterations: int = ITERATIONS, progress: Progress | None = None
) -> Bound:
    """Return a bound below the mean response of jobs without a deadline, whatever a budget buys."""
    return Climb(problem).bound(budget_usd, iterations, progress)


def bounds_below(problem: Problem, budgets_usd: Sequence[float], iterations: int = ITERATIONS) -> list[Bound]:
    """Return bounds for several budgets; each begins at the prices of the one before."""
    climb = Climb(problem)
    return [climb.bound(budget, iterations) for budget in budgets_usd]
