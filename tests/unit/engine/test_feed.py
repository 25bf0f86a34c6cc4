"""A market that is still being written: rows count when they come, the past stays as it was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slacktide.backend.replay import Replay
from slacktide.engine.bill import audit
from slacktide.engine.engine import Engine
from slacktide.engine.feed import Feed, feed_path
from slacktide.errors import InputError
from slacktide.store.memory import MemoryStore
from slacktide.submitting import submission

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


def row(slot: int, gpus: int, usd: float = 2.0) -> str:
    time = (BEGIN + timedelta(hours=0.5 * slot)).isoformat().replace("+00:00", "Z")
    return f"{time},here,{gpus},{usd},8.0\n"


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    path = tmp_path / "prices.csv"
    path.write_text(HEADER + "".join(row(slot, 4) for slot in range(10)), encoding="utf-8")
    return path


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def test_a_row_that_has_not_come_is_like_the_last(feed: Path) -> None:
    live = Feed(f"feed:{feed}", "here")
    assert live.pool(12).quote(12).spot_gpus == 4
    append(feed, row(10, 3) + row(11, 2) + row(12, 1))
    assert [live.pool(slot).quote(slot).spot_gpus for slot in (10, 11, 12, 13)] == [3, 2, 1, 1]


def test_a_feed_must_name_its_file() -> None:
    with pytest.raises(InputError, match="must name its file"):
        feed_path("feed:")


def test_the_engine_follows_a_feed_as_it_grows(feed: Path, tmp_path: Path) -> None:
    store = MemoryStore()
    engine = Engine(store, Replay())
    given = {"market": f"feed:{feed}"}
    path = str(tmp_path / "job.yaml")
    engine.submit(submission(JOB, path, given, job_id="fed", at_hours=0.0, now=BEGIN))
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
