"""The table format: what is read, what is written back, and what every broken file is told."""

from __future__ import annotations

import gzip
import pickle
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from slacktide.core.errors import FileError
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.market.base import Market, Pool, digest
from slacktide.market.formats.samples import COLUMNS
from slacktide.market.formats.table import _fast_samples, rows_samples, write_table
from slacktide.market.live.live_pool import LivePool
from slacktide.market.series import resample
from slacktide.market.tape import Past
from tests import build
from tests.build import read_table

HEADER = ",".join(COLUMNS)
ROWS = (
    "2025-10-04T00:00:00Z,a,1,1.5,3.06",
    "2025-10-04T00:10:00Z,a,0,1.25,3.06",
    "2025-10-04T00:20:00Z,a,16,0,3.06",
)


def table(tmp_path: Path, *lines: str, name: str = "m.csv", end: str = "\n") -> Path:
    path = tmp_path / name
    path.write_bytes((end.join(lines) + end).encode())
    return path


def told(path: Path, **options: str) -> FileError:
    """Return the error that reading a file raises."""
    with pytest.raises(FileError) as caught:
        read_table(path, **options)
    assert str(caught.value).startswith(str(path))
    return caught.value


def same(left: Market, right: Market) -> None:
    assert list(left) == list(right)
    for one, other in zip(left.pools, right.pools, strict=True):
        assert (one.start, one.slot_hours, one.gpu) == (other.start, other.slot_hours, other.gpu)
        np.testing.assert_array_equal(one.stock_gpus, other.stock_gpus)
        for name in COLUMNS[2:]:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_table_is_read_as_it_stands(tmp_path: Path) -> None:
    pool = read_table(table(tmp_path, HEADER, *ROWS)).pools[0]
    assert pool.name == "a"
    assert pool.start == datetime(2025, 10, 4, tzinfo=UTC)
    assert pool.slot_hours == 1 / 6
    assert pool.spot_gpus.tolist() == [1, 0, 16]
    assert pool.spot_usd_per_gpu_hour.tolist() == [1.5, 1.25, 0.0]
    assert pool.on_demand_usd_per_gpu_hour.tolist() == [3.06] * 3


def test_columns_may_come_in_any_order(tmp_path: Path) -> None:
    turned = [",".join(reversed(line.split(","))) for line in (HEADER, *ROWS)]
    same(read_table(table(tmp_path, *turned)), read_table(table(tmp_path, HEADER, *ROWS, name="n.csv")))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_marks_do_not_matter(tmp_path: Path, end: str, mark: str) -> None:
    odd = table(tmp_path, mark + HEADER, *ROWS, end=end)
    same(read_table(odd), read_table(table(tmp_path, HEADER, *ROWS, name="n.csv")))


@pytest.mark.parametrize(
    "times",
    [
        ("2025-10-04T00:00:00", "2025-10-04T00:10:00", "2025-10-04T00:20:00"),
        ("2025-10-04T02:00:00+02:00", "2025-10-04T02:10:00+02:00", "2025-10-04T02:20:00+02:00"),
        ("2025-10-04 00:00:00Z", "2025-10-03 19:10:00-05:00", "2025-10-04T00:20:00.000"),
        ("2025-10-04T00:00:00.000Z", "2025-10-04T00:10:00.000Z", "2025-10-04T00:20:00.000Z"),
    ],
)
def test_times_may_be_written_in_many_ways(tmp_path: Path, times: tuple[str, ...]) -> None:
    rows = [row.replace(row.split(",")[0], time) for row, time in zip(ROWS, times, strict=True)]
    same(read_table(table(tmp_path, HEADER, *rows)), read_table(table(tmp_path, HEADER, *ROWS, name="n.csv")))


def test_fractions_of_a_second_count(tmp_path: Path) -> None:
    lines = [f"2025-10-04T00:00:0{second}Z,a,1,1,3" for second in ("0.000", "0.250", "0.500", "0.750")]
    pool = read_table(table(tmp_path, HEADER, *lines)).pools[0]
    assert pool.slot_hours == 0.25 / 3600


def test_pools_may_be_interleaved_and_named_freely(tmp_path: Path) -> None:
    lines = [
        '2025-10-04T00:00:00Z,"b, ""x""",1,1,3',
        "2025-10-04T00:05:00Z,a,2,1,3",
        '2025-10-04T00:10:00Z,"b, ""x""",3,1,3',
        "2025-10-04T00:15:00Z,a,4,1,3",
    ]
    market = read_table(table(tmp_path, HEADER, *lines))
    assert list(market) == ['b, "x"', "a"]
    assert market["a"].spot_gpus.tolist() == [2, 4]
    assert market["a"].start == datetime(2025, 10, 4, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize("name", ["m.csv", "m.csv.gz", "m.parquet"])
def test_what_is_written_is_read_back_exactly(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    pools = (
        Pool("a", 195 / 3600, rng.random(50), 1 + rng.random(50), rng.integers(0, 17, 50)),
        build.pool(
            rng.random(70) * 1e-9,
            np.full(70, 1 / 3),
            0,
            name='b, "c" é',
            slot_hours=195 / 3600,
            start=datetime(2023, 2, 15, 22, 8, 16, 250000, tzinfo=UTC),
        ),
    )
    market = Market(pools)
    write_table(market, tmp_path / name)
    same(market, read_table(tmp_path / name))
    typed = Market((replace(pools[0], gpu="A100-80GB"), pools[1]))
    write_table(typed, tmp_path / name)
    same(typed, read_table(tmp_path / name))


def test_parquet_keeps_assumptions_odd_slots_and_single_rows(tmp_path: Path) -> None:
    pool = build.pool(1.0, 1.0, 1, slots=1, name="a", slot_hours=1 / 7)
    write_table(Market((pool,), assumptions=("Something was assumed.",)), tmp_path / "m.parquet")
    market = read_table(tmp_path / "m.parquet")
    assert market.assumptions == ("Something was assumed.",)
    assert market.pools[0].slot_hours == 1 / 7


def test_the_fast_way_and_the_plain_way_agree(tmp_path: Path) -> None:
    data = table(tmp_path, HEADER, *ROWS, "", *(row.replace(",a,", ",b,") for row in ROWS)).read_bytes()
    fast, plain = _fast_samples(data, "m"), rows_samples(data, "m")
    assert fast is not None
    assert fast.pools == plain.pools
    for name in ("pool", "micros", *COLUMNS[2:]):
        np.testing.assert_array_equal(getattr(fast, name), getattr(plain, name))
    assert [fast.place(row) for row in range(6)] == [plain.place(row) for row in range(6)]


@pytest.mark.slow
def test_a_million_rows_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pools = [
        build.pool(
            np.round(rng.random(100_000), 4),
            1.0,
            rng.integers(0, 17, 100_000),
            name=f"p{number}",
            slot_hours=1 / 12,
        )
        for number in range(10)
    ]
    write_table(Market(tuple(pools)), tmp_path / "m.csv")
    market = read_table(tmp_path / "m.csv")
    assert sum(len(pool) for pool in market.pools) == 1_000_000


def test_free_spot_and_spot_above_on_demand_and_moving_list_prices_are_fine(tmp_path: Path) -> None:
    pool = read_table(
        table(tmp_path, HEADER, "2025-10-04T00:00Z,a,0,0,0", "2025-10-04T01:00Z,a,0,9,2")
    ).pools[0]
    assert pool.on_demand_usd_per_gpu_hour.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("2025-10-04T00:30:00Z,a,nan,1,3", ["spot_gpus", "finite", "'nan'"]),
        ("2025-10-04T00:30:00Z,a,,1,3", ["spot_gpus", "number", "''"]),
        ("2025-10-04T00:30:00Z,a,many,1,3", ["spot_gpus", "number", "'many'"]),
        ("2025-10-04T00:30:00Z,a,1.5,1,3", ["spot_gpus", "whole", "'1.5'"]),
        ("2025-10-04T00:30:00Z,a,-1,1,3", ["spot_gpus", "whole number >= 0", "'-1'"]),
        ("2025-10-04T00:30:00Z,a,99999999999999999999,1,3", ["spot_gpus", "whole number"]),
        ("2025-10-04T00:30:00Z,a,1,nan,3", ["spot_usd_per_gpu_hour", "finite", "'nan'"]),
        ("2025-10-04T00:30:00Z,a,1,inf,3", ["spot_usd_per_gpu_hour", "finite", "'inf'"]),
        ("2025-10-04T00:30:00Z,a,1,1e999,3", ["spot_usd_per_gpu_hour", "finite", "'1e999'"]),
        ("2025-10-04T00:30:00Z,a,1,-0.5,3", ["spot_usd_per_gpu_hour", "0..", "'-0.5'"]),
        ("2025-10-04T00:30:00Z,a,1,,3", ["spot_usd_per_gpu_hour", "number", "''"]),
        ("2025-10-04T00:30:00Z,a,1,1,free", ["on_demand_usd_per_gpu_hour", "number", "'free'"]),
        ("2025-10-04T00:30:00Z,a,1,1,1_000", ["on_demand_usd_per_gpu_hour", "'1_000'"]),
        ("yesterday,a,1,1,3", ["time_utc", "2025-10-04T00:10:00Z", "'yesterday'"]),
        (",a,1,1,3", ["time_utc", "''"]),
        ("2025-13-04T00:30:00Z,a,1,1,3", ["time_utc", "'2025-13-04T00:30:00Z'"]),
        ("2025-10-04T00:30:00Z,,1,1,3", ["pool", "empty"]),
        ("2025-10-04T00:30:00Z,a,1,1", ["5 cells", "got 4"]),
        ("2025-10-04T00:30:00Z,a,1,1,3,7", ["5 cells", "got 6"]),
        ('2025-10-04T00:30:00Z,"a,1,1,3', ["CSV"]),
    ],
)
def test_a_broken_row_is_named_by_line_column_and_text(tmp_path: Path, row: str, words: list[str]) -> None:
    error = told(table(tmp_path, HEADER, ROWS[0], "", ROWS[1], "", "", ROWS[2], row))
    assert error.line == 8
    for word in words:
        assert word in str(error)


def test_a_mistake_deep_in_a_long_file_is_found_by_line(tmp_path: Path) -> None:
    rows = [f"2025-10-04T00:00:00Z,pool-{number},1,1.5,3.06" for number in range(60_000)]
    rows[7] = rows[7].replace("Z", "")  # odd, but allowed
    rows[50_000] = rows[50_000].replace("1.5", "1.5.")
    error = told(table(tmp_path, HEADER, "", *rows))
    assert error.line == 50_003
    assert "'1.5.'" in str(error)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (HEADER.replace("spot_gpus", "spot_gpu"), ["'spot_gpu'", "did you mean 'spot_gpus'"]),
        (HEADER.replace(",pool", ""), ["'pool'", "must exist"]),
        (HEADER + ",note", ["'note'", "a column"]),
        (HEADER + ",pool", ["'pool'", "twice"]),
        ("1,2,3,4,5", ["a column", "'1'"]),
    ],
)
def test_a_broken_header_is_named(tmp_path: Path, header: str, words: list[str]) -> None:
    error = told(table(tmp_path, "", header, *ROWS))
    assert error.line == 2
    for word in words:
        assert word in str(error)


LONG = "\n".join([HEADER, *ROWS * 50])


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("m.csv", b"", ["empty"]),
        ("m.csv", b"\n \n", ["empty"]),
        ("m.csv", HEADER.encode() + b"\n", ["rows below its header"]),
        ("m.csv", HEADER.encode(), ["rows below its header"]),
        ("m.csv", b"\x00\x01\x02\xff" * 50, ["UTF-8"]),
        ("m.csv", HEADER.encode("utf-16"), ["UTF-8"]),
        ("m.csv", (HEADER + "\n" + ROWS[0] + "\0\n").encode(), ["zero byte"]),
        ("m.csv.gz", (HEADER + "\n").encode(), [".gz", "gzip"]),
        ("m.csv.gz", gzip.compress(LONG.encode(), mtime=0)[:-20], ["gzip", "truncated"]),
        ("m.csv.gz", b"\x1f\x8b garbage and more garbage", ["gzip"]),
        ("m.csv.gz", gzip.compress(b"", mtime=0), ["empty"]),
        ("m.parquet", b"PAR1 this is no Parquet PAR1", ["Parquet"]),
        ("m.parquet", b"text", ["Parquet"]),
    ],
)
def test_a_file_that_is_no_table_is_told_so(tmp_path: Path, name: str, data: bytes, words: list[str]) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    error = told(path)
    for word in words:
        assert word in str(error)


def test_a_bad_byte_is_found_by_line(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_bytes(("\n".join([HEADER, *ROWS]) + "\n").encode() + b"2025-10-04T00:30:00Z,\xe9,1,1,3\n")
    error = told(path)
    assert error.line == 5
    assert "0xe9" in str(error)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert "must exist" in str(told(tmp_path / "none.csv"))
    assert "folder" in str(told(tmp_path))


def test_writing_where_one_cannot_is_refused(tmp_path: Path) -> None:
    market = read_table(table(tmp_path, HEADER, *ROWS))
    with pytest.raises(FileError, match="writable"):
        write_table(market, tmp_path / "m.csv" / "no-folder" / "m.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["m.csv"]


def test_parquet_of_others_is_read_and_its_mistakes_are_named_by_row(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    columns = {
        "pool": ["a", "a"],
        "time_utc": ["2025-10-04T00:00:00Z", "2025-10-04T00:10:00Z"],
        "spot_gpus": [1.0, 2.0],
        "spot_usd_per_gpu_hour": [1, 2],
        "on_demand_usd_per_gpu_hour": [3.0, 3.0],
    }
    parquet.write_table(pa.table(columns), tmp_path / "good.parquet")
    assert read_table(tmp_path / "good.parquet").pools[0].spot_gpus.tolist() == [1, 2]
    parquet.write_table(pa.table(columns | {"spot_gpus": [1.0, None]}), tmp_path / "bad.parquet")
    assert "row 2: spot_gpus must be a number" in str(told(tmp_path / "bad.parquet"))
    parquet.write_table(pa.table({"pool": ["a"]}), tmp_path / "few.parquet")
    assert "'time_utc' must exist" in str(told(tmp_path / "few.parquet"))
    parquet.write_table(pa.table(columns).slice(0, 0), tmp_path / "empty.parquet")
    assert "rows" in str(told(tmp_path / "empty.parquet"))


TYPED = HEADER + ",gpu"


@pytest.mark.parametrize("order", [TYPED, "gpu," + HEADER])
def test_a_table_may_say_the_gpu_of_each_pool(tmp_path: Path, order: str) -> None:
    def row(text: str, gpu: str) -> str:
        return f"{text},{gpu}" if order == TYPED else f"{gpu},{text}"

    lines = [
        row(line.replace(",a,", f",{pool},"), gpu)
        for pool, gpu in (("a", "H100"), ("b", ""))
        for line in ROWS
    ]
    path = table(tmp_path, order, *lines)
    market = read_table(path)
    assert [(pool.name, pool.gpu) for pool in market.pools] == [("a", "H100"), ("b", "")]
    fast, plain = _fast_samples(path.read_bytes(), "m"), rows_samples(path.read_bytes(), "m")
    assert fast is not None
    assert fast.gpu_types == plain.gpu_types == ("H100", "")
    # Blanks around a cell are read by the plain way.
    spaced = table(tmp_path, order, *(line.replace("H100", " H100 ") for line in lines), name="n.csv")
    same(read_table(spaced), market)


def test_a_pool_has_one_gpu_type(tmp_path: Path) -> None:
    error = told(table(tmp_path, TYPED, ROWS[0] + ",H100", ROWS[1] + ",H100", ROWS[2] + ",A100"))
    assert error.line == 4
    assert "gpu must be the same in all rows of pool 'a', which has 'H100', got 'A100'" in str(error)


def test_a_row_without_its_gpu_is_named(tmp_path: Path) -> None:
    error = told(table(tmp_path, TYPED, ROWS[0] + ",H100", ROWS[1]))
    assert (error.line, "6 cells like the header, got 5" in str(error)) == (3, True)


def test_two_columns_of_gpu_types_are_refused(tmp_path: Path) -> None:
    assert "got 'gpu' twice" in str(told(table(tmp_path, TYPED + ",gpu", ROWS[0] + ",H100,H100")))


def test_parquet_may_leave_a_gpu_out(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    times = [datetime(2025, 10, 4, 0, minute, tzinfo=UTC) for minute in (0, 10)]
    columns = [times, ["a", "a"], [1, 2], [1.0, 1.0], [3.0, 3.0], [None, None]]
    parquet.write_table(pa.table(columns, names=[*COLUMNS, "gpu"]), tmp_path / "m.parquet")
    assert read_table(tmp_path / "m.parquet").pools[0].gpu == ""


def test_the_gpu_of_a_pool_stays_with_it(tmp_path: Path) -> None:
    pool = read_table(table(tmp_path, TYPED, *(f"{row},H100" for row in ROWS))).pools[0]
    made = (
        pool.window(0, 2),
        pickle.loads(pickle.dumps(pool)),
        resample(Market((pool,)), 1 / 3).pools[0],
        resample(Market((pool,)), 1 / 12).pools[0],
        LivePool(pool, 0.0).pool(),
    )
    assert [one.gpu for one in made] == ["H100"] * len(made)


STOCKED = tuple(f"{row},{stock}" for row, stock in zip(ROWS, ("8", "", "0"), strict=True))


@pytest.mark.parametrize("name", ["m.csv", "m.csv.gz", "m.parquet"])
def test_a_table_may_say_how_many_gpus_can_be_had_on_demand(tmp_path: Path, name: str) -> None:
    market = read_table(table(tmp_path, f"{HEADER},on_demand_gpus", *STOCKED, name="given.csv"))
    pool = market.pools[0]
    assert pool.on_demand_gpus is not None
    assert pool.on_demand_gpus.tolist() == [8, UNLIMITED_GPUS, 0]
    assert [pool.quote(slot).on_demand_gpus for slot in (0, 2, 3)] == [8, 0, UNLIMITED_GPUS]
    unlimited = replace(pool, name="b", gpu="H100", on_demand_gpus=None)
    write_table(replace(market, pools=(pool, unlimited)), tmp_path / name)
    back = read_table(tmp_path / name)
    same(back, replace(market, pools=(pool, unlimited)))
    assert back.pools[1].on_demand_gpus is None


def test_a_stock_is_kept_by_all_that_is_made_of_a_pool(tmp_path: Path) -> None:
    market = read_table(
        table(
            tmp_path,
            f"on_demand_gpus,{HEADER}",
            *(f"{stock},{row}" for row, stock in zip(ROWS, (8, 2, 5), strict=True)),
        )
    )
    pool = market.pools[0]
    assert pool.window(1, 3).stock_gpus.tolist() == [2, 5]
    assert pickle.loads(pickle.dumps(pool)).stock_gpus.tolist() == [8, 2, 5]
    assert resample(market, pool.slot_hours * 1.5).pools[0].stock_gpus.tolist() == [2, 2]
    assert LivePool(pool, 0.0).pool().stock_gpus.tolist() == [8, 2, 5]
    assert [quote.on_demand_gpus for quote in Past.of(pool).until(2 * pool.slot_hours)] == [8, 2]
    bare = replace(market, pools=(replace(pool, on_demand_gpus=None),))
    full = replace(market, pools=(replace(pool, on_demand_gpus=np.full(3, UNLIMITED_GPUS)),))
    assert digest(market) != digest(bare) == digest(full)
    assert full.pools[0].on_demand_gpus is None


@pytest.mark.parametrize("cell", ["-1", "2.5", "many", "nan", "9" * 30])
def test_a_bad_stock_is_named_by_line(tmp_path: Path, cell: str) -> None:
    error = told(table(tmp_path, f"{HEADER},on_demand_gpus", STOCKED[0], f"{ROWS[1]},{cell}", STOCKED[2]))
    assert error.line == 3
    assert "on_demand_gpus must be a" in str(error)
    assert cell[:10] in str(error)


def test_a_bad_stock_in_parquet_is_named_by_row(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    good = read_table(table(tmp_path, f"{HEADER},on_demand_gpus", *STOCKED))
    write_table(good, tmp_path / "m.parquet")
    found = parquet.read_table(tmp_path / "m.parquet")
    at = found.column_names.index("on_demand_gpus")
    parquet.write_table(
        found.set_column(at, "on_demand_gpus", pa.array([8.0, None, 1.5])), tmp_path / "n.parquet"
    )
    assert "row 3: on_demand_gpus must be a whole number >= 0, got '1.5'" in str(told(tmp_path / "n.parquet"))


def test_the_fast_way_and_the_plain_way_agree_on_stocks(tmp_path: Path) -> None:
    data = table(tmp_path, f"{HEADER},on_demand_gpus", *STOCKED).read_bytes()
    fast, plain = _fast_samples(data, "m"), rows_samples(data, "m")
    assert fast is not None
    np.testing.assert_array_equal(fast.on_demand_gpus, plain.on_demand_gpus)
