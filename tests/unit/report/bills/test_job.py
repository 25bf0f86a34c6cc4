"""The bill adds up, compares only what can be compared, and says when its audit finds something."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from slacktide.physics.ledger import Audit
from slacktide.report.text.bills import job as bills
from slacktide.results.bill import Bill

from ..conftest import NASTY
from ..runs import ODD_RUNS, bill_of

OF_MOVES = ("pools", "moves", "move_usd")
"""What only the bill of a job that may move says."""


@pytest.fixture
def everyday() -> Bill:
    return bill_of(ODD_RUNS["everyday"]().run)


@pytest.mark.parametrize("name", sorted(ODD_RUNS))
def test_text_and_json_of_every_bill(name: str) -> None:
    bill = bill_of(ODD_RUNS[name]().run)
    text = bills.text(bill)
    assert text.replace("\n", "").isprintable()
    assert "preempted" in text
    assert "restarted" in text
    rows = {row[0]: row[1:] for row in bills.paid(bill).rows}
    assert rows["total"] == (
        f"{bill.spot_gpu_hours + bill.on_demand_gpu_hours:,.2f}",
        bills.cents(bill.cost_usd),
    )
    document = bills.as_json(bill)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert {field.name for field in dataclasses.fields(Bill)} - {
        "clairvoyant_spare_usd",
        "market_gone",
        *OF_MOVES,
    } <= set(document)


def test_a_clairvoyant_that_is_not_exact_says_so_beside_its_figure(everyday: Bill) -> None:
    close = dataclasses.replace(everyday, cost_usd=9.5, clairvoyant_usd=10.0, clairvoyant_spare_usd=1.0)
    said = dict(bills.comparisons(close))["clairvoyant"]
    assert "the best could be up to $1.00 (10 % of its cost) better" in said
    assert "faster than was measured" not in said, "the bill lies between the plan and the bound"
    assert bills.as_json(close)["clairvoyant_spare_usd"] == 1.0
    assert "clairvoyant_spare_usd" not in bills.as_json(everyday)
    beaten = dataclasses.replace(close, cost_usd=8.5)
    assert "faster than was measured" in dict(bills.comparisons(beaten))["clairvoyant"]


def test_outcome_in_one_sentence(everyday: Bill) -> None:
    done = dataclasses.replace(everyday, cost_usd=12.345, finish_hours=7.5, deadline_hours=8.0, on_time=True)
    assert bills.outcome(done) == "job succeeded: $12.35, done after 7h30m, 30m before the deadline of 8h"
    late = dataclasses.replace(done, status="deadline_missed", finish_hours=8.5, on_time=False)
    assert bills.outcome(late).endswith(
        "finished too late: $12.35, done after 8h30m, 30m after the deadline of 8h"
    )
    never = dataclasses.replace(
        done, status="failed", finish_hours=math.inf, done_gpu_hours=29.99, on_time=False
    )
    assert bills.outcome(never) == "job failed: $12.35, 99 % of the work done, deadline 8h"
    assert "has not ended (running)" in bills.outcome(dataclasses.replace(never, status="running"))


def test_a_silent_job_that_outran_its_file_is_not_said_to_be_done(everyday: Bill) -> None:
    stopped = dataclasses.replace(
        everyday, status="deadline_missed", finish_hours=math.inf, on_time=False, progress_estimated=True,
        done_gpu_hours=everyday.work_gpu_hours, measured_work_gpu_hours=None,
    )  # fmt: skip
    text = bills.text(stopped)
    assert "100 %" not in bills.outcome(stopped)
    assert "was stopped unfinished at its deadline" in text
    assert "not done after the work that its file says" in text
    assert "unknown: its file says" in text
    assert "99 % of the work done" in bills.outcome(dataclasses.replace(stopped, done_gpu_hours=29.99))


def test_beside_others(everyday: Bill) -> None:
    bill = dataclasses.replace(everyday, cost_usd=100.0, on_demand_alone_usd=400.0, clairvoyant_usd=80.0)
    alone, best = (said for _, said in bills.comparisons(bill))
    assert alone == "$400.00; $300.00 (75 %) saved"
    assert best == "$80.00, knowing the future; the bill is 1.25× that"
    dear = dataclasses.replace(bill, cost_usd=500.0)
    assert bills.comparisons(dear)[0][1] == "$400.00; $100.00 (25 %) more was paid"
    assert bills.as_json(bill)["saved_share"] == 0.75
    assert bills.as_json(bill)["cost_over_clairvoyant"] == 1.25


def test_a_job_that_was_not_done_is_compared_with_nothing(everyday: Bill) -> None:
    stopped = dataclasses.replace(everyday, status="budget_exhausted", finish_hours=math.inf, on_time=False)
    assert bills.as_json(stopped)["saved_share"] is None
    assert bills.as_json(stopped)["finish_hours"] is None
    assert "saved" not in bills.text(stopped)
    unknown = dataclasses.replace(everyday, on_demand_alone_usd=None, clairvoyant_usd=None)
    assert bills.text(unknown).count("the market data ends before that") == 2
    gone = dataclasses.replace(unknown, market_gone=True)
    assert bills.text(gone).count("unknown: the market cannot be read") == 2
    free = dataclasses.replace(everyday, on_demand_alone_usd=0.0, clairvoyant_usd=0.0)
    assert bills.as_json(free)["cost_over_clairvoyant"] is None


def test_audit_says_what_is_wrong(everyday: Bill) -> None:
    good = Audit(everyday.cost_usd, (), ())
    assert bills.audit_text(good, everyday.cost_usd).endswith("no gap, no overlap")
    bad = Audit(everyday.cost_usd + 0.02, ("event 7: begins early",), ("event 9: 1 USD, not 2",))
    said = bills.audit_text(bad, everyday.cost_usd)
    assert "is not right" in said
    assert "priced again it is" in said
    assert "event 7" in said
    assert "event 9" in said
    assert bills.audit_json(bad)["clean"] is False


def test_names_from_outside_stay_text(everyday: Bill) -> None:
    assert "\x1b" not in bills.text(dataclasses.replace(everyday, job=NASTY))


def test_a_bill_says_where_a_job_was_and_what_moves_cost(everyday: Bill) -> None:
    moved = dataclasses.replace(everyday, pools=("zone-a", "zone-b"), moves=1, move_usd=1.5)
    assert {row[0]: row[1:] for row in bills.paid(moved).rows}["moves"] == ("", "1.50")
    assert dict(bills.happenings(moved))["moved"] == "1 time: zone-a, then zone-b"
    assert "move" not in bills.text(everyday)
    told = bills.as_json(moved)
    assert [told[name] for name in OF_MOVES] == [["zone-a", "zone-b"], 1, 1.5]
    many = dataclasses.replace(moved, pools=tuple(f"zone-{at}" for at in range(9)), moves=8)
    said = dict(bills.happenings(many))["moved"]
    assert said.startswith("8 times: zone-0, then")
    assert said.endswith("zone-5, then ...")
