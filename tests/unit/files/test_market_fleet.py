"""Fleet files with a market: a budget in force, deadlines, worth, patience, and each mistake at its place."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.budget.allowance import Allowance
from slacktide.core.errors import FileError
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.core.types import ANY_WIDTH, PoolChoice
from slacktide.files.fleet.fleet import FleetFile, parse_fleet, read_fleet_file

EXAMPLE = Path(__file__).parents[3] / "examples" / "team-month.yaml"
SMALL = """\
budget: 20000 usd/month
market: synthetic:h100
classes:
- name: bert
  arrivals: 3/hour
  work: 4 gpu-hours
"""


def parse(text: str) -> FleetFile:
    return parse_fleet(text, path="fleets/fleet.yaml")


def one(lines: str) -> FleetFile:
    """Parse the smallest fleet on a market with more lines of its class, from the seventh on."""
    return parse(SMALL + "".join(f"  {line}\n" for line in lines.splitlines()))


def test_the_smallest_fleet_on_a_market_has_the_documented_defaults() -> None:
    found = parse(SMALL)
    (bert,) = found.templates
    assert (found.market, found.usd_per_gpu_hour, found.budget_gpus) == ("synthetic:h100", None, math.inf)
    assert found.allowance == Allowance(20_000, 730, "calendar")
    assert (bert.name, bert.arrivals_per_hour, bert.weight) == ("bert", 3, 1)
    assert math.isnan(bert.patience_hours)
    assert (bert.job.deadline_hours, bert.job.widths, bert.job.pools) == (math.inf, ANY_WIDTH, ())
    assert (bert.job.checkpoint_hours, bert.job.after_deadline) == (0.0, "finish-fast")
    assert sum(one.load_gpus for one in found.classes) == 12


def test_classes_are_optional_on_a_market_and_its_path_is_beside_the_file() -> None:
    found = parse("budget: 500 usd/day\nmarket: trace.csv\n")
    assert (found.classes, found.templates, found.market) == ((), (), "fleets/trace.csv")
    assert found.allowance == Allowance(500, 24, "fixed")


def test_every_key_of_a_class_reaches_its_place() -> None:
    found = one(
        "deadline: 12h\nvalue: 600 usd\nworthless_after: 18h\npatience: 30m\npriority: 2\nrestart: 6m\n"
        "checkpoint: {every: 10m, size: 50 GB}\nresources: {accelerators: 'H100:1..4'}"
    )
    (bert,) = found.templates
    job = bert.job
    assert (job.deadline_hours, job.value_usd, job.worthless_after_hours) == (12, 600, 18)
    assert job.checkpoint_hours == pytest.approx(1 / 6)
    assert job.checkpoint_gb == 50
    assert (job.pools, job.widths) == ((PoolChoice("H100", "", (1, 2, 3, 4)),), (1, 2, 3, 4))
    assert (bert.patience_hours, bert.weight, job.after_deadline) == (0.5, 2, "finish-fast")
    (plain,) = found.classes
    assert (plain.job.deadline_hours, plain.widths, plain.restart_hours) == (math.inf, (1, 2, 3, 4), 0.1)


def test_a_hard_deadline_stops_a_late_job_and_checkpoints_may_be_none() -> None:
    (bert,) = one("deadline: 12h\ncheckpoint: none\npatience: never").templates
    assert (bert.job.hard, bert.job.after_deadline) == (True, "stop")
    assert (bert.job.checkpoint_hours, bert.patience_hours) == (math.inf, math.inf)


def test_pools_of_a_class_may_be_any_of_several() -> None:
    (bert,) = one(
        "resources: {any_of: [{accelerators: 'H100:1..2'}, {accelerators: 'A100:4', speed: 0.5}]}"
    ).templates
    assert [choice.gpu for choice in bert.job.pools] == ["H100", "A100"]
    assert bert.job.widths == (1, 2, 4)


@pytest.mark.parametrize(
    ("written", "allowance"),
    [
        ("20000 usd/month", Allowance(20_000, 730, "calendar")),
        ("$700 per week", Allowance(700, 168, "fixed")),
        ("{usd: 20000 usd, per: month}", Allowance(20_000, 730, "calendar")),
        ("{usd: 20000, per: month, renewed: rolling}", Allowance(20_000, 730, "rolling")),
        ("{usd: $900, per: 36h}", Allowance(900, 36, "fixed")),
        ("{usd: 900.5, per: Week, renewed: fixed}", Allowance(900.5, 168, "fixed")),
    ],
)
def test_a_budget_says_how_much_and_when_there_is_money_again(written: str, allowance: Allowance) -> None:
    assert parse(SMALL.replace("20000 usd/month", written)).allowance == allowance


def test_the_long_form_reads_without_a_market_too() -> None:
    found = parse(
        SMALL.replace("20000 usd/month", "{usd: 7300 usd, per: month}").replace(
            "market: synthetic:h100", "price: 2 usd"
        )
    )
    assert (found.budget_gpus, found.market, found.budget) == (5.0, None, "7,300 usd per month, calendar")


def test_a_price_beside_a_market_is_for_average_widths() -> None:
    assert parse(SMALL + "price: 4 usd\n").budget_gpus == pytest.approx(20_000 / 730 / 4)


BROKEN: dict[str, tuple[str, int, str]] = {
    "gpus": (
        SMALL.replace("20000 usd/month", "16 gpus"),
        1,
        "with a market a budget must be money per period",
    ),
    "no money": (SMALL.replace("20000", "0"), 1, "budget: a budget must be > 0, got nothing to spend"),
    "no period": (SMALL.replace("/month", ""), 1, "name its period, as in '20000 usd/month'"),
    "long without usd": (
        SMALL.replace("20000 usd/month", "{per: month}"),
        1,
        "budget.usd must be given, got nothing",
    ),
    "long without per": (SMALL.replace("20000 usd/month", "{usd: 5}"), 1, "budget.per must be given"),
    "long usd negative": (SMALL.replace("20000 usd/month", "{usd: -5 usd, per: month}"), 1, "budget.usd: "),
    "long usd zero": (SMALL.replace("20000 usd/month", "{usd: 0, per: month}"), 1, "budget.usd: must be > 0"),
    "long period": (
        SMALL.replace("20000 usd/month", "{usd: 5, per: fortnight}"),
        1,
        "budget.per: must be one of hour, h, day",
    ),
    "renewed at will": (
        SMALL.replace("20000 usd/month", "{usd: 5, per: month, renewed: roling}"),
        1,
        "did you mean 'rolling'?",
    ),
    "calendar weeks": (
        SMALL.replace("20000 usd/month", "{usd: 5, per: week, renewed: calendar}"),
        1,
        "budget.renewed: calendar must come with 'per: month', got 'week'",
    ),
    "unknown key of the budget": (
        SMALL.replace("20000 usd/month", "{usd: 5, per: month, reset: x}"),
        1,
        "a key of budget must be one of",
    ),
    "market of nothing": (SMALL.replace("synthetic:h100", "''"), 2, "market: must not be empty"),
    "deadline zero": (SMALL + "  deadline: 0h\n", 7, "classes.bert.deadline: must be > 0"),
    "deadline a date": (SMALL + "  deadline: 2030-05-01T18:00Z\n", 7, "classes.bert.deadline: "),
    "value alone": (SMALL + "  deadline: 2h\n  value: 5 usd\n", 8, "must come with worthless_after"),
    "worthless too soon": (
        SMALL + "  deadline: 9h\n  value: 5 usd\n  worthless_after: 2h\n",
        9,
        "must be >= deadline (9h), got 2h",
    ),
    "worth without deadline": (
        SMALL + "  value: 5 usd\n  worthless_after: 2h\n",
        8,
        "worthless_after: must come with a deadline",
    ),
    "patience": (SMALL + "  patience: long\n", 7, "; or write 'never'"),
    "priority": (
        SMALL + "  priority: 5000\n",
        7,
        "classes.bert.priority: must be in 0.001..1000, got '5000'",
    ),
    "checkpoint word": (
        SMALL + "  checkpoint: often\n",
        7,
        "classes.bert.checkpoint: must be 'none' or a mapping",
    ),
    "checkpoint key": (SMALL + "  checkpoint: {dir: x}\n", 7, "a key of checkpoint must be one of"),
    "widths twice": (
        SMALL + "  resources: {accelerators: H100}\n  widths: 1..4\n",
        8,
        "must be given once, got resources too",
    ),
    "resources": (SMALL + "  resources: {}\n", 7, "resources.accelerators must be given"),
    "deadline without market": (
        SMALL.replace("market: synthetic:h100", "price: 2 usd") + "  deadline: 2h\n",
        7,
        "classes.bert.deadline: must come with 'market:' in the fleet file, got none",
    ),
    "neither market nor classes": (
        "budget: 5 usd/day\nprice: 2 usd\n",
        1,
        "classes must be given, got nothing",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_mistake_is_answered_with_its_place_and_what_must_hold(case: str) -> None:
    text, line, words = BROKEN[case]
    with pytest.raises(FileError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"fleets/fleet.yaml:{line}:{caught.value.column}: ")


@given(st.data())
@settings(deadline=None)
def test_a_damaged_file_is_a_fleet_or_a_mistake_of_the_file(data: st.DataObject) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = start + data.draw(st.integers(0, 8))
        snippet = data.draw(st.sampled_from([" ", "\n", ":", "-", "{", "}", "[", "0", "/", "none", "%", ""]))
        text = text[:start] + snippet + text[end:]
    try:
        found = parse_fleet(text, path=EXAMPLE)
    except FileError:
        return  # with its place, as all of them
    assert len(found.classes) == len(found.templates)
    assert found.budget_gpus > 0


def test_the_example_is_a_fleet_on_a_market() -> None:
    found = read_fleet_file(EXAMPLE)
    assert found.allowance is not None
    assert {one.job.hard for one in found.templates} == {True, False}
    assert any(one.job.value_usd > 0 for one in found.templates)
    assert any(one.weight != 1 for one in found.templates)


def test_on_demand_gpus_may_be_limited_on_a_market() -> None:
    assert parse(SMALL).on_demand_gpus == UNLIMITED_GPUS
    assert parse(f"{SMALL}on_demand: 64 gpus\n").on_demand_gpus == 64
    with pytest.raises(
        FileError, match=r"7:12: on_demand: must be a number of GPUs, such as 64 gpus, got '64'"
    ):
        parse(f"{SMALL}on_demand: 64\n")
    streams = SMALL.replace("market: synthetic:h100", "price: 2 usd")
    with pytest.raises(FileError, match="on_demand: must come with a market, got none"):
        parse(f"{streams}on_demand: 64 gpus\n")
