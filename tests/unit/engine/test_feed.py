"""A market that is still being written: rows count when they come, the past stays as it was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slacktide.app.entry import entry
from slacktide.app.market import MarketSpec
from slacktide.app.submission import Submission
from slacktide.backend.replay import Replay
from slacktide.checks.reach import find_numbers
from slacktide.engine.bill import audit
from slacktide.engine.engine import Engine
from slacktide.engine.feed import Feed, feed_path, open_feed
from slacktide.errors import BackendError, FileError, InputError
from slacktide.store.memory import MemoryStore

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
    assert live.at("here", 11)[1] == ("new", (2.0, 8.0, 7))


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
    assert live.quote("here", 12) == (3.0, 8.0, 1)
    assert live.at("here", 12).past(0).key != key
    assert live.pool("here").quote(12) == (3.0, 8.0, 1)


def test_a_bad_row_is_told_and_nothing_good_is_lost(feed: Path) -> None:
    live = Feed(f"feed:{feed}")
    append(feed, row(10, 3) + "nonsense\n" + row(11, 2))
    with pytest.raises(FileError, match=r"prices.csv:13: a row must have 5 cells"):
        live.at("here", 11)
    assert offered(live, 11) == [4, 4, 3, 3]
    text = feed.read_text(encoding="utf-8")
    feed.write_text(text.replace("nonsense\n", ""), encoding="utf-8")
    assert offered(live, 11) == [4, 4, 3, 2]


def test_rows_must_go_forward(feed: Path) -> None:
    live = Feed(f"feed:{feed}")
    append(feed, row(8, 3))
    with pytest.raises(FileError, match=r"prices.csv:12: pool 'here': rows must come in order of time"):
        live.at("here", 11)


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


def test_a_file_that_vanished_is_waited_for(feed: Path) -> None:
    live = Feed(f"feed:{feed}")
    text = feed.read_text(encoding="utf-8")
    feed.unlink()
    with pytest.raises(BackendError, match="must stay readable"):
        live.at("here", 10)
    feed.write_text(text + row(10, 1), encoding="utf-8")
    assert offered(live, 10) == [4, 4, 1]


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
            assert quote == (last / 7, 8.0, last + number)


def test_a_feed_must_name_its_file() -> None:
    with pytest.raises(InputError, match="must name its file"):
        feed_path("feed:")


def test_the_engine_follows_a_feed_as_it_grows(feed: Path, tmp_path: Path) -> None:
    store = MemoryStore()
    engine = Engine(store, Replay())
    path = tmp_path / "job.yaml"
    path.write_text(JOB, encoding="utf-8")
    wanted = Submission.read(str(path), market=MarketSpec(source=f"feed:{feed}"))
    engine.submit(entry(wanted, wanted.file, job="fed", at_hours=0.0, now=BEGIN))
    track = engine.world.jobs["fed"]
    offered = [4, 0, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4]
    for slot, gpus in enumerate(offered):
        if slot > 0:
            append(feed, row(9 + slot, gpus))
        engine.step(slot * 0.5)
        if track.order is not None:
            assert track.begun is not None
            assert track.begun.quote.spot_gpus == gpus
            assert track.order.spot_gpus <= gpus
    assert track.status == "succeeded"
    assert track.preemptions == 1
    assert audit(track, engine.lane(track), store.read()).clean
