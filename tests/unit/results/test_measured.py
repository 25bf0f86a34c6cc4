"""Paces and restarts from reports, and how sure they are."""

from __future__ import annotations

import random

import pytest

from slacktide.core.errors import FileError
from slacktide.files.rewrite import with_keys
from slacktide.report.text.tables.measured import keys, lines
from slacktide.results.measured import LEAST_SPREAD, Measurement, Report, measured_at, pace_of


def reports(rate: float, restart: float, begun: float = 0.0, count: int = 40) -> list[Report]:
    return [Report(restart + step * 0.01, begun + rate * step * 0.01) for step in range(1, count + 1)]


def test_a_steady_pace_is_found_with_its_restart() -> None:
    found = measured_at(4, reports(0.5, 0.1, begun=0.2), 0.2)
    assert found.pace.share_per_hour == pytest.approx(0.5)
    assert found.pace.spread_share == LEAST_SPREAD
    assert found.restart_hours == pytest.approx(0.1)


def test_the_spread_is_the_standard_error() -> None:
    """Over many measurements of a noisy pace, the mean is within one spread about two times in three."""
    draw, inside = random.Random(7), 0
    for _ in range(300):
        hours, done, seen = 0.0, 0.0, [Report(0.0, 0.0)]
        for _ in range(30):
            hours += 0.01 * draw.lognormvariate(0.0, 0.5)
            done += 0.005
            seen.append(Report(hours, done))
        pace = pace_of(seen)
        truth = 0.5 / 1.1331  # the mean of exp(N(0, 0.5))
        inside += abs(pace.share_per_hour / truth - 1) < pace.spread_share
    assert 0.55 < inside / 300 < 0.8


def test_a_wider_start_counts_as_if_it_scaled_perfectly_to_there() -> None:
    found = Measurement(
        "j", (measured_at(2, reports(0.5, 0.1), 0.0), measured_at(4, reports(0.8, 0.2), 0.0)), 8
    )
    assert found.work_gpu_hours == pytest.approx(4.0)
    assert [found.speedup(width) for width in found.widths] == pytest.approx([2.0, 3.2])
    assert keys(found) == {
        "work": "4 gpu-hours +-1%",
        "speedup": "{table: {2: 2, 4: 3.2}}",
        "restart": "12m",
    }
    assert lines(found).splitlines() == [
        "work: 4 gpu-hours +-1%",
        "speedup: {table: {2: 2, 4: 3.2}}  # +-2% at 4",
        "restart: 12m  # 6m to 12m in 2 starts; the longest is used",
    ]


FILE = """\
resources:            # what it needs
  accelerators: H100  # one
work: "4 gpu-hours"   # said he
speedup:
  table:
    1: 1
    2: 1.5   # measured in May
# the end
deadline: 12h"""


def test_only_the_keys_change() -> None:
    changed = with_keys(
        FILE, {"work": "5 gpu-hours", "speedup": "{amdahl: 0.9}", "restart": "3m"}, "job.yaml"
    )
    assert changed == (
        FILE.replace('"4 gpu-hours"', "5 gpu-hours").replace(
            "speedup:\n  table:\n    1: 1\n    2: 1.5 ", "speedup: {amdahl: 0.9} "
        )
        + "\nrestart: 3m\n"
    )


@pytest.mark.parametrize("text", ["{resources: {accelerators: H100}, work: 4 gpu-hours, deadline: 3h}", "[]"])
def test_a_file_that_is_not_written_key_by_key_is_left_alone(text: str) -> None:
    with pytest.raises(FileError, match="a key per line"):
        with_keys(text, {"work": "5 gpu-hours"}, "job.yaml")


def test_a_change_that_makes_no_job_file_is_refused() -> None:
    with pytest.raises(FileError, match="work"):
        with_keys(FILE, {"work": "many"}, "job.yaml")
