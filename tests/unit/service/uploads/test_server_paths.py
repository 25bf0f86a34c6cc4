"""Whoever reads a server's events learns names of files, not where they lie."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slacktide.journal.events import Event, FeedTroubled, Opened, SiteOpened, Submitted
from slacktide.report.text.sentences.events import sentence
from slacktide.service.uploads.server_paths import ServerPaths
from tests import build

PATHS = ServerPaths(Path("/srv/slacktide/journal.db"))
TEXT = "run: python /data/train.py"


def submitted(market: str, fleet: str = "") -> Submitted:
    """Return a submission on a market."""
    return build.submitted(
        "a",
        text=TEXT,
        path="/home/ann/secret project/job.yaml",
        policy='"on-demand"',
        market=json.dumps({"spec": market, "gaps": "hold"}),
        fleet=fleet,
        fleet_path="/home/ann/fleet.yaml",
    )


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("/data/märkte/h100.csv?slot=30m", "h100.csv?slot=30m"),
        ("/data/a.csv,/mnt/other place/b.json", "a.csv,b.json"),
        (f"/{'deep/' * 30}h100.csv", "h100.csv"),
        ("synthetic:h100?days=4", "synthetic:h100?days=4"),
        ("traces/h100.csv", "traces/h100.csv"),
        ("https://prices.example/v1/h100.csv", "https://prices.example/v1/h100.csv"),
    ],
)
def test_a_submission_names_its_files_without_folders(given: str, shown: str) -> None:
    found = PATHS.out_of_event(submitted(given, fleet=f"market: {given}"))
    assert isinstance(found, Submitted)
    assert json.loads(found.market) == {"spec": shown, "gaps": "hold"}
    assert (found.path, found.fleet_path, found.fleet) == ("job.yaml", "fleet.yaml", f"market: {shown}")
    assert f"market {shown}," in sentence(found)
    assert found.text == TEXT, "a job file is shown as it was sent"


def test_what_concerns_the_controller_names_no_folder() -> None:
    market = json.dumps({"spec": "/data/h100.csv"})
    opened = Opened(at_hours=0.0, pid=1, host="h", version="1", machines="/etc/slacktide/machines.yaml")
    events: list[Event] = [
        opened,
        SiteOpened(at_hours=0.0, market=market, start_utc="2026-01-01T00:00:00+00:00"),
        FeedTroubled(at_hours=0.0, why="/srv/slacktide/feed.csv: must have rows"),
    ]
    for event in events:
        found = PATHS.out_of_event(event)
        assert not any(folder in repr(found) for folder in ("/data", "/srv", "/etc"))
    assert PATHS.out_of_event(events[2]).why == "feed.csv: must have rows"


def test_an_event_without_paths_stays_the_same() -> None:
    event = FeedTroubled(at_hours=1.0, why="the last row is 2 h old")
    assert PATHS.out_of_event(event) is event


def test_a_journal_of_before_has_no_market() -> None:
    found = PATHS.out_of_event(SiteOpened(at_hours=0.0, market="", start_utc=""))
    assert isinstance(found, SiteOpened)
    assert found.market == ""
