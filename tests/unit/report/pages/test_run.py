"""The page of a run stands alone, tells every decision, and takes names for text."""

from __future__ import annotations

import dataclasses
import math
import re
from html.parser import HTMLParser

import pytest

from slacktide.engine.bills.bill import run_result
from slacktide.report.figures.drawing.scene import scene
from slacktide.report.pages.run import page
from slacktide.report.text.tables.backtest import spans

from ..runs import ODD_RUNS, Told, bill_of


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
def test_page_is_whole_and_alone(name: str) -> None:
    told = ODD_RUNS[name]()
    text = page(told.runs, bill_of(told.run), told.events)
    balance = Balance()
    balance.feed(text)
    assert balance.open == []
    assert "script" not in balance.seen
    assert balance.seen.count("svg") == 4
    assert not re.search(r"(src|href)=[\"'](?!#)", text), "nothing from elsewhere"


def text_of(told: Told) -> str:
    return page(told.runs, bill_of(told.run), told.events)


@pytest.mark.parametrize("name", sorted(ODD_RUNS))
def test_every_decision_is_told_with_its_reason(name: str) -> None:
    told = ODD_RUNS[name]()
    section = text_of(told).split("Every decision and why")[1].split("What happened")[0]
    tables = section.split("<table>")[1:]
    assert len(tables) == len(told.runs)
    for run, table in zip(told.runs, tables, strict=True):
        assert table.count("<tr>") == 1 + len(spans(run))
        assert all(decision.reason.rule in table for decision in run.decisions)


def test_names_are_text() -> None:
    text = text_of(ODD_RUNS["nasty names"]())
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "\x1b" not in text


def test_the_bill_is_on_the_page() -> None:
    told = ODD_RUNS["everyday"]()
    bill, text = bill_of(told.run), text_of(told)
    for said in (f"{bill.cost_usd:,.2f}", f"{bill.spot_usd:,.2f}", "clairvoyant", "on demand alone"):
        assert said in text


def test_a_job_of_a_stream_is_shown_without_a_deadline() -> None:
    told = ODD_RUNS["everyday"]()
    job = dataclasses.replace(told.run.job, deadline_hours=math.inf)
    free = run_result(told.events, job, told.run.pool, "equi")
    assert scene([free]).end_hours == free.stretches[-1].stretch.to_hours
    text = page([free], bill_of(free), told.events)
    assert "3650d" not in text
    assert "inf" not in text
    assert "straight line</text>" not in text
    assert "soft deadline" not in text
