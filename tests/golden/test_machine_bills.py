"""What commands print about rented machines: their bill, what jobs used, and their provider's account."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from slacktide.cli import run
from slacktide.core.quotes import Quote
from slacktide.core.types import JobState
from slacktide.engine.job.journal_market import make_journal
from slacktide.journal.events import ClockSet, Event, Lived
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.state.tickets import Fact, MachineKind, Tickets
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.physics.ledger import Priced, Stretch
from slacktide.physics.tariff import Charge
from slacktide.providers.base import Renter, Rules
from slacktide.providers.reconciler import Reconciler
from slacktide.testing import fake_provider as fake
from slacktide.testing.fake_provider import EPOCH, Cloud, Fake, Faults

FOLDER = Path(__file__).parent / "text"
PAGE = Path(__file__).parents[2] / "docs/reference/json.md"
SEED, MINUTE = 20251, 1.0 / 60.0
SPOT, ON_DEMAND = MachineKind("spot", "zone/big", 8), MachineKind("on-demand", "zone/big", 8)
PRICES = {SPOT[:2]: 12.0, ON_DEMAND[:2]: 32.77}
FILE = f"""\
provider: {{fake: {{seed: {SEED}}}}}
pools: {{zone/big: {{gpus: 8, usd_per_hour: {{spot: 12.0, on-demand: 32.77}}}}}}
"""
FAULTS = Faults(lost_share=0.3,
    late_hours=4 * MINUTE, full_share=0.3, full_hours=5 * MINUTE, dud_share=0.05,
                interruptions_per_hour=0.8)  # fmt: skip


class Time:
    """Hours that the test counts: those of the cloud, the journal and the wall."""

    hours = 0.0

    def utc(self) -> datetime:
        return EPOCH + timedelta(hours=self.hours)


class Book:
    """A diary on a journal."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store

    def note(self, *facts: Fact) -> None:
        self.store.append(facts)

    def tickets(self) -> Tickets:
        return read_state(self.store).tickets


def held(begin: float, end: float, spot: int, on_demand: int) -> Event:
    quote = Quote(1.5, 4.1, 64)
    stretch = Stretch(
        payer="job", use="work", slot=0, from_hours=begin, to_hours=end, held_hours=end - begin,
        pool="zone/big", spot_gpus=spot, on_demand_gpus=on_demand, quote=quote,
    )  # fmt: skip
    more_usd = (end - begin) * quote.on_demand_usd_per_gpu_hour * on_demand
    charge = Charge((end - begin) * quote.spot_usd_per_gpu_hour * spot + more_usd, more_usd)
    return Lived(job="job", at_hours=end, priced=Priced(stretch, charge), state=JobState())


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A journal of two stormy hours, with a machine that its provider has and the journal does not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path / "home"))
    (tmp_path / "machines.yaml").write_text(FILE)
    time, path = Time(), tmp_path / "journal.db"
    cloud = fake.SHARED[SEED] = Cloud(lambda: time.hours, seed=SEED, faults=FAULTS, boot_hours=2 * MINUTE)
    with SqliteStore(path, clock=time.utc) as store:
        make_journal(store)
        store.append([ClockSet(at_hours=0.0, epoch_utc=EPOCH.isoformat(), speed=1.0)])
        provider = Fake(Renter(owner=read_state(store).id), cloud=cloud)
        keeper = Reconciler(provider, Book(store), Rules(usd_per_hour=PRICES), token="t")
        for minute in range(130):
            time.hours = minute * MINUTE
            want = {SPOT: 2, ON_DEMAND: 1} if minute < 110 else {}
            keeper.step(want, time.hours)
            if 10 <= minute < 110:
                store.append([held(time.hours, time.hours + MINUTE, 8, 4)])
        cloud.faults = Faults()
        provider.rent("9-stray", SPOT)
        time.hours += 0.1
        provider.end([one.id for one in cloud.living])
    yield path
    del fake.SHARED[SEED]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(list(words)) == 0
    return capsys.readouterr().out


def test_bills_of_machines(
    journal: Path, capsys: pytest.CaptureFixture[str], golden: Callable[[Path, str], None]
) -> None:
    told = printed(capsys, "cost", "--journal", str(journal))
    golden(FOLDER / "machines-cost.txt", told)
    golden(FOLDER / "machines-bill.txt", printed(capsys, "machines", "--bill", "--journal", str(journal)))


def test_the_sums_are_those_of_the_lines_and_every_key_is_documented(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    cost = json.loads(printed(capsys, "cost", "--journal", str(journal), "-o", "json"))["machines"]
    for parts in ("machines", "pools"):
        usd = sum(one["cost_usd"] for one in cost[parts])
        assert cost["total"]["cost_usd"] == pytest.approx(usd, abs=1e-9)
    assert cost["total"]["used_gpu_hours"] == pytest.approx(100 / 60 * 12)
    assert (cost["open"], len(cost["times"])) == (0, 1)
    part = page.split("## slacktide cost")[1].split("\n## ")[0]
    for key in {*cost, *cost["total"], *cost["pools"][0], *cost["times"][0], *cost["machines"][0], "count"}:
        assert f"`{key}`" in part, key
    bill = json.loads(printed(capsys, "machines", "--bill", "--journal", str(journal), "-o", "json"))
    assert bill["our_usd"] == pytest.approx(
        sum(one["our_usd"] for one in bill["machines"] if one["their_hours"] is not None)
    )
    assert 0 < bill["unknown"] == sum(one["their_hours"] is None for one in bill["machines"])
    assert [one["ticket"] for one in bill["machines"] if not one["in_journal"]] == ["9-stray"]
    part = page.split("## slacktide machines")[1].split("\n## ")[0]
    for key in {*bill, *bill["machines"][0]}:
        assert f"`{key}`" in part, key
