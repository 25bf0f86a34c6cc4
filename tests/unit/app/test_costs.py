"""The bill of a whole journal: every payer is on it, and the audit sees what no job's own audit can."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from slacktide.app.jobs.submission import Submission
from slacktide.app.journal.costs import site_cost
from slacktide.cli import run
from slacktide.core.quotes import Quote
from slacktide.journal.events import ClockSet, Decided, Event, Held, Kept, Lived
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.base import MemoryStore
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.physics.ledger import Priced, Stretch
from slacktide.physics.tariff import Charge
from slacktide.results.bill import SiteBill

from .parts_of_admission import Desk, write_job


@pytest.fixture
def two(tmp_path: Path) -> MemoryStore:
    """A journal in which two jobs ran to their end, side by side."""
    store, path = MemoryStore(), write_job(tmp_path)
    desk = Desk(store, tmp_path)
    for _ in range(2):
        desk.intake.take(Submission.read(path))
    tick = 0
    while desk.engine.state.active:
        desk.engine.step(0.25 * tick)
        tick += 1
    return store


def cost_of(store: MemoryStore) -> SiteBill:
    return site_cost(read_state(store), store.read(), in_charge=True).bill


def changed(store: MemoryStore, change: Callable[[Event], Event]) -> MemoryStore:
    other = MemoryStore()
    other.append([change(record.event) for record in store.read()])
    return other


def test_every_job_is_on_the_bill_and_the_sum_is_theirs(two: MemoryStore) -> None:
    found, records = cost_of(two), read_state(two).jobs
    assert [one.payer for one in found.payers] == ["job", "job-2"]
    assert [one.bill for one in found.payers] == [record.money.bill for record in records.values()]
    assert found.total.cost_usd == pytest.approx(sum(one.bill.cost_usd for one in found.payers))
    assert found.audit.clean
    assert found.audit.cost_usd == pytest.approx(found.total.cost_usd)


SITE = Priced(
    Stretch(
        payer="", use="idle", slot=3, from_hours=0.0, to_hours=0.5, held_hours=0.5, pool="h100-1",
        spot_gpus=0, on_demand_gpus=2, quote=Quote(2.0, 10.0, 4),
    ),
    Charge(10.0, 10.0),
)  # fmt: skip


def test_what_no_job_pays_for_is_the_sites(two: MemoryStore) -> None:
    before = cost_of(two).total.cost_usd
    two.append([Kept(at_hours=0.5, fleet="f1", priced=SITE)])
    found = cost_of(two)
    assert (found.payers[-1].payer, found.payers[-1].bill.cost_usd) == ("", 10.0)
    assert found.payers[-1].bill.idle_gpu_hours == 1.0
    assert found.total.cost_usd == pytest.approx(before + 10.0)
    assert found.audit.clean


def test_stretches_of_two_clocks_do_not_overlap(two: MemoryStore) -> None:
    idle = Kept(at_hours=0.5, fleet="f1", priced=SITE)
    two.append([idle, ClockSet(at_hours=0.0, epoch_utc="2026-01-02T00:00:00+00:00", speed=1.0), idle])
    assert cost_of(two).audit.clean
    two.append([idle])
    assert len(cost_of(two).audit.gaps) == 1


def test_a_cent_too_much_is_found(two: MemoryStore) -> None:
    def dearer(event: Event) -> Event:
        if not isinstance(event, Lived) or event.priced.charge.usd == 0:
            return event
        charge = event.priced.charge._replace(usd=event.priced.charge.usd + 0.02)
        return dataclasses.replace(event, priced=event.priced._replace(charge=charge))

    audit = cost_of(changed(two, dearer)).audit
    assert len(audit.wrong) >= 2
    assert audit.wrong[0].startswith("event ")


def more_spot(event: Event) -> Event:
    """Let a stretch hold as much spot as is on offer, whatever others hold."""
    if not isinstance(event, Lived) or event.priced.stretch.spot_gpus == 0:
        return event
    stretch = event.priced.stretch
    stretch = stretch._replace(spot_gpus=stretch.quote.spot_gpus)
    return dataclasses.replace(event, priced=event.priced._replace(stretch=stretch))


def test_spot_that_is_sold_twice_is_found_where_it_was_seen(two: MemoryStore) -> None:
    assert cost_of(changed(two, more_spot)).audit.oversold

    for why in ("unseen", "stopping"):

        def nobodys(event: Event, why: str = why) -> Event:
            event = more_spot(event)
            return dataclasses.replace(event, why=why) if isinstance(event, Decided) else event

        assert not cost_of(changed(two, nobodys)).audit.oversold


def test_spot_of_sets_on_their_way_out_is_not_sold_twice(two: MemoryStore) -> None:
    for attempt, found in ((0, False), (1_000, True)):
        told = MemoryStore()
        for record in changed(two, more_spot).read():
            told.append([record.event])
            if isinstance(record.event, Decided):
                held = record.event.spot_gpus, record.event.on_demand_gpus
                told.append(
                    [
                        Held(
                            job=record.event.job, at_hours=record.event.at_hours, attempt=attempt,
                            spot_gpus=held[0], on_demand_gpus=held[1], pending_gpus=0,
                        )
                    ]
                )  # fmt: skip
        assert bool(cost_of(told).audit.oversold) == found


def test_the_command_prints_text_and_json_and_says_when_it_is_not_right(
    two: MemoryStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, change in (("good", lambda event: event), ("bad", more_spot)):
        with SqliteStore(tmp_path / f"{name}.db") as store:
            store.append([change(record.event) for record in two.read()])
    good, bad = (["cost", "--journal", str(tmp_path / f"{name}.db")] for name in ("good", "bad"))
    assert run(good) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split()[:2] == ["payer", "status"]
    assert "no gap, no overlap; no spot was sold twice" in out
    assert run([*bad, "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"jobs", "site", "total", "audit", "machines"}
    assert found["machines"] is None
    assert found["site"] is None
    assert found["audit"]["oversold"]
    assert run(bad) == 1
    assert "spot GPUs held in" in capsys.readouterr().out
    assert run([*good, "--plot", "x.png"]) == 2
    assert "must come with a JOB" in capsys.readouterr().err
