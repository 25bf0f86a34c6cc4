"""Tables say what the runs say, align in a pipe and never read a name as an instruction."""

from __future__ import annotations

import dataclasses
import math

import pytest
from rich.console import Console

from slacktide.core.types import Reason
from slacktide.engine.bills.bill import run_result
from slacktide.report.text.tables import backtest as report
from slacktide.report.text.tables.backtest import best, caveats, decisions, spans, verdict
from slacktide.report.wire.backtest import as_json
from slacktide.results.comparison import Comparison
from slacktide.results.run import result_of

from ..conftest import ODD, make
from ..runs import back_test, journal_of


def shown(thing: object, width: int = 200) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(thing)
    return capture.get()


def test_summary_text_is_aligned_and_plain(comparison: Comparison) -> None:
    text = report.summary_text(comparison)
    assert text.isprintable() or set(text) - {"\n"} == {char for char in text if char.isprintable()}
    lines = text.splitlines()[2 : 3 + len(comparison.summary)]
    assert len({len(line) for line in lines}) == 1, "the last column leans to the right"
    for one, line in zip(comparison.summary, lines[1:], strict=True):
        assert line.startswith(f"{one.policy} ")
        assert f"{one.cost_over_clairvoyant:.2f}×" in line


def test_rich_summary_has_every_policy_even_when_narrow(odd: Comparison) -> None:
    for width in (80, 200):
        text = shown(report.summary_table(odd), width)
        assert "\x1b" not in text
        assert all(len(line) <= width for line in text.splitlines())
    for one in odd.summary:
        assert one.policy in text


def test_decisions_are_told_once_with_all_the_money(odd: Comparison) -> None:
    for run in odd.detail:
        told = spans(run)
        assert [decision for span in told for decision in span] == list(run.decisions)
        assert sum(decision.cost_usd for span in told for decision in span) == pytest.approx(
            run.bill.cost_usd
        )
        assert all(not decision.lost_gpus for span in told for decision in span[1:])


def test_equal_consecutive_decisions_are_one_line(comparison: Comparison) -> None:
    constant = comparison.detail[0]
    assert constant.policy == "on-demand"
    assert len(spans(constant)) == 1 < len(constant.decisions)
    last = len(constant.decisions) - 1
    assert f"0–{last}  4 Oct 22:40" in report.decisions_text(dataclasses.replace(constant, start_slot=0))


def test_decisions_tell_reason_and_loss(comparison: Comparison) -> None:
    run = next(run for run in comparison.detail if run.policy == "maximal-spot")
    text = report.decisions_text(run)
    assert "take-all-spot" in text
    assert len(run.losses) == text.count("lost ") > 0
    assert "take-all-spot" in shown(report.decisions_table(run))


def test_a_journal_and_its_back_test_have_one_table() -> None:
    of, where, run = back_test()
    journal = run_result(journal_of(run, of, where), of, where, "")
    assert decisions(journal) == decisions(result_of(run, of, where))


def test_a_loss_begins_a_new_line_though_the_same_is_held() -> None:
    of, where, run = back_test("on-demand")
    whole = result_of(run, of, where)
    first, second, *rest = whole.decisions
    hit = dataclasses.replace(whole, decisions=(first, second._replace(lost_gpus=2), *rest))
    assert [len(span) for span in spans(hit)] == [1, 1 + len(rest)]
    assert decisions(hit).rows[1][-1].startswith("lost 2 spot; ")


def test_letting_go_and_a_moment_inside_a_slot_are_told() -> None:
    of, where, run = back_test("on-demand")
    whole = result_of(run, of, where)
    first = whole.decisions[0]
    last = first._replace(hours=0.2, ending="cancelled", reason=Reason("a user asked for it"), laps=())
    begun, let_go = decisions(dataclasses.replace(whole, decisions=(first, last))).rows
    assert (begun[1], let_go[1]) == ("5 Oct 00:10", "5 Oct 00:22")
    assert let_go[-1] == "stops all workers: a user asked for it"


def test_verdict_in_plain_words(comparison: Comparison) -> None:
    one = best(comparison)
    sentence = verdict(comparison)
    assert sentence.startswith(f"{one.policy} was on time from 4 of 4 starts and paid ")
    assert f"{one.cost_over_clairvoyant:.2f}× the clairvoyant" in sentence
    assert not caveats(comparison)


def test_a_clairvoyant_that_is_not_exact_is_never_shown_as_exact(comparison: Comparison) -> None:
    close = dataclasses.replace(comparison, clairvoyant_spare_usd=0.5)
    (said,) = caveats(close)
    assert said.startswith("The clairvoyant is close, not exact: ")
    assert "up to $0.50" in said
    assert said in report.summary_text(close)
    assert as_json(close)["clairvoyant_spare_usd"] == 0.5
    assert "clairvoyant_spare_usd" not in as_json(comparison)


def test_verdict_prefers_being_in_time_to_being_cheap(comparison: Comparison) -> None:
    cheap = comparison.summary[1].policy
    summary = tuple(
        dataclasses.replace(one, on_time_share=0.5, mean_cost_usd=0.01) if one.policy == cheap else one
        for one in comparison.summary
    )
    runs = tuple(
        dataclasses.replace(run, on_time=False) if run.policy == cheap else run for run in comparison.runs
    )
    changed = dataclasses.replace(comparison, summary=summary, runs=runs)
    assert best(changed).policy != cheap
    assert f"{cheap} paid less ($0.01 on average) but was late from 4 starts." in caveats(changed)


def test_verdict_when_nobody_is_in_time() -> None:
    assert verdict(ODD["late"]()) == "No policy was on time from any of 4 starts."
    assert any("Even the clairvoyant was late" in said for said in caveats(ODD["late"]()))
    assert any("maximum cost was reached" in said for said in caveats(ODD["money ends"]()))


def test_verdict_by_value_when_the_deadline_is_soft() -> None:
    soft = make(value_usd=300.0, worthless_after_hours=12.0)
    able = [one for one in soft.summary if one.policy != "clairvoyant"]
    assert best(soft).mean_utility_usd == max(one.mean_utility_usd for one in able)
    assert verdict(soft).endswith("of value.")


def test_a_free_clairvoyant_leaves_no_ratio(comparison: Comparison) -> None:
    summary = tuple(dataclasses.replace(one, cost_over_clairvoyant=math.inf) for one in comparison.summary)
    free = dataclasses.replace(comparison, summary=summary)
    assert "where the clairvoyant paid nothing" in verdict(free)
    assert "∞×" in report.summary_text(free)
