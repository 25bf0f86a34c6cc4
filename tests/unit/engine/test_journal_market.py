"""One journal, one market: jobs stand at the same slot at one moment, and another market is refused."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slacktide.app.jobs.controller import Controller
from slacktide.app.jobs.submission import Submission, journal_entry
from slacktide.app.markets.market import MarketSpec
from slacktide.backends.replay import Replay
from slacktide.core.errors import InputError
from slacktide.engine.engine import Engine
from slacktide.engine.job.journal_market import standing
from slacktide.files.job import parse_job
from slacktide.journal.events import ClockSet, SiteOpened, Submitted
from slacktide.journal.store.base import MemoryStore
from slacktide.market.base import EPOCH
from slacktide.market.source import open_market
from tests import build

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MARKET = "synthetic:h100?days=4&slot=30m&seed=2"
JOB = """\
name: job
run: "true"
resources: {{accelerators: "H100:1..4"}}
work: 4 gpu-hours
deadline: {deadline}
policy: uniform-progress
"""
BEFORE = Path(__file__).parents[2] / "golden" / "journals" / "unfinished.db"


def ask(
    at_hours: float, site: SiteOpened | None, deadline: str = "12h", name: str = "job", **given: Any
) -> Submitted:
    text = JOB.format(deadline=deadline)
    wanted = Submission(file=parse_job(text, path="job.yaml"), text=text, market=MarketSpec(**given))
    return journal_entry(wanted, wanted.file, job=name, at_hours=at_hours, now=NOW, site=site)


@pytest.fixture
def engine() -> Engine:
    """An engine whose first job was handed in at hour 0.2, in slot 10 of the market."""
    made = Engine(MemoryStore(), Replay())
    made.submit(ask(0.2, None, source=MARKET, start=10))
    return made


def test_the_first_job_opens_the_site_and_writes_it_once(engine: Engine) -> None:
    site, pool = engine.state.site, open_market(MARKET).pools[0]
    assert site is not None
    assert (site.at_hours, site.start_utc) == (0.2, pool.time(10).isoformat())
    assert json.loads(site.market) == {"spec": MARKET}
    engine.submit(ask(0.3, site, name="other"))
    opened = [record for record in engine.store.read() if isinstance(record.event, SiteOpened)]
    assert len(opened) == 1


@pytest.mark.parametrize(("hours", "slot", "origin"), [(0.2, 10, 0.2), (0.69, 10, 0.2), (1.3, 12, 1.2)])
def test_a_later_job_stands_where_the_others_do(
    engine: Engine, hours: float, slot: int, origin: float
) -> None:
    later = ask(hours, engine.state.site, deadline="3h", name="later")
    assert later.start_slot == slot
    assert later.origin_hours == pytest.approx(origin)
    contexts = engine.context.jobs.named("job"), engine.submit(later)
    for now in (hours, hours + 0.1, hours + 7.77):
        assert contexts[0].slot(now) == contexts[1].slot(now)
    assert contexts[1].terms.deadline_hours == hours + 3.0


def test_pools_that_begin_at_other_times_stand_at_one_time_of_the_market() -> None:
    site = SiteOpened(at_hours=1.0, market="", start_utc=(EPOCH + timedelta(hours=5)).isoformat())
    late = build.pool(1.0, 2.0, 1, slots=9, name="late", start=EPOCH + timedelta(hours=4))
    assert standing(site, late, 1.0) == (2, 1.0)
    assert standing(site, late, 2.2) == (4, 2.0)
    odd = build.pool(1.0, 2.0, 1, slots=9, name="odd", start=EPOCH + timedelta(hours=4.25))
    assert standing(site, odd, 1.0) == (1, 0.75)


@pytest.mark.parametrize(
    "given",
    [{"source": "synthetic:volatile"}, {"slot_hours": 0.25}, {"source": MARKET, "on_demand_usd": 9.0}],
)
def test_another_market_is_refused_with_the_remedy(engine: Engine, given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"must keep its market.*name another journal with --journal"):
        ask(1.0, engine.state.site, **given)
    assert ask(1.0, engine.state.site, source=MARKET).market == ask(1.0, engine.state.site).market


def test_a_market_that_does_not_reach_to_the_deadline_is_refused(engine: Engine) -> None:
    hours = 0.2 + (len(open_market(MARKET).pools[0]) - 10) * 0.5 - 12.0
    assert ask(hours, engine.state.site).start_slot > 10
    with pytest.raises(InputError, match=r"must cover the deadline of 12 h, got 11.9 h of it.*--journal"):
        ask(hours + 0.1, engine.state.site)
    with pytest.raises(InputError, match="start must stay 10"):
        ask(1.0, engine.state.site, start=11)


def test_a_feed_is_joined_at_its_present_by_the_first_job_and_by_later_ones(tmp_path: Path) -> None:
    rows = [f"2025-01-01T{hour:02}:00:00Z,zone,1.0,3.0,4" for hour in range(20)]
    feed = tmp_path / "feed.csv"
    head = "time_utc,pool,spot_usd_per_gpu_hour,on_demand_usd_per_gpu_hour,spot_gpus"
    feed.write_text("\n".join([head, *rows, ""]), encoding="utf-8")
    assert ask(0.0, None, source=f"feed:{feed}", start=None).start_slot == 19
    with pytest.raises(InputError, match="start must be left out: a feed is joined at its last row, got 3"):
        ask(0.0, None, source=f"feed:{feed}", start=3)


def test_a_clock_that_is_set_anew_has_no_site_yet(engine: Engine) -> None:
    engine.write([ClockSet(at_hours=0.0, epoch_utc=NOW.isoformat(), speed=1.0)])
    assert engine.state.site is None


def test_unfinished_jobs_of_before_are_refused_with_the_remedy(tmp_path: Path) -> None:
    copy = Path(shutil.copy(BEFORE, tmp_path))
    with pytest.raises(InputError, match="finish them with that version, or submit them again"):
        Controller(copy).__enter__()
