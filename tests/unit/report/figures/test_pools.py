"""Pools are told apart in pictures by letters and by looks, and a verdict says what moving came to."""

from __future__ import annotations

import dataclasses

from slacktide.report.figures.panels.market import pool_letter, pool_look
from slacktide.report.text.tables.backtest import verdict
from slacktide.results.comparison import Comparison, PolicySummary


def test_every_pool_has_a_letter_and_a_look_of_its_own() -> None:
    assert [pool_letter(at) for at in (0, 25, 26, 53)] == ["A", "Z", "A2", "B3"]
    looks = {(pool_look(at)["facecolor"], pool_look(at)["hatch"]) for at in range(27)}
    assert len(looks) == 27


def moved(comparison: Comparison, usd: float) -> Comparison:
    """Return a back-test over pools in which the last policy moves and pays this much, the others 10 USD."""
    *others, last, known = comparison.summary
    named = [dataclasses.replace(one, pool="zone-a", mean_cost_usd=10.0) for one in others]
    free: PolicySummary = dataclasses.replace(last, mean_cost_usd=usd, mean_moves=1.5)
    return dataclasses.replace(comparison, summary=(*named, free, known), sight="feed")


def test_a_verdict_says_what_moving_saved_or_cost(comparison: Comparison) -> None:
    assert "moved 1.5 times a run and paid $2.00 (20 %) less than" in verdict(moved(comparison, 8.0))
    assert "paid $1.00 (10 %) more than" in verdict(moved(comparison, 11.0))
    assert "paid as much as" in verdict(moved(comparison, 10.001))
    assert "moved" not in verdict(comparison)
