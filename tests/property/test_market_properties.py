"""Laws of market data: resampling keeps minimum and mean, files keep everything, order does not matter."""

from __future__ import annotations

import math
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.core.errors import SlacktideError
from slacktide.market.base import Market, Pool
from slacktide.market.formats.samples import COLUMNS
from slacktide.market.formats.table import write_table
from slacktide.market.series import resample
from slacktide.market.source import open_market
from slacktide.market.synthetic import PROFILES, synthesize
from tests.build import read_table
from tests.parts_of_effort import examples

PRICES = st.floats(0, 1e6, allow_nan=False)
MINUTES = st.sampled_from([1, 2, 3, 5, 7, 10, 15, 30, 45, 60, 90])


@st.composite
def pools(draw: st.DrawFn, slot_minutes: st.SearchStrategy[int] = MINUTES) -> Pool:
    size = draw(st.integers(1, 40))
    return Pool(
        draw(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)),
        draw(slot_minutes) / 60,
        np.array(draw(st.lists(PRICES, min_size=size, max_size=size))),
        np.array(draw(st.lists(PRICES, min_size=size, max_size=size))),
        np.array(draw(st.lists(st.integers(0, 64), min_size=size, max_size=size))),
    )


def plainly(pool: Pool, slot: Fraction) -> list[tuple[float, int]]:
    """Resample by the definition: for each slot go through all steps that overlap it."""
    step = Fraction(round(pool.slot_hours * 60), 60)
    result = []
    for number in range(math.floor(len(pool) * step / slot)):
        begin, end = number * slot, (number + 1) * slot
        parts = [
            (min(end, (at + 1) * step) - max(begin, at * step), at)
            for at in range(math.floor(begin / step), math.ceil(end / step))
        ]
        mean = (
            sum((part * Fraction(pool.spot_usd_per_gpu_hour[at]) for part, at in parts), Fraction(0)) / slot
        )
        result.append((float(mean), min(int(pool.spot_gpus[at]) for _, at in parts)))
    return result


@settings(deadline=None)
@given(pools(), st.sampled_from([5, 7, 10, 15, 30, 45, 60, 90]))
def test_a_slot_has_the_minimum_and_the_time_weighted_mean(pool: Pool, minutes: int) -> None:
    expected = plainly(pool, Fraction(minutes, 60))
    if not expected:
        return
    made = resample(Market((pool,)), minutes / 60).pools[0]
    assert made.spot_gpus.tolist() == [gpus for _, gpus in expected]
    np.testing.assert_allclose(
        made.spot_usd_per_gpu_hour, [mean for mean, _ in expected], rtol=1e-12, atol=1e-300
    )


@settings(deadline=None)
@given(pools(), st.integers(1, 12))
def test_finer_and_back_is_the_identity(pool: Pool, parts: int) -> None:
    market = Market((pool,))
    back = resample(resample(market, pool.slot_hours / parts), pool.slot_hours).pools[0]
    assert len(back) == len(pool)
    for name in COLUMNS[2:]:
        np.testing.assert_array_equal(getattr(back, name), getattr(pool, name))


@settings(deadline=None)
@given(pools(), st.floats(0.01, 5, allow_nan=False))
def test_any_slot_length_stays_within_the_series(pool: Pool, slot_hours: float) -> None:
    if slot_hours > pool.hours:
        return
    made = resample(Market((pool,)), slot_hours).pools[0]
    assert made.hours <= pool.hours * (1 + 1e-6)
    assert made.hours > pool.hours - slot_hours * (1 + 1e-6)
    assert made.spot_gpus.min() >= pool.spot_gpus.min()
    assert pool.spot_usd_per_gpu_hour.min() <= made.spot_usd_per_gpu_hour.min()
    assert made.spot_usd_per_gpu_hour.max() <= pool.spot_usd_per_gpu_hour.max()


@settings(deadline=None)
@given(pools())
def test_the_same_slot_length_changes_nothing(pool: Pool) -> None:
    assert resample(Market((pool,)), pool.slot_hours).pools[0] is pool


@settings(max_examples=40, deadline=None)
@given(pools(), st.sampled_from([".csv", ".csv.gz", ".parquet"]))
def test_a_file_keeps_everything(pool: Pool, ending: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"m{ending}"
        write_table(Market((pool,)), path)
        back = read_table(path, slot_hours=pool.slot_hours if len(pool) == 1 else None).pools[0]
    assert (back.name, back.start, back.slot_hours) == (pool.name, pool.start, pool.slot_hours)
    for name in COLUMNS[2:]:
        np.testing.assert_array_equal(getattr(back, name), getattr(pool, name))


@settings(max_examples=40, deadline=None)
@given(pools(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter_when_sorting_is_allowed(pool: Pool, random: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.csv"
        write_table(Market((pool,)), path)
        header, *rows = path.read_bytes().decode().splitlines()
        random.shuffle(rows)  # type: ignore[attr-defined]
        path.write_bytes("\n".join([header, *rows]).encode())
        back = read_table(path, unsorted="sort", slot_hours=pool.slot_hours).pools[0]
    assert back.start == pool.start
    np.testing.assert_array_equal(back.spot_gpus, pool.spot_gpus)
    np.testing.assert_array_equal(back.spot_usd_per_gpu_hour, pool.spot_usd_per_gpu_hour)


def assert_read_or_refused(path: Path) -> None:
    """Open a file as a market; the only other outcome allowed is an error that names the file."""
    refusal = None
    try:
        open_market(str(path), slot_hours=0.5)
    except SlacktideError as error:
        refusal = str(error)
    assert refusal is None or str(path) in refusal


@settings(max_examples=examples(150), deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["m.csv", "m.csv.gz", "m.parquet", "m.json", "m"]))
def test_no_bytes_make_a_traceback(data: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        assert_read_or_refused(path)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["2025-01-01T00:00Z", "2025-01-01T01:00:00+01:00", "2025-01-01 00:30", "x", ""]),
            st.sampled_from(["a", "b", " a", ""]),
            st.sampled_from(["1", "1.0", "-1", "x", "1e3", ""]),
            st.sampled_from(["1.5", "nan", "-0", "1e400", ""]),
            st.sampled_from(["3", "inf", '"3"']),
        ).map(",".join),
        max_size=6,
    )
)
def test_no_table_makes_a_traceback(rows: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.csv"
        path.write_text("\n".join([",".join(COLUMNS), *rows]))
        assert_read_or_refused(path)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(PROFILES)), st.integers(0, 2**32), st.floats(0.1, 4), st.integers(1, 3))
def test_a_seed_makes_one_market_and_longer_ones_begin_like_shorter(
    name: str, seed: int, days: float, count: int
) -> None:
    short = synthesize(PROFILES[name], days=days, seed=seed, pools=count)
    long = synthesize(PROFILES[name], days=days + 1, seed=seed, pools=count + 1)
    for pool in short.pools:
        same = long[pool.name].window(0, len(pool))
        for column in COLUMNS[2:]:
            np.testing.assert_array_equal(getattr(same, column), getattr(pool, column))
