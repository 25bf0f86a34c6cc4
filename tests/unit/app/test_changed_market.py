"""A market file that is edited after the start: bills and audits stay, and no job goes on in silence."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from slacktide.app.jobs.submission import Submission
from slacktide.app.markets.market import MarketSpec
from slacktide.backends.replay import Replay
from slacktide.cli import run
from slacktide.core.errors import InputError
from slacktide.engine.engine import Engine
from slacktide.engine.job.journal_market import _recorded
from slacktide.journal.events import SiteOpened
from slacktide.journal.store.base import Store
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.market.base import digest
from slacktide.market.formats.table import write_table
from slacktide.market.live import feed
from slacktide.market.source import open_market

from .parts_of_admission import MARKET, Desk, write_job


@pytest.fixture(autouse=True)
def no_clairvoyant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what compiles for a while and has no part in this."""
    monkeypatch.setattr("slacktide.engine.bills.bill.clairvoyant", lambda job, pool, start: None)


@pytest.fixture
def market(tmp_path: Path) -> Path:
    """A recorded market that can be edited."""
    path = tmp_path / "market.csv"
    write_table(open_market(MARKET), path)
    return path


def in_another_process() -> None:
    """Forget the markets that this process has open."""
    _recorded.cache_clear()
    feed._shared.clear()


def edited(path: Path) -> None:
    """Make everything ten times as expensive."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.split(",") for line in lines[1:]]
    costly = [
        ",".join([*row[:3], str(10 * float(row[3])), str(10 * float(row[4])), *row[5:]]) for row in rows
    ]
    path.write_text("\n".join([lines[0], *costly, ""]), encoding="utf-8")


def begun(store: Store, folder: Path, source: str) -> Desk:
    desk = Desk(store, folder)
    job = write_job(folder, market=source)
    desk.intake.take(Submission.read(job, market=MarketSpec(source=source)))
    return desk


def finished(desk: Desk) -> None:
    tick = 0
    while desk.engine.state.active:
        desk.engine.step(0.25 * tick)
        tick += 1


@pytest.mark.parametrize("change", [edited, Path.unlink])
def test_row_14_the_audit_is_from_the_quotes_that_were_used(
    tmp_path: Path, market: Path, change: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal.db"
    with SqliteStore(journal) as store:
        finished(begun(store, tmp_path, str(market)))
    commands = [["cost", *job, "--journal", str(journal)] for job in ((), ("job",))]
    before = []
    for command in commands:
        assert run(command) == 0
        before.append(capsys.readouterr())
        assert before[-1].err == ""
    change(market)
    in_another_process()
    for command, once in zip(commands, before, strict=True):
        assert run(command) == 0, "the bill is as right as it was"
        out, err = capsys.readouterr()
        assert str(market) in err
        assert "the audit uses the quotes in the journal" in err
        assert out.splitlines()[-1] == once.out.splitlines()[-1], "and the audit says the same"


def test_row_14_of_a_changed_market_it_is_said_what_the_comparison_is_of(
    tmp_path: Path, market: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal.db"
    with SqliteStore(journal) as store:
        finished(begun(store, tmp_path, str(market)))
    edited(market)
    in_another_process()
    assert run(["cost", "job", "--journal", str(journal)]) == 0
    err = capsys.readouterr().err
    assert err == (
        f"{market}: the market was changed since job was submitted; the audit uses the quotes in the "
        "journal, on demand alone and the clairvoyant are of the market as it is now\n"
    )


def test_row_14_no_job_goes_on_with_a_changed_market_in_silence(tmp_path: Path, market: Path) -> None:
    journal, original = tmp_path / "journal.db", market.read_bytes()
    with SqliteStore(journal) as store:
        begun(store, tmp_path, str(market)).engine.step(0.6)
    edited(market)
    in_another_process()
    with SqliteStore(journal) as store:
        engine = Engine(store, Replay())
        with pytest.raises(InputError, match="the market must stay as it was when the jobs of this journal"):
            engine.context.job_context(engine.state.jobs["job"])
    market.write_bytes(gzip.compress(original))
    market.rename(f"{market}.gz")
    market.write_bytes(original)
    in_another_process()
    with SqliteStore(journal) as store:
        engine = Engine(store, Replay())
        engine.context.job_context(engine.state.jobs["job"])


def test_a_market_that_is_put_back_is_noticed_by_the_controller_that_refused_it(
    tmp_path: Path, market: Path
) -> None:
    original = market.read_bytes()
    with SqliteStore(tmp_path / "journal.db") as store:
        begun(store, tmp_path, str(market)).engine.step(0.6)
        edited(market)
        in_another_process()
        engine = Engine(store, Replay())
        engine.recover()
        engine.step(0.7)
        assert engine.state.jobs["job"].progress.blocked
        market.write_bytes(original)
        engine.retry()
        engine.step(0.8)
        assert not engine.state.jobs["job"].progress.blocked


def test_row_14_no_second_job_is_taken_in_on_a_changed_market(tmp_path: Path, market: Path) -> None:
    with SqliteStore(tmp_path / "journal.db") as store:
        desk = begun(store, tmp_path, str(market))
        edited(market)
        in_another_process()
        with pytest.raises(InputError, match="the market must stay as it was"):
            desk.intake.take(Submission.read(write_job(tmp_path, name="two.yaml", market=str(market))))


def test_row_14_a_digest_is_of_the_numbers_not_of_the_file(tmp_path: Path, market: Path) -> None:
    one = open_market(str(market))
    for name in ("again.csv", "again.csv.gz", "again.parquet"):
        write_table(one, tmp_path / name)
        assert digest(open_market(str(tmp_path / name))) == digest(one) == digest(open_market(MARKET))
    assert len(digest(one)) == 64
    others = [MARKET.replace("seed=2", "seed=3"), MARKET.replace("days=4", "days=5"), f"{MARKET}&pools=2"]
    assert len({digest(one), *(digest(open_market(other)) for other in others)}) == 4


ROWS = [f"2026-01-0{1 + slot // 48}T{slot // 2 % 24:02}:{30 * (slot % 2):02}:00Z" for slot in range(200)]
HEADER = "time_utc,pool,spot_gpus,spot_usd_per_gpu_hour,on_demand_usd_per_gpu_hour\n"


def fed(path: Path, slots: int, usd: float = 2.0) -> None:
    rows = [f"{time},here,4,{usd},8.0\n" for time in ROWS[:slots]]
    path.write_text(HEADER + "".join(rows), encoding="utf-8")


def reopen_context(journal: Path) -> None:
    """Take up the job in another process, as far as its market is concerned."""
    in_another_process()
    with SqliteStore(journal) as store:
        engine = Engine(store, Replay())
        engine.context.job_context(engine.state.jobs["job"])


def test_row_14_a_feed_may_grow_but_not_change(tmp_path: Path) -> None:
    path, journal = tmp_path / "prices.csv", tmp_path / "journal.db"
    fed(path, 100)
    with SqliteStore(journal) as store:
        begun(store, tmp_path, f"feed:{path}").engine.step(0.6)
        (site,) = [record.event for record in store.read() if isinstance(record.event, SiteOpened)]
    assert len(site.digest) == 64
    append(path, "2026-01-03T01:40:00Z,here,3,1.0,8.0\n")  # once more in the slot in which the job began
    reopen_context(journal)
    for slots in (101, 150):
        fed(path, slots)
        reopen_context(journal)
    append(path, "2026-01-04T03:00:00Z,here,3,1.0,8.0\n2026-01-04T03:00:00Z,new,3,1.0,8.0\n")
    reopen_context(journal)
    for slots, usd in ((150, 3.0), (50, 2.0)):
        fed(path, slots, usd)
        with pytest.raises(InputError, match=r"prices\.csv: the market must stay as it was"):
            reopen_context(journal)


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
