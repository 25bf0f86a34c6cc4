"""Irregular samples to regular slots: gaps, order, duplicates, jitter, steps and resampling."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from slacktide.core.errors import FileError, InputError, UnknownNameError
from slacktide.market.base import Market, Pool
from slacktide.market.formats.samples import COLUMNS
from slacktide.market.series import resample
from slacktide.market.spec import ReadOptions
from tests import build
from tests.build import read_table

BEGIN = datetime(2025, 10, 4, tzinfo=UTC)


def sampled(
    tmp_path: Path,
    minutes: list[float],
    *,
    gpus: list[int] | None = None,
    slot: float | None = None,
    **how: str,
) -> Pool:
    """Read a table of one pool with a row at each of these minutes; the price is the row's number."""
    counts = gpus or [1] * len(minutes)
    rows = [
        f"{(BEGIN + timedelta(minutes=minute)).isoformat()},a,{count},{number},9"
        for number, (minute, count) in enumerate(zip(minutes, counts, strict=True))
    ]
    path = tmp_path / "m.csv"
    path.write_text("\n".join([",".join(COLUMNS), *rows]))
    return read_table(path, **how, slot_hours=slot).pools[0]


def pool(gpus: list[int], prices: list[float], slot_hours: float = 1.0) -> Pool:
    return build.pool(prices, 9.0, gpus, name="a", slot_hours=slot_hours)


def test_a_gap_is_refused_with_its_line_and_remedy(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"gap of 30 min.*2025-10-04T00:50:00Z.*gaps=hold") as caught:
        sampled(tmp_path, [0, 10, 20, 50, 60])
    assert caught.value.line == 5


def test_a_gap_can_be_held_or_emptied(tmp_path: Path) -> None:
    held = sampled(tmp_path, [0, 10, 20, 50, 60], gpus=[1, 2, 3, 4, 5], gaps="hold")
    assert held.spot_gpus.tolist() == [1, 2, 3, 3, 3, 4, 5]
    empty = sampled(tmp_path, [0, 10, 20, 50, 60], gpus=[1, 2, 3, 4, 5], gaps="empty")
    assert empty.spot_gpus.tolist() == [1, 2, 3, 0, 0, 4, 5]
    assert (
        empty.spot_usd_per_gpu_hour.tolist() == held.spot_usd_per_gpu_hour.tolist() == [0, 1, 2, 2, 2, 3, 4]
    )


def test_jitter_and_drift_are_no_gaps(tmp_path: Path) -> None:
    jittered = sampled(tmp_path, [0, 10, 24, 30, 36, 50, 60], gpus=[1, 2, 3, 4, 5, 6, 7])
    assert jittered.spot_gpus.tolist() == [1, 2, 3, 4, 5, 6, 7]
    minutes = [number * 10.0 for number in range(101)] + [1000 + number * 10.4 for number in range(1, 100)]
    drifting = sampled(tmp_path, minutes)
    assert len(drifting) == round(minutes[-1] / 10) + 1


def test_samples_crowded_into_one_slot_give_its_minimum_and_mean(tmp_path: Path) -> None:
    crowded = sampled(tmp_path, [0, 10, 12, 20, 30, 40], gpus=[9, 5, 1, 9, 9, 9])
    assert crowded.spot_gpus.tolist() == [9, 1, 9, 9, 9]
    assert crowded.spot_usd_per_gpu_hour.tolist() == [0, 1.5, 3, 4, 5]


def test_rows_out_of_order_are_refused_or_sorted(tmp_path: Path) -> None:
    with pytest.raises(
        FileError, match=r"order of time.*00:10:00Z after 2025-10-04T00:20:00Z.*--sort"
    ) as caught:
        sampled(tmp_path, [0, 20, 10, 30])
    assert caught.value.line == 4
    assert sampled(tmp_path, [0, 20, 10, 30], unsorted="sort").spot_usd_per_gpu_hour.tolist() == [0, 2, 1, 3]


def test_a_time_given_twice_is_refused_or_chosen(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"once per pool.*00:10:00Z again.*duplicates=first") as caught:
        sampled(tmp_path, [0, 10, 10, 20])
    assert caught.value.line == 4
    for keep, prices in (("first", [0, 1, 3]), ("last", [0, 2, 3])):
        chosen = sampled(tmp_path, [0, 10, 10, 20], duplicates=keep)
        assert chosen.spot_usd_per_gpu_hour.tolist() == prices


def test_the_first_offence_in_the_file_is_named_over_all_pools(tmp_path: Path) -> None:
    times = ["00:00", "00:10", "00:20"]
    rows = [f"2025-10-04T{time}Z,{name},1,1,9" for time in times for name in "ba"]
    rows[4], rows[5] = rows[4].replace("00:20", "00:05"), rows[5].replace("00:20", "00:05")
    (tmp_path / "m.csv").write_text("\n".join([",".join(COLUMNS), *rows]))
    with pytest.raises(FileError, match="pool 'b'") as caught:
        read_table(tmp_path / "m.csv")
    assert caught.value.line == 6


def test_options_are_checked() -> None:
    with pytest.raises(UnknownNameError, match=r"gaps.*did you mean 'hold'"):
        ReadOptions(gaps="holt")
    with pytest.raises(UnknownNameError, match="unsorted"):
        ReadOptions(unsorted="x")
    with pytest.raises(UnknownNameError, match="duplicates"):
        ReadOptions(duplicates="x")


def test_one_row_needs_a_slot_length(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="slot length"):
        sampled(tmp_path, [0])
    assert sampled(tmp_path, [0], slot=0.5).hours == 0.5


def test_pools_of_different_steps_come_to_the_finest(tmp_path: Path) -> None:
    rows = [f"2025-10-04T00:{minute:02}:00Z,fine,1,1,9" for minute in range(0, 60, 10)]
    rows += [f"2025-10-04T00:{minute:02}:00Z,coarse,{minute},1,9" for minute in range(0, 60, 20)]
    (tmp_path / "m.csv").write_text("\n".join([",".join(COLUMNS), *rows]))
    market = read_table(tmp_path / "m.csv")
    assert {pool.slot_hours for pool in market.pools} == {1 / 6}
    assert market["coarse"].spot_gpus.tolist() == [0, 0, 20, 20, 40, 40]
    assert "different steps" in " ".join(market.assumptions)


def test_an_absurd_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="slots"):
        sampled(tmp_path, [0, 1 / 60, 2 / 60, 3e6], gaps="hold")
    with pytest.raises(InputError, match="slots"):
        resample(Market((pool([1], [1.0], 1e5),)), 1e-6)


def test_coarser_slots_take_the_minimum_and_the_mean() -> None:
    coarse = resample(Market((pool([3, 1, 2, 5, 4], [1, 2, 3, 4, 5]),)), 2.0).pools[0]
    assert coarse.spot_gpus.tolist() == [1, 2]
    assert coarse.spot_usd_per_gpu_hour.tolist() == [1.5, 3.5]
    assert coarse.slot_hours == 2.0


def test_slots_that_are_no_multiple_weigh_by_time() -> None:
    odd = resample(Market((pool([3, 1, 2], [1, 2, 4]),)), 1.5).pools[0]
    assert odd.spot_gpus.tolist() == [1, 1]
    np.testing.assert_allclose(odd.spot_usd_per_gpu_hour, [(1 + 0.5 * 2) / 1.5, (0.5 * 2 + 4) / 1.5])


def test_finer_slots_repeat() -> None:
    fine = resample(Market((pool([3, 1], [1, 2]),)), 0.5).pools[0]
    assert fine.spot_gpus.tolist() == [3, 3, 1, 1]
    assert fine.spot_usd_per_gpu_hour.tolist() == [1, 1, 2, 2]
    sevenths = resample(Market((pool([3, 1], [1, 2]),)), 1 / 7).pools[0]
    assert sevenths.spot_gpus.tolist() == [3] * 7 + [1] * 7


def test_a_slot_longer_than_the_series_or_none_at_all_is_refused() -> None:
    market = Market((pool([3, 1], [1, 2]),))
    with pytest.raises(InputError, match="at most as long as the series"):
        resample(market, 3.0)
    for slot_hours in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="slot length"):
            resample(market, slot_hours)


def test_many_interleaved_pools_keep_their_order(tmp_path: Path) -> None:
    times = [BEGIN + timedelta(minutes=10 * number) for number in range(200)]
    rows = [f"{time.isoformat()},{name},{at},1,9" for at, time in enumerate(times) for name in "cab"]
    (tmp_path / "m.csv").write_text("\n".join([",".join(COLUMNS), *rows]))
    market = read_table(tmp_path / "m.csv")
    assert list(market) == ["c", "a", "b"]
    for one in market.pools:
        assert one.spot_gpus.tolist() == list(range(200))
