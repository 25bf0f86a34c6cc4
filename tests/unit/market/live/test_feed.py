"""A market that is still being written: rows count when they come, the past stays as it was."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slacktide.app.jobs.submission import Submission, journal_entry
from slacktide.app.markets.market import MarketSpec
from slacktide.backends.replay import Replay
from slacktide.core.errors import InputError
from slacktide.core.quotes import UNLIMITED_GPUS, Quote
from slacktide.engine.bills.audit import audit
from slacktide.engine.engine import Engine
from slacktide.journal.store.base import MemoryStore
from slacktide.market.live.feed import Feed, open_feed, troubles
from slacktide.market.spec import feed_path
from tests.parts_of_reach import find_numbers

HEADER = "time_utc,pool,spot_gpus,spot_usd_per_gpu_hour,on_demand_usd_per_gpu_hour\n"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
JOB = """\
name: fed
run: "true"
resources: {accelerators: "H100:1..4"}
work: 8 gpu-hours
deadline: 6h
policy: uniform-progress
"""


def row(slot: float, gpus: int, usd: float = 2.0, pool: str = "here") -> str:
    time = (BEGIN + timedelta(hours=0.5 * slot)).isoformat().replace("+00:00", "Z")
    return f"{time},{pool},{gpus},{usd},8.0\n"


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    path = tmp_path / "prices.csv"
    path.write_text(HEADER + "".join(row(slot, 4) for slot in range(10)), encoding="utf-8")
    return path


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def test_a_row_that_has_not_come_is_like_the_last(feed: Path) -> None:
    live = Feed(f"feed:{feed}")
    assert live.quote("here", 12).spot_gpus == 4
    append(feed, row(10, 3) + row(11, 2) + row(12, 1))
    assert [live.quote("here", slot).spot_gpus for slot in (10, 11, 12, 13)] == [3, 2, 1, 1]


def offered(live: Feed, last: int, pool: str = "here") -> list[int]:
    """Return what is seen of a pool's spot from slot 8 on, in slot `last` of the first pool."""
    moment = live.at("here", last)
    names = [one.name for one in moment]
    return [quote.spot_gpus for quote in moment.past(names.index(pool))[8:]]


def test_a_line_counts_when_it_is_complete(feed: Path) -> None:
    live, whole = Feed(f"feed:{feed}"), row(10, 31)
    for end in range(len(whole) - 1):
        append(feed, whole[end : end + 1])
        assert offered(live, 10) == [4, 4, 4]
    append(feed, whole[-1:])
    assert offered(live, 10) == [4, 4, 31]


def test_a_feed_may_say_which_gpus_there_are(feed: Path) -> None:
    """Its rows are followed one by one too, half-written ones included."""
    lines = feed.read_text(encoding="utf-8").splitlines()
    feed.write_text("\n".join([f"{lines[0]},gpu", *(f"{line},H100" for line in lines[1:])]) + "\n")
    live, whole = Feed(f"feed:{feed}"), row(10, 31).replace("\n", ",H100\n")
    append(feed, whole[:-9])
    assert offered(live, 10) == [4, 4, 4]
    append(feed, whole[-9:])
    assert offered(live, 10) == [4, 4, 31]
    assert not live.trouble


def test_a_pool_that_comes_into_being_has_its_gpus(feed: Path) -> None:
    lines = feed.read_text(encoding="utf-8").splitlines()
    feed.write_text("\n".join([f"{lines[0]},gpu", *(f"{line},H100" for line in lines[1:])]) + "\n")
    live = Feed(f"feed:{feed}")
    live.at("here", 9)
    append(feed, row(10, 7, pool="new").replace("\n", ",A100\n"))
    assert live.at("here", 10)[1][:2] == ("new", Quote(2.0, 8.0, 7))
    assert (live.pool("here").gpu, live.pool("new").gpu) == ("H100", "A100")


def test_a_feed_may_say_how_many_gpus_can_be_had_on_demand(feed: Path) -> None:
    def with_stock(slot: float, stock: str, pool: str = "here") -> str:
        return row(slot, 4, pool=pool).strip() + f",{stock}\n"

    lines = [with_stock(slot, "" if slot % 2 else "8") for slot in range(10)]
    feed.write_text(HEADER.strip() + ",on_demand_gpus\n" + "".join(lines), encoding="utf-8")
    live = Feed(f"feed:{feed}")
    append(
        feed, with_stock(10, "3") + with_stock(10.3, "2") + with_stock(12, "") + with_stock(12, "1", "new")
    )
    found = [live.quote("here", slot).on_demand_gpus for slot in (8, 9, 10, 11, 12, 13)]
    assert found == [8, UNLIMITED_GPUS, 2, 2, UNLIMITED_GPUS, UNLIMITED_GPUS]
    assert live.quote("new", 0).on_demand_gpus == 1
    assert live.pool("here").quote(10).on_demand_gpus == 2
    append(feed, with_stock(14, "-1"))
    assert live.quote("here", 14).on_demand_gpus == UNLIMITED_GPUS
    assert f"{feed}:16: on_demand_gpus must be a whole number >= 0, got '-1'" in live.trouble


def test_the_past_of_every_pool_moves(feed: Path) -> None:
    append(feed, "".join(row(slot, 5, pool="there") for slot in range(10)))
    live = Feed(f"feed:{feed}")
    assert offered(live, 9, "there") == [5, 5]
    append(feed, row(10, 1) + row(10, 2, pool="there") + row(11, 3, pool="there"))
    assert offered(live, 11, "there") == [5, 5, 2, 3]
    assert offered(live, 11) == [4, 4, 1, 1]


def test_a_pool_that_comes_into_being_is_seen(feed: Path) -> None:
    live = Feed(f"feed:{feed}")
    live.at("here", 9)
    append(feed, row(10, 1) + row(11, 1) + row(11, 7, pool="new"))
    assert live.at("here", 10)[1].quote.spot_gpus == 0
    assert live.at("here", 11)[1][:2] == ("new", Quote(2.0, 8.0, 7))


def test_rows_that_come_early_are_not_shown_before_their_time(feed: Path) -> None:
    live = Feed(f"feed:{feed}")
    append(feed, row(10, 1) + row(11, 77))
    assert offered(live, 10) == [4, 4, 1]
    assert find_numbers(live.at("here", 10), (77,)) == []
    assert offered(live, 11) == [4, 4, 1, 77]


def test_slots_without_rows_are_as_the_last_and_two_rows_share_a_slot(feed: Path) -> None:
    live = Feed(f"feed:{feed}")
    append(feed, row(12, 1))
    assert offered(live, 12) == [4, 4, 4, 4, 1]
    key = live.at("here", 12).past(0).key
    append(feed, row(12.3, 3, 4.0))
    assert live.quote("here", 12) == Quote(3.0, 8.0, 1)
    assert live.at("here", 12).past(0).key != key
    assert live.pool("here").quote(12) == Quote(3.0, 8.0, 1)


KEPT = "its last good rows are used"


def test_row_7_a_bad_row_is_passed_over_and_told_until_good_ones_come(feed: Path) -> None:
    live = Feed(f"feed:{feed}")
    assert live.trouble == ""
    append(feed, row(10, 3) + "nonsense\n" + row(11, 2))
    assert offered(live, 11) == [4, 4, 3, 2], "the rows after it count"
    told = f"{feed}:13: a row must have 5 cells like the header, got 1; the row is skipped, {KEPT}"
    assert live.trouble == told
    assert offered(live, 11) == [4, 4, 3, 2]
    assert live.trouble == told, "as long as nothing new has come"
    append(feed, row(12, 1))
    assert offered(live, 12) == [4, 4, 3, 2, 1]
    assert live.trouble == ""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (row(8, 3), "rows must come in order of time"),
        (row(11, 3), "rows must come in order of time"),
        (row(12, -1), "spot_gpus must be a whole number >= 0"),
        (row(12, 1, float("nan")), "must be a finite number"),
        (row(12, 1).replace("2026", "9996"), "a row must be at most 100000 slots ahead"),
        (row(12, 1).replace("2026", "year"), "must be a time such as"),
        ("\udcff" + row(12, 1), "must be UTF-8 text, got byte 0xff"),
        ("\0" + row(12, 1), "must be text, got a zero byte"),
        ('"' + row(12, 1), "must be well-formed CSV"),
        (row(12, 1)[:-1] + row(12, 1), "a row must have 5 cells like the header, got 9"),
        ("x" * 200_000 + "\n", "a row must have at most 4096 bytes, got more"),
    ],
    ids=["past", "again", "negative", "nan", "far", "time", "utf8", "null", "quote", "glued", "long"],
)
def test_row_7_no_row_ends_a_feed(feed: Path, line: str, words: str) -> None:
    live = Feed(f"feed:{feed}")
    append(feed, row(10, 3) + row(11, 2))
    assert offered(live, 11) == [4, 4, 3, 2]
    with feed.open("ab") as file:
        file.write(line.encode("utf-8", "surrogateescape"))
    while not live.trouble:
        assert offered(live, 11) == [4, 4, 3, 2]
    assert live.trouble.startswith(f"{feed}:14:")
    assert words in live.trouble
    assert live.trouble.endswith(KEPT)
    append(feed, row(12, 1))
    seen = [offered(live, 12) for _ in range(9)][-1]  # a long line is read in pieces
    assert seen == [4, 4, 3, 2, 1]


def _unreadable(feed: Path) -> None:
    feed.unlink()
    feed.mkdir()


TROUBLES: dict[str, tuple[Callable[[Path], object], str]] = {
    "gone": (lambda feed: feed.unlink(), "a feed must stay readable, got: No such file"),
    "a folder": (_unreadable, "a feed must stay readable, got: it is not a file any more"),
    "a pipe": (lambda feed: (feed.unlink(), os.mkfifo(feed)), "got: it is not a file any more"),  # type: ignore[func-returns-value]
    "empty": (lambda feed: feed.write_text(""), "a feed must keep its header"),
    "something else": (lambda feed: feed.write_text("<html>502</html>\n" * 99), "must keep its header"),
    "half a header": (lambda feed: feed.write_text(HEADER[:40]), "must keep its header"),
}


@pytest.mark.parametrize("kind", TROUBLES)
def test_row_7_a_file_that_went_away_or_bad_is_waited_for(feed: Path, kind: str) -> None:
    live, text = Feed(f"feed:{feed}"), feed.read_text(encoding="utf-8")
    spoil, words = TROUBLES[kind]
    spoil(feed)
    for _ in range(3):
        assert offered(live, 10) == [4, 4, 4]
        assert words in live.trouble
        assert live.trouble.startswith(f"{feed}:")
        assert live.trouble.endswith(KEPT)
    feed.rmdir() if feed.is_dir() else feed.unlink(missing_ok=True)
    feed.write_text(text + row(10, 1), encoding="utf-8")
    assert [offered(live, 10) for _ in range(3)][-1] == [4, 4, 1]
    assert live.trouble == ""


def test_row_7_a_feed_that_is_read_as_a_whole_keeps_its_rows_too(
    feed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, text = Feed(f"feed:{feed}", gaps="empty"), feed.read_text(encoding="utf-8")
    append(feed, row(10, 3) + "nonsense\n")
    for _ in range(2):
        assert offered(live, 10) == [4, 4, 4]
        assert live.trouble == f"{feed}:13: a row must have 5 cells like the header, got 1; {KEPT}"
    feed.write_text(text + row(10, 3), encoding="utf-8")
    assert offered(live, 10) == [4, 4, 3]
    assert live.trouble == ""
    monkeypatch.setattr("slacktide.market.live.feed.MOST_WHOLE_BYTES", 100)
    append(feed, row(11, 2))
    assert offered(live, 11) == [4, 4, 3, 3]
    assert "a feed that is read as a whole must have at most" in live.trouble


def test_row_7_a_rewritten_file_replaces_what_has_not_begun_and_nothing_else(feed: Path) -> None:
    live = Feed(f"feed:{feed}")
    live.at("here", 10)
    append(feed, row(11, 3) + row(12, 3) + row(90_000, 77))
    assert offered(live, 11) == [4, 4, 4, 3]
    append(feed, row(13, 2))
    assert offered(live, 11) == [4, 4, 4, 3]
    assert "rows must come in order" in live.trouble, "after a row of another century nothing is in order"
    rows = [row(slot, 1) for slot in range(12)] + [row(12, 5), "nonsense\n", row(13, 6)]
    feed.write_text(HEADER + "".join(rows), encoding="utf-8")
    seen = [offered(live, 13) for _ in range(3)][-1]
    assert seen == [4, 4, 4, 3, 5, 6], "the past stays, the rest is as it is written now"
    assert f"{feed}:15: a row must have 5 cells" in live.trouble


def test_row_7_what_comes_all_at_once_is_read_in_pieces(feed: Path) -> None:
    live = Feed(f"feed:{feed}")
    live.at("here", 9)
    append(feed, "".join(row(slot, slot) for slot in range(10, 10_000)))
    looks = 0
    while live.quote("here", 9_999).spot_gpus != 9_999:
        looks += 1
        assert looks < 100
    assert looks >= 5
    assert live.trouble == ""
    assert [live.quote("here", slot).spot_gpus for slot in (10, 5_000)] == [10, 5_000]


def test_row_7_the_rows_of_bad_feeds_are_bounded(feed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slacktide.market.live.feed.MOST_POOLS", 3)
    live = Feed(f"feed:{feed}")
    append(feed, "".join(row(10, 1, pool=f"pool-{number}") for number in range(50)))
    assert len(live.at("here", 10)) == 3
    assert "a feed must have at most 3 pools" in live.trouble


def test_a_file_that_shrank_or_was_replaced_loses_nothing(feed: Path) -> None:
    live = Feed(f"feed:{feed}")
    append(feed, row(10, 3))
    assert offered(live, 10) == [4, 4, 3]
    feed.write_text(HEADER + row(0, 1) + row(1, 1), encoding="utf-8")
    assert offered(live, 11) == [4, 4, 3, 3]
    other = feed.with_suffix(".new")
    other.write_text(HEADER + "".join(row(slot, 2) for slot in range(9, 13)), encoding="utf-8")
    other.replace(feed)
    assert offered(live, 12) == [4, 4, 3, 2, 2]
    append(feed, row(13, 6))
    assert offered(live, 13) == [4, 4, 3, 2, 2, 6]


@pytest.mark.parametrize("options", [{"gaps": "empty"}, {"slot_hours": 0.25}, {"slot_hours": 1.0}])
def test_what_needs_the_whole_file_reads_it_again(feed: Path, options: dict[str, Any]) -> None:
    live = Feed(f"feed:{feed}", **options)
    append(feed, row(12, 1) + row(13, 2))
    told = open_feed(f"feed:{feed}", **options).pools[0]
    assert live.at("here", len(told) - 1).past(0).spot_gpus.tolist() == told.spot_gpus.tolist()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_rows_count_in_their_slots_however_the_file_is_written(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "grown.csv"
    jitter = data.draw(st.lists(st.floats(-0.2, 0.2), min_size=12, max_size=12))
    gone = data.draw(st.sets(st.integers(3, 11), max_size=3))
    lines = [
        row(slot + jitter[slot] * (slot > 2), slot + number, slot / 7, pool)
        for slot in range(12)
        if slot not in gone
        for number, pool in enumerate(("here", "there"))
    ]
    text = (HEADER + "".join(lines)).encode()
    first = len(HEADER + "".join(lines[:6]))
    cuts = sorted([first, len(text), *data.draw(st.lists(st.integers(first, len(text)), max_size=9))])
    path.write_bytes(text[:first])
    live = Feed(f"feed:{path}")
    for start, end in pairwise(cuts):
        append(path, text[start:end].decode())
        live.at("here", data.draw(st.integers(0, 11)))
    moment = live.at("here", 30)
    came = [slot for slot in range(12) if slot not in gone]
    for number in range(2):
        past = moment.past(number)
        assert past.came == came[-1] + 1
        for slot, quote in enumerate(past):
            last = max(one for one in came if one <= slot)
            assert quote == Quote(last / 7, 8.0, last + number)


def test_a_feed_must_name_its_file() -> None:
    with pytest.raises(InputError, match="must name its file"):
        feed_path("feed:")


def test_the_engine_follows_a_feed_as_it_grows(feed: Path, tmp_path: Path) -> None:
    store = MemoryStore()
    engine = Engine(store, Replay())
    path = tmp_path / "job.yaml"
    path.write_text(JOB, encoding="utf-8")
    wanted = Submission.read(str(path), market=MarketSpec(source=f"feed:{feed}"))
    engine.submit(journal_entry(wanted, wanted.file, job="fed", at_hours=0.0, now=BEGIN))
    record = engine.state.jobs["fed"]
    offered = [4, 0, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4]
    for slot, gpus in enumerate(offered):
        if slot > 0:
            append(feed, row(9 + slot, gpus))
        engine.step(slot * 0.5)
        if record.holding.order is not None:
            assert record.holding.begun is not None
            assert record.holding.begun.quote.spot_gpus == gpus
            assert record.holding.order.spot_gpus <= gpus
    assert record.status == "succeeded"
    assert record.holding.preemptions == 1
    assert audit(record, engine.context.job_context(record), store.read()).clean


def test_row_7_the_engine_goes_on_when_its_feed_misbehaves(feed: Path, tmp_path: Path) -> None:
    engine = Engine(MemoryStore(), Replay())
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("8 gpu-hours", "20 gpu-hours"), encoding="utf-8")
    wanted = Submission.read(str(path), market=MarketSpec(source=f"feed:{feed}"))
    submitted = journal_entry(wanted, wanted.file, job="fed", at_hours=0.0, now=BEGIN)
    engine.submit(submitted)
    record, text = engine.state.jobs["fed"], feed.read_text(encoding="utf-8")
    harm: list[Callable[[], object]] = [
        lambda: None,
        lambda: append(feed, "nonsense\n"),
        lambda: append(feed, row(3, 1)),
        lambda: feed.write_text("", encoding="utf-8"),
        feed.unlink,
        lambda: feed.write_text(text + "".join(row(slot, 1) for slot in range(10, 40)), encoding="utf-8"),
    ]
    for slot, do in enumerate(harm):
        do()
        engine.step(slot * 0.5)
        context = engine.context.job_context(record)
        assert context.feed is not None
        assert bool(context.feed.trouble) == (0 < slot < 5)
        assert troubles() == ({submitted.market: context.feed.trouble} if context.feed.trouble else {})
        if slot < 5:
            assert record.holding.begun is not None
            assert record.holding.begun.quote.spot_gpus == 4
    engine.step(3.0)
    assert record.holding.begun is not None
    assert record.holding.begun.quote.spot_gpus == 1
