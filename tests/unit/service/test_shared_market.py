"""A server's market lasts for jobs that come later, and plans begin where it stands, as the jobs would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slacktide.app.jobs.submission import FleetText
from slacktide.app.markets.market import MarketSpec
from slacktide.market.formats.table import write_table
from slacktide.market.source import open_market

from .parts_of_api import JOB, House

MARKET = "synthetic:h100?days=4&slot=30m&seed=2"
OTHER = "synthetic:h100?days=6&slot=30m&seed=3"
POOL = open_market(MARKET).pools[0]
MIDDLE = len(POOL) // 2
LONG = JOB.replace("name: job", "name: long").replace("4 gpu-hours", "150 gpu-hours").replace("12h", "46h")
UNNAMED = JOB.replace(f"market: {MARKET}\n", "")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A server that others will submit jobs to."""
    made = House(tmp_path, MarketSpec(shared=True))
    yield made
    made.close()


def submit(house: House, text: str) -> int:
    """Submit a job, and return the slot in which it was placed."""
    sent = house.ask("POST", "/api/v1/jobs?wait=0", {"text": text}, key=f"{len(text)}")
    house.take_in()
    answer = house.ask("GET", f"/api/v1/requests/{sent.json['key']}")
    assert answer.status == 200, answer.message
    return house.engine.state.jobs[answer.json["job"]].submitted.start_slot


def planned(house: House, text: str, **asked: object) -> tuple[str, int]:
    """Plan a job, and return its market and the slot in which it would begin."""
    answer = house.ask("POST", "/api/v1/plan", {"text": text, **asked})
    assert answer.status == 200, answer.message
    return answer.json["market"], answer.json["begin"]["slot"]


def source(market: str) -> str:
    """Return what a plan calls a market."""
    return open_market(market).source


def test_a_market_begins_where_it_lasts_for_later_jobs(house: House) -> None:
    assert submit(house, LONG) == MIDDLE
    house.live(20.0)
    assert submit(house, JOB) == MIDDLE + 40
    house.live(17.0)
    late = house.ask("POST", "/api/v1/plan", {"text": JOB})
    assert (late.status, "this journal's market must cover the deadline of 12 h" in late.message) == (
        400,
        True,
    )


def test_a_job_that_needs_more_than_half_a_market_begins_earlier(house: House) -> None:
    assert submit(house, JOB.replace("12h", "60h")) == len(POOL) - 120


def test_a_plan_begins_where_the_job_would(house: House) -> None:
    assert planned(house, JOB) == (source(MARKET), MIDDLE)
    assert submit(house, LONG) == MIDDLE
    house.live(20.0)
    now = MIDDLE + 40
    assert planned(house, JOB) == (source(MARKET), now)
    assert planned(house, UNNAMED) == (source(MARKET), now), (
        "a job that names no market is on that of the others"
    )
    assert planned(house, JOB, start=3) == (source(MARKET), 3)
    assert planned(house, UNNAMED, market=OTHER) == (source(OTHER), len(open_market(OTHER).pools[0]) // 2)
    house.lease.__exit__(None, None, None)
    assert planned(house, JOB) == (source(MARKET), MIDDLE), (
        "nobody runs the jobs: their market stands nowhere"
    )
    house.lease.__enter__()


def test_where_a_market_begins_can_be_said(tmp_path: Path) -> None:
    house = House(tmp_path, MarketSpec(shared=True, start=7))
    assert planned(house, JOB) == (source(MARKET), 7)
    assert submit(house, LONG) == 7
    house.live(5.0)
    assert planned(house, JOB) == (source(MARKET), 17)
    house.close()


def test_a_server_on_a_live_feed_answers_before_its_first_job(tmp_path: Path) -> None:
    table = tmp_path / "live.csv"
    write_table(open_market(MARKET), table)
    with table.open("a", encoding="utf-8") as file:
        file.write("2026-")  # somebody is writing the next row
    house = House(tmp_path, MarketSpec(source=f"feed:{table}", shared=True))
    pools = house.ask("GET", "/api/v1/markets").json["pools"]
    assert [pool["name"] for pool in pools] == [POOL.name]
    assert planned(house, UNNAMED)[1] == len(POOL) - 1
    asked = {"text": UNNAMED, "starts": 2, "policies": ["on-demand"]}
    tried = house.ask("POST", "/api/v1/backtest", asked)
    assert tried.status == 200, tried.message
    taught = house.ask("POST", "/api/v1/learned", {"text": UNNAMED, "jobs": 1})
    assert taught.status == 200, taught.message
    house.close()


FLEET = f"""\
budget: 6000 usd/month
market: {MARKET}
classes:
  - {{name: small, arrivals: 4/day, work: 2 gpu-hours, widths: "1..4"}}
"""


def test_a_plan_for_a_fleet_begins_where_its_job_would(tmp_path: Path) -> None:
    house = House(tmp_path, MarketSpec(shared=True), FleetText(FLEET, "fleet.yaml"))
    member = UNNAMED + "class: small\n"
    assert planned(house, UNNAMED, policy="on-demand") == (source(MARKET), MIDDLE), (
        "one with a policy of its own is not of the fleet"
    )
    for text in (member, UNNAMED):
        assert planned(house, text) == (source(MARKET), 0), "every job is that comes without one"
    assert planned(house, member, market=OTHER)[1] == len(open_market(OTHER).pools[0]) // 2
    assert submit(house, member) == 0
    house.live(3.0)
    assert planned(house, member) == (source(MARKET), 6)
    patient = member.replace("deadline: 12h", "max_cost: 50 usd")
    checked = house.ask("POST", "/api/v1/plan", {"text": patient, "check": True})
    assert checked.status == 200, "a job of a fleet needs no deadline"
    house.close()


def test_where_a_server_s_market_begins_says_nothing_of_others(tmp_path: Path) -> None:
    short = "synthetic:h100?days=2&slot=30m&seed=3"
    house = House(tmp_path, MarketSpec(source=MARKET, shared=True, start=150))
    assert planned(house, UNNAMED) == (source(MARKET), 150)
    assert planned(house, UNNAMED, market=short) == (source(short), len(open_market(short).pools[0]) // 2)
    house.close()


def test_answers_and_errors_name_the_files_of_a_server_without_folders(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = tmp_path_factory.mktemp("hidden") / "past.csv"
    write_table(open_market(MARKET), table)
    for spec in (str(table), f"feed:{table}"):  # whose prices are old, which a plan says
        house = House(tmp_path_factory.mktemp("house"), MarketSpec(source=spec, shared=True))
        for _ in range(2):
            plan = house.ask("POST", "/api/v1/plan", {"text": UNNAMED, "wants": ["text"]})
            assert (plan.json["market"], b"hidden" in plan.body) == ("past.csv", False)
            submit(house, UNNAMED)
        asked = {"text": UNNAMED, "starts": 2, "policies": ["on-demand"], "wants": ["text"]}
        assert house.ask("POST", "/api/v1/backtest", asked).json["market"]["source"] == "past.csv"
        house.close()
    house = House(tmp_path, MarketSpec(source=str(table)))
    table.unlink()
    gone = house.ask("POST", "/api/v1/plan", {"text": UNNAMED})
    assert (gone.status, gone.message[:9]) == (400, "past.csv:")
    house.close()
