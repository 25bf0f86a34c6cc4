"""A small fleet on a small market, simulated once for all tests that look at it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from slacktide.app.fleets.simulate import simulate_fleet
from slacktide.app.fleets.simulate_request import SimulateRequest
from slacktide.app.markets.market import MarketSpec
from slacktide.files.fleet.fleet import parse_fleet
from slacktide.results.fleet import FleetComparison

FLEET = """\
budget: 600 usd/month
market: synthetic:h100?days=2
classes:
  - {name: bert, arrivals: 12/day, work: 3 gpu-hours, speedup: {amdahl: 0.9}, widths: "{1,2,4}", restart: 6m}
  - {name: release, arrivals: 2/day, work: 6 gpu-hours, widths: "{1,2,4}", restart: 6m, deadline: 8h}
stream: {sizes: fixed}
"""
PAST = """\
submit_hours,class,work_gpu_hours,deadline_hours,value_usd,owner
0.5,bert,3,,,ada
1,release,6,,,ada
2,bert,9,none,,bob
3,bert,2,6,50,
4.5,bert,4,,,
900,bert,4,,,
"""


def question(folder: Path, fleet: str = FLEET, past: str | None = PAST, **asked: object) -> SimulateRequest:
    """Return a question about a small fleet on a market of whole hours."""
    table = folder / "past.csv"
    if past is not None:
        table.write_text(past, encoding="utf-8")
    given: dict[str, object] = {"market": MarketSpec(slot_hours=1.0), **asked}
    jobs = None if past is None else str(table)
    return SimulateRequest(file=parse_fleet(fleet, path=folder / "fleet.yaml"), jobs=jobs, **given)  # type: ignore[arg-type]


AS_IT_IS = {"patient-spot": {"width": 2, "wait_hours": 1.0}}


@cache
def simulated(folder: Path) -> FleetComparison:
    """Return the small fleet under one allocator as it is and one that is tuned, with a bound for one."""
    asked = question(folder, policies=(AS_IT_IS, "patient-spot"))
    found = simulate_fleet(asked)
    rows = (replace(row, over_bound=1.25) if row.policy == "patient-spot" else row for row in found.rows)
    return replace(found, rows=tuple(rows))
