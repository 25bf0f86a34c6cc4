"""A feed is followed into a table that is whole at any moment, whatever the source or a kill does."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from slacktide.app.markets.follow import ONCE_TRIES, FollowRequest, follow
from slacktide.core.errors import FileError, InputError
from slacktide.core.waits import GrowingWait
from slacktide.market.formats.market_bytes import TableNotes, notes_path, read_notes
from slacktide.market.live.base import FeedRefused, FeedUnreachable, Price, Prices
from slacktide.market.live.follower import (
    FIRST_WAIT_S,
    HEADER,
    LATE_S,
    LONGEST_WAIT_S,
    FollowedTable,
    Follower,
    FollowStep,
)
from slacktide.market.source import open_market
from tests.unit.market.live.parts_of_feeds import BEGIN, Scripted

MINUTE = timedelta(minutes=1)
SLOT_HOURS = 0.5
NOTES = TableNotes(feed="scripted", slot_hours=SLOT_HOURS, spot_gpus=12)


def waiting(seed: int) -> GrowingWait:
    return GrowingWait(FIRST_WAIT_S, LONGEST_WAIT_S, random.Random(seed).random)


def price(minutes: float, usd: float, pool: str = "here", on_demand: float | None = 8.0) -> Price:
    return Price(pool, BEGIN + minutes * MINUTE, usd, on_demand, "H100")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "prices.csv"


class Run:
    """A follower, its feed and its table, stepped by the minute."""

    def __init__(self, path: Path, feed: Scripted, since_hours: float = 2.0) -> None:
        self.feed, self.table, self.closed = feed, FollowedTable(path, NOTES), False
        self.follower = Follower(
            feed,
            self.table,
            zones=["here"],
            slot_hours=SLOT_HOURS,
            since_hours=since_hours,
            wait=waiting(1),
        )

    def at(self, minutes: float) -> FollowStep:
        self.feed.now = BEGIN + minutes * MINUTE
        return self.follower.step(self.feed.now)

    def close(self) -> None:
        if not self.closed:
            self.table.__exit__(None, None, None)
        self.closed = True


@pytest.fixture
def start(path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def make(feed: Scripted, since_hours: float = 2.0) -> Run:
        runs.append(Run(path, feed, since_hours))
        return runs[-1]

    yield make
    for run in runs:
        run.close()


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()[1:]


def told(path: Path) -> list[tuple[str, str]]:
    return [(cells[0][11:16], cells[3]) for cells in (line.split(",") for line in lines(path))]


def test_a_new_table_begins_in_the_past_and_grows_by_a_row_a_slot(
    path: Path, start: Callable[..., Run]
) -> None:
    run = start(Scripted(price(-300, 2.0), price(-50, 3.0), price(20, 4.0)))
    step = run.at(10)
    assert told(path) == [("10:30", "2.0"), ("11:00", "2.0"), ("11:30", "3.0"), ("12:00", "3.0")]
    assert (step.rows, [one.spot_per_gpu_hour for one in step.latest]) == (4, [3.0])
    assert step.wait_s == 20 * 60 + LATE_S
    assert run.at(12).rows == 0, "it has a row of this slot"
    assert run.at(31).rows == 1
    assert told(path)[-1] == ("12:30", "4.0")
    market = open_market(str(path))
    assert market.uncounted == ("here",)
    assert set(market["here"].spot_gpus.tolist()) == {12}
    assert market["here"].gpu == "H100"
    assert market.assumptions[0] == "A note of the feed."
    assert "12 spot GPUs are assumed" in market.assumptions[1]


def test_who_is_started_again_fills_the_gap_as_if_it_had_been_there(
    path: Path, start: Callable[..., Run]
) -> None:
    changes = [price(-300, 2.0), price(40, 3.0), price(100, 4.0)]
    first = start(Scripted(*changes))
    first.at(1)
    first.close()
    again = start(Scripted(*changes))
    assert again.at(125).rows == 4
    assert again.feed.asked == [BEGIN], "prices are asked for from the last row on"
    assert told(path)[-5:] == [
        ("12:00", "2.0"),
        ("12:30", "2.0"),
        ("13:00", "3.0"),
        ("13:30", "3.0"),
        ("14:00", "4.0"),
    ]


def test_what_no_source_remembers_stays_a_gap_that_readers_tell(
    path: Path, start: Callable[..., Run]
) -> None:
    feed = Scripted(history_days=0.0)

    def now(usd: float, minutes: float) -> None:
        feed.changes = [price(minutes, usd)]
        assert run.at(minutes).rows == 1

    run = start(feed)
    now(2.0, 1)
    now(3.0, 305)
    now(3.5, 335)
    assert told(path) == [("12:00", "2.0"), ("17:00", "3.0"), ("17:30", "3.5")]
    market = open_market(str(path))
    assert market["here"].slot_hours == SLOT_HOURS, "not the spacing of rows: the notes say it"
    assert len(market["here"]) == 12
    assert any("gap" in sentence for sentence in market.assumptions)


def test_one_row_is_a_market(path: Path, start: Callable[..., Run]) -> None:
    start(Scripted(price(1, 2.0), history_days=0.0)).at(1)
    assert len(open_market(str(path))["here"]) == 1


def test_a_kill_at_any_byte_leaves_a_table_to_read_and_to_go_on_with(
    path: Path, start: Callable[..., Run]
) -> None:
    changes = [price(-300, 2.0), price(-300, 5.0, "there")]
    run = start(Scripted(*changes))
    run.at(1)
    before = path.stat().st_size
    run.at(31)
    run.close()
    whole = path.read_bytes()
    for size in range(before, len(whole)):
        path.write_bytes(whole[:size])
        assert len(open_market(str(path)).pools) == 2
        again = Run(path, Scripted(*changes))
        again.at(31)
        again.close()
        assert sorted(path.read_bytes().splitlines()) == sorted(whole.splitlines()), size


def test_no_answer_is_a_trouble_in_the_notes_and_never_the_end(path: Path, start: Callable[..., Run]) -> None:
    run = start(Scripted(price(-300, 2.0)))
    run.at(1)
    waits = []
    for kind in (
        FeedUnreachable("the source is away"),
        FeedRefused("credentials expired"),
        KeyError("price"),
    ) * 5:
        run.feed.error = kind
        step = run.at(2)
        assert step.error is not None
        waits.append(step.wait_s)
    assert waits[-1] > waits[0]
    assert max(waits) <= 900
    notes = read_notes(path)
    assert notes is not None
    assert "KeyError" in notes.trouble
    run.feed.error = None
    assert run.at(61).rows == 2
    notes = read_notes(path)
    assert notes is not None
    assert (notes.trouble, notes.answered_utc) == ("", "2026-11-01T13:01:00Z")


def test_a_source_is_left_alone_as_long_as_it_asks(path: Path, start: Callable[..., Run]) -> None:
    run = start(Scripted(price(-300, 2.0)))
    run.feed.error = FeedUnreachable("too many questions", retry_after_s=1234.0)
    assert run.at(1).wait_s == 1234.0


def test_waits_double_up_to_a_cap_and_differ() -> None:
    one, other = waiting(1), waiting(2)
    waits = [one.after_failure() for _ in range(40)]
    assert waits != [other.after_failure() for _ in range(40)]
    for failure, wait in enumerate(waits):
        most = min(900.0, 2.0 * 2.0**failure)
        assert most / 2 <= wait <= most
    one.reset()
    assert one.after_failure() <= 2.0


def test_a_first_question_that_is_refused_is_an_error_and_leaves_nothing(path: Path, tmp_path: Path) -> None:
    feed = Scripted()
    request = FollowRequest(feed="scripted", path=str(path))
    for error, kind in ((FeedRefused("no such machine"), FeedRefused), (None, FeedRefused)):
        feed.error = error
        with pytest.raises(kind):
            follow(request, lambda step: None, feed=feed)
    assert list(tmp_path.iterdir()) == []


def test_once_asks_a_few_times_and_then_says_why(path: Path) -> None:
    feed, waits = Scripted(price(-300, 2.0)), list[float]()
    feed.error = FeedUnreachable("away")
    request = FollowRequest(feed="scripted", path=str(path))

    def sleep(seconds: float) -> None:
        waits.append(seconds)

    with pytest.raises(FeedUnreachable, match="away"):
        follow(request, lambda step: None, once=True, feed=feed, sleep=sleep)
    assert len(waits) == ONCE_TRIES - 1
    feed.error = None
    steps: list[FollowStep] = []
    follow(request, steps.append, once=True, feed=feed, now=lambda: BEGIN)
    assert steps[0].rows > 0


@pytest.mark.parametrize(
    ("change", "words"), [({"slot_hours": 1.0}, "keep its slots"), ({"spot_gpus": 3}, "keep its slots")]
)
def test_a_table_keeps_its_form(
    path: Path, start: Callable[..., Run], change: dict[str, float], words: str
) -> None:
    run = start(Scripted(price(-300, 2.0)))
    run.at(1)
    with pytest.raises(InputError, match="one process"):
        FollowedTable(path, NOTES)
    run.close()
    with pytest.raises(InputError, match=words):
        FollowedTable(path, TableNotes(**{"slot_hours": SLOT_HOURS, "spot_gpus": 12, **change}))  # type: ignore[arg-type]
    notes_path(path).write_text("{", encoding="utf-8")
    assert read_notes(path) is None
    with pytest.raises(InputError, match="market follow"):
        FollowedTable(path, NOTES)
    assert len(open_market(str(path))["here"]) == 4, "without notes it is a table like any other"


def test_other_files_are_not_written_to(path: Path, tmp_path: Path) -> None:
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="market follow"):
        FollowedTable(path, NOTES)
    with pytest.raises(InputError, match="must end in"):
        FollowedTable(tmp_path / "prices.parquet", NOTES)
    assert path.read_text(encoding="utf-8") == "mine"


def test_a_full_disk_is_a_trouble_and_leaves_no_piece(
    path: Path, start: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(Scripted(price(-300, 2.0)))
    run.at(1)
    before, write = path.read_bytes(), os.write

    def full(file: int, data: bytes) -> int:
        write(file, data[:7])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("slacktide.market.live.follower.os.write", full)
        step = run.at(31)
    assert isinstance(step.error, FileError)
    assert path.read_bytes() == before
    assert run.at(32).rows == 1


def test_prices_without_on_demand_are_left_out_or_given_one(path: Path) -> None:
    feed = Scripted(price(-300, 2.0), price(-300, 3.0, "bare", None))
    feed.now = BEGIN
    request = FollowRequest(feed="scripted", path=str(path), since_hours=1.0)
    follow(request, lambda step: None, once=True, feed=feed, now=lambda: BEGIN)
    market = open_market(str(path))
    assert list(market) == ["here"]
    assert any("bare" in sentence for sentence in market.assumptions)
    given = FollowRequest(feed="scripted", path=str(path), since_hours=1.0, on_demand_usd=9.0)
    follow(given, lambda step: None, once=True, feed=feed, now=lambda: BEGIN)
    assert open_market(str(path))["bare"].on_demand_usd_per_gpu_hour.tolist()[0] == 9.0


def test_other_money_and_bad_settings_are_refused(path: Path) -> None:
    class Euros(Scripted):
        def prices(self, zones: object, since_utc: datetime | None = None) -> Prices:
            return Prices(prices=(price(-300, 2.0),), requested_utc=BEGIN, currency="EUR")

    with pytest.raises(FeedRefused, match="USD"):
        follow(FollowRequest(feed="x", path=str(path)), lambda step: None, feed=Euros())
    for bad in (
        {"every_hours": 0.001},
        {"since_hours": -1.0},
        {"spot_gpus": -1},
        {"on_demand_usd": float("nan")},
    ):
        with pytest.raises(InputError, match="must"):
            FollowRequest(feed="x", path=str(path), **bad)


def test_a_clock_that_goes_back_writes_nothing_twice(path: Path, start: Callable[..., Run]) -> None:
    run = start(Scripted(price(-300, 2.0)))
    run.at(61)
    assert run.at(1).rows == 0
    assert run.at(92).rows == 1
    assert lines(path) == sorted(lines(path))
    assert path.read_text(encoding="utf-8").startswith(",".join(HEADER))


@pytest.mark.parametrize(
    "change",
    [
        {"pool": "two\nlines"}, {"pool": 'a,"b"'}, {"pool": "\x1b[31mred"}, {"pool": "p" * 999},
        {"pool": " "}, {"gpu": "H\x00"}, {"spot_per_gpu_hour": float("nan")}, {"spot_per_gpu_hour": -1.0},
        {"on_demand_per_gpu_hour": float("inf")}, {"since_utc": datetime(2026, 1, 1)},
        {"spot_per_gpu_hour": "2"},
    ],
)  # fmt: skip
def test_prices_that_cannot_be_never_reach_the_table(
    path: Path, start: Callable[..., Run], change: dict[str, object]
) -> None:
    class Says(Scripted):
        answer: tuple[Price, ...] = (price(-300, 2.0),)

        def prices(self, zones: object, since_utc: datetime | None = None) -> Prices:
            return Prices(prices=self.answer, requested_utc=self.now)

    feed = Says()
    run = start(feed)
    run.at(1)
    before = path.read_bytes()
    feed.answer = (price(-300, 2.0)._replace(**change),)  # type: ignore[arg-type]
    step = run.at(61)
    assert isinstance(step.error, FeedUnreachable)
    assert str(step.error).isprintable()
    assert path.read_bytes() == before
