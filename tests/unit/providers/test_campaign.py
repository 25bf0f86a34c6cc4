"""Nothing is leaked, doubled or unexplained, whatever fails and whenever the controller is killed."""

from __future__ import annotations

import pytest

from tests.parts_of_effort import examples

from .campaign import FAULTS, campaign

SEEDS = examples(2000)
NEVER = (
    "leaked", "doubled", "too many", "not as wanted", "limits passed", "never written", "left open",
    "another's ended",
)  # fmt: skip


def test_provider_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    counts = campaign(SEEDS)
    with capsys.disabled():
        print(
            f"\nprovider campaign, {SEEDS} seeds:", ", ".join(f"{n:,} {what}" for what, n in counts.items())
        )
    for what in NEVER:
        assert counts[what] == 0, what
    for what in ("crashes", "machines", "found full", "held back by a limit", "interrupted", "duds"):
        assert counts[what] > SEEDS / 20, f"hardly any {what}: nothing was tried"
    # Each machine is seen to come and go about as late as the list is; over all of them it evens out.
    assert counts["off s"] / counts["machines"] < FAULTS.late_hours * 3600
    assert abs(counts["told s"] - counts["billed s"]) < 0.15 * counts["billed s"]
