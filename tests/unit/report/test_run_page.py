"""The page of a run stands alone, tells every decision, and takes names for text."""

from __future__ import annotations

import dataclasses
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from slacktide.events import Decided
from slacktide.report.run_page import page, write_page
from slacktide.report.run_scene import run_scene

from .runs import BEGAN, ODD_RUNS, bill_of


class Balance(HTMLParser):
    """Checks that what is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "br", "path", "use", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("path", "use", "rect"):
            assert self.open.pop() == tag


@pytest.mark.parametrize("name", sorted(ODD_RUNS))
def test_page_is_whole_and_alone(name: str, tmp_path: Path) -> None:
    scene = ODD_RUNS[name]()
    write_page(scene, bill_of(scene), tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    balance = Balance()
    balance.feed(text)
    assert balance.open == []
    assert "script" not in balance.seen
    assert balance.seen.count("svg") == 4
    assert not re.search(r"(src|href)=[\"'](?!#)", text), "nothing from elsewhere"


def test_every_decision_is_told_with_its_reason() -> None:
    scene = ODD_RUNS["everyday"]()
    text = page(scene, bill_of(scene))
    told = text.split("Every decision and why")[1].split("What happened")[0]
    assert told.count("<tr>") == 1 + len(scene.told(Decided))
    for event in scene.told(Decided):
        assert event.why in told


def test_names_are_text() -> None:
    scene = ODD_RUNS["nasty names"]()
    text = page(scene, bill_of(scene))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "\x1b" not in text


def test_the_bill_is_on_the_page() -> None:
    scene = ODD_RUNS["everyday"]()
    bill = bill_of(scene)
    text = page(scene, bill)
    for said in (f"{bill.cost_usd:,.2f}", f"{bill.spot_usd:,.2f}", "clairvoyant", "on demand alone"):
        assert said in text


def test_a_job_of_a_stream_is_shown_without_a_deadline() -> None:
    scene = ODD_RUNS["everyday"]()
    job = dataclasses.replace(scene.job, deadline_hours=math.inf)
    events = scene.events
    free = run_scene(job, scene.pool, 3, events, name="job", policy="equi", began_hours=BEGAN)
    assert free.end_hours == free.stretches[-1].stretch.to_hours
    text = page(free, dataclasses.replace(bill_of(free), deadline_hours=math.inf))
    assert "3650d" not in text
    assert "inf" not in text
    assert "straight line</text>" not in text
