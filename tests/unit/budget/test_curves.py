"""Tables of hours and GPU-hours: speedups on arrays are the speedups, and ties are ties."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slacktide.budget.classes import speedups_at
from slacktide.budget.width_options import PhaseWidths, rows_of
from slacktide.core.errors import InputError
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.core.types import Phase

WIDTHS = np.array([1.0, 1.5, 2.0, 3.0, 7.0, 16.0, 100.0])
TABLE = Table.of({1: 1.0, 2: 1.7, 4: 3.6, 8: 5.0, 16: 4.0})


class Own:
    """A speedup of a user's own."""

    def __init__(self, last: float) -> None:
        self.last = last

    def __call__(self, gpus: float) -> float:
        return self.last if gpus == WIDTHS[-1] else math.log(1.0 + gpus)


@pytest.mark.parametrize(
    "speedup", [Linear(), Linear(0.6, 0.4), Amdahl(0.9), Amdahl(0.0), Power(0.7), TABLE, Own(5.0)],
    ids=["linear", "affine", "amdahl", "serial", "power", "table", "own"],
)  # fmt: skip
def test_speedups_on_arrays_are_the_speedups(speedup: Speedup) -> None:
    assert speedups_at(speedup, WIDTHS) == pytest.approx([speedup(width) for width in WIDTHS], rel=1e-14)


def test_rows_follow_each_other() -> None:
    entries = [PhaseWidths("a", Phase(2.0, Power(0.5)), WIDTHS), PhaseWidths("b", Phase(3.0), WIDTHS[:2])]
    rows = rows_of(entries)
    assert rows.start.tolist() == [0, 7, 9]
    assert rows.hours[:7] == pytest.approx(2.0 / np.sqrt(WIDTHS))
    assert rows.gpu_hours[:7] == pytest.approx(2.0 * np.sqrt(WIDTHS))
    assert rows.hours[7:].tolist() == [3.0, 2.0]


def test_what_only_rounding_keeps_apart_is_equal() -> None:
    widths = np.arange(1.0, 200.0)
    rows = rows_of([PhaseWidths("a", Phase(0.7, Linear(0.3)), widths)])
    assert len(set((widths * (0.7 / (0.3 * widths))).tolist())) > 1
    assert len(set(rows.gpu_hours.tolist())) == 1


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_speedup_must_be_a_number_above_zero(value: float) -> None:
    good, bad = PhaseWidths("good", Phase(1.0), WIDTHS), PhaseWidths("bad", Phase(1.0, Own(value)), WIDTHS)
    with pytest.raises(
        InputError, match=f"class 'bad': the speedup must be > 0 .* got {value:g} at 100 GPUs"
    ):
        rows_of([good, bad, good])
