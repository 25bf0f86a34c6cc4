"""What a journal saw of spot is counted from its tickets, and stands in place of what was assumed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slacktide.app.jobs.submission import Submission, journal_entry
from slacktide.app.markets.market import MarketSpec, with_age, with_spot_seen
from slacktide.backends.replay import Replay
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.engine.engine import Engine
from slacktide.engine.job.availability import spot_seen
from slacktide.journal.events import Capacity, Cause, Event, FeedTroubled, Joined, Record, Rented, Returned
from slacktide.journal.store.base import MemoryStore
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.market.availability import PoolRecord, SeenSpot, learned
from slacktide.market.formats.market_bytes import TableNotes, write_notes
from slacktide.market.live.feed import STALE_SLOTS, Feed
from slacktide.market.source import open_market

BEGIN = datetime(2026, 11, 1, 12, tzinfo=UTC)
POOL = "us-east-1a/p5.48xlarge"


def rented(ticket: str, capacity: Capacity = "spot", pool: str = POOL) -> Rented:
    return Rented(at_hours=0.0, ticket=ticket, capacity=capacity, pool=pool, gpus=8, usd_per_hour=24.0)


def joined(ticket: str) -> Joined:
    return Joined(at_hours=0.0, ticket=ticket, machine=ticket, address="", boot_hours=0.1)


def returned(ticket: str, cause: Cause) -> Returned:
    return Returned(at_hours=0.0, ticket=ticket, cause=cause)


STORY: list[tuple[float, Event]] = [
    (0.0, rented("1")),
    (0.1, joined("1")),
    (1.0, rented("2")),
    (1.0, returned("2", "no-capacity")),
    (2.0, rented("3", "on-demand")),
    (2.0, returned("3", "no-capacity")),
    (3.0, returned("1", "interrupted")),
    (4.0, rented("4")),
    (4.2, joined("4")),
    (5.0, returned("4", "not-wanted")),
    (6.0, rented("5")),
    (6.0, returned("5", "refused")),
]


def records(story: list[tuple[float, Event]]) -> list[Record]:
    return [Record(seq, BEGIN + timedelta(hours=at), event) for seq, (at, event) in enumerate(story, start=1)]


def table(folder: Path, slots: int = 20, *pools: str) -> Path:
    path = folder / "prices.csv"
    rows = "".join(
        f"{BEGIN + timedelta(hours=0.5 * slot):%Y-%m-%dT%H:%M:%SZ},{pool},3.0,12.0\n"
        for slot in range(slots)
        for pool in pools or (POOL,)
    )
    path.write_text(
        "time_utc,pool,spot_usd_per_gpu_hour,on_demand_usd_per_gpu_hour\n" + rows, encoding="utf-8"
    )
    return path


def test_tries_refusals_and_losses_are_folded_from_tickets() -> None:
    found = spot_seen(records(STORY))
    assert list(found) == [POOL]
    one = found[POOL]
    assert (one.tries, one.refused, one.taken_back) == (4, 1, 1)
    hours = [(seen.at_utc - BEGIN).total_seconds() / 3600 for seen in one.seen]
    assert hours == pytest.approx([0.1, 1.0, 3.0, 4.2])
    assert [seen[1:] for seen in one.seen] == [(8, UNLIMITED_GPUS), (8, 15), (0, 0), (8, UNLIMITED_GPUS)]
    assert one.sentence("P").endswith("4 spot machines requested, 1 refused, 1 taken back.")


def test_what_was_seen_lasts_an_hour_or_until_the_next_try(tmp_path: Path) -> None:
    market = learned(open_market(str(table(tmp_path))), spot_seen(records(STORY)))
    gpus = market[POOL].spot_gpus.tolist()
    assert gpus[:10] == [16, 16, 15, 15, 16, 16, 0, 0, 16, 16]
    assert gpus[10:] == [16] * 10
    assert any("1 refused, 1 taken back" in sentence for sentence in market.assumptions)
    assert any("assumed to hold for 1 h" in sentence for sentence in market.assumptions)


def test_more_than_assumed_is_believed_when_it_was_held(tmp_path: Path) -> None:
    story: list[tuple[float, Event]] = [
        event for ticket in "123" for event in ((1.0, rented(ticket)), (1.0, joined(ticket)))
    ]
    market = learned(open_market(str(table(tmp_path))), spot_seen(records(story)))
    assert market[POOL].spot_gpus.tolist()[:6] == [16, 16, 24, 24, 16, 16]


def test_what_is_counted_is_left_as_it_is(tmp_path: Path) -> None:
    path = table(tmp_path)
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text(
        "\n".join(f"{line},{'spot_gpus' if not at else 5}" for at, line in enumerate(lines)) + "\n"
    )
    market = open_market(str(path))
    assert market.uncounted == ()
    assert learned(market, spot_seen(records(STORY))) is market


def test_the_only_pool_may_have_another_name_than_the_only_machine(tmp_path: Path) -> None:
    story: list[tuple[float, Event]] = [(1.0, rented("1", pool="lab")), (1.0, returned("1", "no-capacity"))]
    seen = spot_seen(records(story))
    one = learned(open_market(str(table(tmp_path))), seen)
    assert 7 in one[POOL].spot_gpus.tolist()
    several = open_market(str(table(tmp_path, 20, "a", "b")))
    assert learned(several, seen) is several


def test_sightings_outside_of_the_table_do_no_harm(tmp_path: Path) -> None:
    market = open_market(str(table(tmp_path)))
    for hours in (-5.0, -0.5, 9.9, 50.0):
        seen = SeenSpot(BEGIN + timedelta(hours=hours), 0, 3)
        gpus = learned(market, {POOL: PoolRecord(seen=(seen,))})[POOL].spot_gpus.tolist()
        assert len(gpus) == 20
        assert set(gpus) <= {3, 16}


def test_a_journal_is_read_where_there_is_one(tmp_path: Path) -> None:
    market, journal = open_market(str(table(tmp_path))), tmp_path / "journal.db"
    assert with_spot_seen(market, None) is market
    assert with_spot_seen(market, journal) is market
    with SqliteStore(journal) as store:
        store.append(event for _, event in STORY)
    assert any("requested" in sentence for sentence in with_spot_seen(market, journal).assumptions)
    journal.write_bytes(b"no journal")
    assert with_spot_seen(market, journal) is market


def test_old_prices_are_said_first_with_the_reason(tmp_path: Path) -> None:
    path = table(tmp_path)
    market = open_market(str(path))
    end = BEGIN + timedelta(hours=10)
    assert with_age(market, str(path), end + timedelta(hours=2)) is market
    write_notes(path, TableNotes(slot_hours=0.5, trouble="AWS must answer, got silence"))
    said = with_age(market, str(path), end + timedelta(hours=3, minutes=2)).assumptions[0]
    assert said.startswith("WARNING: prices are 3h old: ")
    assert said.endswith("ends at 2026-11-01 22:00 UTC (AWS must answer, got silence).")
    assert "prices are 3d old" in with_age(market, str(path), end + timedelta(hours=73)).assumptions[0]


def test_a_live_feed_without_counts_or_rows_says_so_once(tmp_path: Path) -> None:
    path = table(tmp_path)
    write_notes(path, TableNotes(slot_hours=0.5, spot_gpus=6))
    feed = Feed(f"feed:{path}")
    with path.open("a", encoding="utf-8") as file:
        file.write(f"2026-11-01T22:00:00Z,{POOL},4.0,12.0\n")
    quote = feed.quote(POOL, 20)
    assert (quote.spot_gpus, quote.spot_usd_per_gpu_hour, feed.trouble) == (6, 4.0, "")
    feed.quote(POOL, 19 + STALE_SLOTS)
    assert feed.trouble == ""
    write_notes(path, TableNotes(slot_hours=0.5, spot_gpus=6, trouble="AWS must answer, got silence"))
    feed.quote(POOL, 20 + STALE_SLOTS)
    said = feed.trouble
    assert "got none after 2026-11-01 22:00 UTC (AWS must answer, got silence)" in said
    feed.quote(POOL, 40)
    assert feed.trouble == said, "one event tells it"
    with path.open("a", encoding="utf-8") as file:
        file.write(f"2026-11-02T08:00:00Z,{POOL},5.0,12.0\n")
    assert feed.quote(POOL, 40).spot_usd_per_gpu_hour == 5.0
    assert feed.trouble == ""


def test_rows_to_come_and_the_past_have_what_was_seen(tmp_path: Path) -> None:
    path = table(tmp_path)
    feed = Feed(f"feed:{path}")
    assert feed.is_uncounted
    feed.learn(spot_seen(records(STORY)))
    assert feed.at(POOL, 19).past(0).spot_gpus.tolist()[:8] == [16, 16, 15, 15, 16, 16, 0, 0]
    late: list[tuple[float, Event]] = [*STORY, (9.9, rented("6")), (9.9, returned("6", "no-capacity"))]
    feed.learn(spot_seen(records(late)))
    with path.open("a", encoding="utf-8") as file:
        for slot in range(20, 24):
            time = BEGIN + timedelta(hours=0.5 * slot)
            file.write(f"{time:%Y-%m-%dT%H:%M:%SZ},{POOL},3.0,12.0\n")
    assert feed.at(POOL, 23).past(0).spot_gpus.tolist()[19:] == [16, 7, 7, 16, 16]
    assert feed.market[POOL].spot_gpus.tolist() == [16] * 20, "the market as it was opened stays the same"


JOB = """\
name: tried
run: "true"
resources: {accelerators: "H100:1..16"}
work: 60 gpu-hours
deadline: 12h
policy: maximal-spot
"""


def test_the_engine_decides_by_what_tries_showed_and_tells_when_prices_stop(tmp_path: Path) -> None:
    now = BEGIN + timedelta(hours=9.6)
    store = MemoryStore(clock=lambda: now)
    store.append([rented("1"), returned("1", "no-capacity")])
    feed, file = table(tmp_path), tmp_path / "job.yaml"
    file.write_text(JOB, encoding="utf-8")
    wanted = Submission.read(str(file), market=MarketSpec(source=f"feed:{feed}"))
    engine = Engine(store, Replay())
    engine.submit(journal_entry(wanted, wanted.file, job="tried", at_hours=0.0, now=now))
    job_record = engine.state.jobs["tried"]
    engine.step(0.0)
    assert job_record.holding.begun is not None
    assert job_record.holding.order is not None
    assert (job_record.holding.begun.quote.spot_gpus, job_record.holding.order.spot_gpus) == (7, 7)
    store.append([rented("2"), joined("2")])
    with feed.open("a", encoding="utf-8") as lines:
        lines.write(f"2026-11-01T22:00:00Z,{POOL},3.0,12.0\n")
    engine.step(0.5)
    assert job_record.holding.begun.quote.spot_gpus == 16
    for slot in range(2, 2 + STALE_SLOTS):
        engine.step(0.5 * slot)
    told = [record.event.why for record in store.read() if isinstance(record.event, FeedTroubled)]
    assert len(told) == 1
    assert "prices must keep coming, got none after 2026-11-01 22:00 UTC" in told[0]
    engine.step(0.5 * (2 + STALE_SLOTS))
    assert len([record for record in store.read() if isinstance(record.event, FeedTroubled)]) == 1
    assert engine.state.feed_trouble == told[0]
