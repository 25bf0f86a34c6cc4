"""The picture of a plan can stand in any page, also in one with a strict content policy."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from slacktide.core.types import Allocation
from slacktide.report.figures.plan import plan_svg, plot_plan
from slacktide.results.plan import CurvePoint, HeldAt, JobPlan, Outcomes, Outlook, PoolBill, Range

from ..conftest import NASTY, job
from .test_backtest import NOT_STRICT, size_px


def spread(usd: float) -> Outcomes:
    """Return runs whose bills lie around this amount."""
    return Outcomes(
        20, Range(0.8 * usd, usd, 1.4 * usd), Range(6.0, 7.0, 8.0), 1.0, 1.1 * usd, 20.0, 4.0, 1.0
    )


def plan(name: str = "llama-lora") -> JobPlan:
    """Return a small plan."""
    policies = ("uniform-progress", "ahap(window=3)", "ahap(window=5)", "clairvoyant")
    return JobPlan(
        job=job(name=name),
        market="synthetic:h100",
        pool="zone-a",
        policy="uniform-progress",
        outlooks=tuple(
            Outlook(policy, spread(100.0 - 9 * place), spread(110.0)) for place, policy in enumerate(policies)
        ),
        pools=(PoolBill("zone-a", 100.0),),
        first=Allocation(4, 0),
        first_gpus=(4, 0),
        gpus=tuple(HeldAt(0.5 * slot, 4.0, 1.0) for slot in range(16)),
        assumptions=(),
        by_deadline=tuple(CurvePoint(hours, 100.0, 80.0, 140.0, 0.0, 1.0) for hours in (6.0, 8.0, 12.0)),
    )


class Text(HTMLParser):
    """Fails on what is not well formed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), "an attribute is given twice"
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_plan_stands_in_a_strict_page() -> None:
    svg = plan_svg(plan())
    assert not re.search(NOT_STRICT, svg)
    assert 'fill="var(--ink, currentColor)"' in svg
    reader = Text()
    reader.feed(svg)
    assert not reader.open


def test_a_plan_is_drawn_whatever_its_job_is_called(tmp_path: Path) -> None:
    plot_plan(plan(NASTY), tmp_path / "plan.png")
    assert size_px(tmp_path / "plan.png") == (1650, 1110)
