"""One fleet on one budget: `shadow-prices`, given only the budget, against what a team would otherwise run.

`python -m benchmarks fleet`. The yardstick is `patient-spot`, the best of 24 settings in hindsight, at the
same realised spend. Aims: no hard deadline missed, budget never passed; mean response at least 1.3 times
shorter (median) and never longer, p95 not longer (median); without the reserve 0.9 to 1.05 of the budget
spent; the reserve costs at most 5 % of response; at most 20 CPU ms a decision with 100 jobs, 60 CPU s for a
month of 4,000 jobs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from benchmarks.fleet_instances import INSTANCES, is_there, month, scene
from slacktide.allocators.patient_spot import PatientSpot
from slacktide.allocators.shadow_prices import ShadowPrices
from slacktide.allocators.view import AnyAllocator, FleetView, Wanted, begin
from slacktide.results.fleet import FleetRun
from slacktide.simulation.fleet.run import run_fleet
from slacktide.simulation.fleet.scene import FleetScene

WIDTHS, WAITS = (1, 2, 4, 8), (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
BUDGETS = 5
MONTH_SEEDS = (11, 12, 13)


class Point(NamedTuple):
    """What a setting reached."""

    usd: float
    mean_hours: float
    p95_hours: float


class Row(NamedTuple):
    """One instance and budget."""

    spent_share: float
    free_share: float
    """The same without the reserve."""
    ratio: float
    """Mean response of patient-spot over ours at the same spend; none where it cannot spend so little."""
    p95_ratio: float
    reserve_ratio: float
    """Mean response with the reserve over without."""
    late: int
    refused: int
    most_share: float


def main() -> None:
    """Print all figures."""
    rows = list(_recorded()) if is_there() else []
    if not rows:
        print("  the recorded data are not there: only the synthetic month is run")
    months = list(_months())
    for name, found in (("recorded", rows), ("synthetic months", months)):
        if found:
            _summary(name, found)
    speed()


def _recorded() -> Iterator[Row]:
    for one in INSTANCES:
        print(f"  {one}", flush=True)
        yield from _budgets(lambda usd, one=one: scene(one, usd))  # type: ignore[misc]


def _months() -> Iterator[Row]:
    for seed in MONTH_SEEDS:
        print(f"  a synthetic month of 4,000 jobs, seed {seed}", flush=True)
        yield from _budgets(lambda usd, seed=seed: month(seed, usd), 2)  # type: ignore[misc]


def _budgets(make: Callable[[float], FleetScene], count: int = BUDGETS) -> Iterator[Row]:
    curve = patient_curve(make(np.inf))
    spends = sorted(point.usd for point in curve)
    low, high = 1.05 * spends[0], spends[int(0.75 * len(spends))]
    for usd in np.exp(np.linspace(np.log(low), np.log(high), count)):
        row, run = compare(make(float(usd)), curve)
        print(
            f"    ${usd:,.0f}: spent {row.spent_share:.3f} (without reserve {row.free_share:.3f}), response "
            f"{run.responses.mean_hours:.2f} h, {row.ratio:.2f}x shorter, p95 {row.p95_ratio:.2f}x; late "
            f"{row.late}, refused {row.refused}, most of the budget ever spent {row.most_share:.4f}",
            flush=True,
        )
        yield row


def compare(where: FleetScene, curve: list[Point]) -> tuple[Row, FleetRun]:
    """Run a fleet with and without the reserve, next to patient-spot at the same spend."""
    kept, free = (run_fleet(where, ShadowPrices(reserve=reserve)) for reserve in (True, False))
    mean, p95 = at_spend(curve, kept.spent_usd)
    budget = where.allowance.usd
    row = Row(
        kept.spent_usd / budget,
        free.spent_usd / budget,
        mean / kept.responses.mean_hours,
        p95 / kept.responses.p95_hours,
        kept.responses.mean_hours / free.responses.mean_hours,
        len(kept.late) + len(free.late),
        len(kept.refused),
        kept.most_spent_share,
    )
    return row, kept


def patient_curve(where: FleetScene) -> list[Point]:
    """Return what all settings of patient-spot reach."""
    found = []
    for width, wait in product(WIDTHS, WAITS):
        run = run_fleet(where, PatientSpot(width, wait))
        found.append(Point(run.spent_usd, run.responses.mean_hours, run.responses.p95_hours))
    return found


def at_spend(curve: list[Point], usd: float) -> tuple[float, float]:
    """Return the best mean response at a spend, and its p95: between the best settings on a log scale."""
    best: list[Point] = []
    for point in sorted(curve):
        if not best or point.mean_hours < best[-1].mean_hours:
            best.append(point)
    if usd < best[0].usd:
        return np.nan, np.nan
    spends = np.log([point.usd for point in best])
    mean, p95 = (
        float(np.exp(np.interp(np.log(usd), spends, np.log(column))))
        for column in ([point.mean_hours for point in best], [point.p95_hours for point in best])
    )
    return mean, p95


def _summary(name: str, rows: list[Row]) -> None:
    columns = {field: np.array([getattr(row, field) for row in rows]) for field in Row._fields}
    ratio, p95 = columns["ratio"], columns["p95_ratio"]
    cheaper = int(np.isnan(ratio).sum())
    ratio, p95 = ratio[~np.isnan(ratio)], p95[~np.isnan(p95)]
    spread = np.std(np.log(ratio), ddof=1) / np.sqrt(len(ratio)) if len(ratio) > 1 else np.nan
    print(
        f"  {name}, {len(rows)} runs: late {columns['late'].sum():.0f}, refused "
        f"{columns['refused'].sum():.0f}, budget at most {columns['most_share'].max():.4f} spent\n"
        f"    response {np.median(ratio):.2f}x shorter (median; mean {np.exp(np.log(ratio).mean()):.2f} +- "
        f"{100 * spread:.0f} %, worst {ratio.min():.2f}; in {cheaper} more it spent less than patient-spot "
        f"can); p95 {np.median(p95):.2f}x (worst {p95.min():.2f})\n"
        f"    spent {columns['spent_share'].min():.2f} to {columns['spent_share'].max():.2f} of the budget, "
        f"without the reserve {columns['free_share'].min():.2f} to {columns['free_share'].max():.2f}; the "
        f"reserve makes response {np.median(columns['reserve_ratio']):.3f}x as long (worst "
        f"{columns['reserve_ratio'].max():.2f})",
        flush=True,
    )


class Timed:
    """An allocator that counts the CPU time of its decisions, by how many jobs there are."""

    needs_market = True

    def __init__(self, allocator: AnyAllocator) -> None:
        self._run = begin(allocator, None)
        self.seconds: list[tuple[int, float]] = []

    def decide(self, view: FleetView) -> Wanted:
        """Decide, and note how long that took."""
        began = time.process_time()
        found = self._run.decide(view)
        self.seconds.append((len(view.jobs.ids), time.process_time() - began))
        assert isinstance(found, Wanted)
        return found


def speed() -> None:
    """Print what a month and a decision about many jobs cost in CPU time."""
    run_fleet(month(1, 75_000.0, jobs=200), ShadowPrices())
    began = time.process_time()
    run_fleet(month(1, 75_000.0), ShadowPrices())
    print(f"  a month of 4,000 jobs: {time.process_time() - began:.1f} CPU s (aim 60)", flush=True)
    timed = Timed(ShadowPrices(reserve=True))
    run_fleet(month(2, 2_500.0, jobs=16_000), timed, stop_hours=120.0)
    many = np.array([seconds for jobs, seconds in timed.seconds if 80 <= jobs <= 120])
    if len(many):
        print(
            f"  a decision about 80 to 120 jobs: {1000 * many.mean():.1f} CPU ms on average, "
            f"{1000 * np.quantile(many, 0.99):.1f} at the 99th percentile of {len(many)} (aim 20)",
            flush=True,
        )
