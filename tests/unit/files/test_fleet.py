"""Fleet files: what each key means, and where and how each mistake is answered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.budget.classes import JobClass
from slacktide.core.errors import FileError, InputError
from slacktide.core.speedup import Amdahl, Linear, Power, Table
from slacktide.core.types import ANY_WIDTH, Job, Phase
from slacktide.core.units import Budget, parse_arrivals_per_hour, parse_budget
from slacktide.files.fleet.fleet import (
    CLASS_KEYS,
    FLEET_KEYS,
    FleetFile,
    gpus_of,
    parse_fleet,
    read_fleet_file,
)
from slacktide.files.fleet.keys import BUDGET_KEYS, PRICE_KEYS, STREAM_KEYS, StreamSettings

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "fleet.yaml"
DOCUMENTATION = ROOT / "docs" / "reference" / "fleet-file.md"

SMALL = """\
budget: 16 gpus
classes:
- name: bert
  arrivals: 3/hour
  work: 4 gpu-hours
"""


def parse(text: str) -> FleetFile:
    return parse_fleet(text, path="fleets/fleet.yaml")


def one(lines: str) -> JobClass:
    """Parse the smallest fleet with more lines of its class, from the sixth on."""
    (found,) = parse(SMALL + "".join(f"  {line}\n" for line in lines.splitlines())).classes
    return found


def test_the_smallest_fleet_has_the_documented_defaults() -> None:
    found = parse(SMALL)
    bert = Job(name="bert", work_gpu_hours=4)
    assert found.classes == (JobClass(bert, arrivals_per_hour=3, speedup_said=False),)
    assert (found.budget, found.budget_gpus, found.usd_per_gpu_hour) == ("16 gpus", 16, None)
    assert (found.stream, found.path) == (
        StreamSettings(1, 0, 0, "poisson", "exponential"),
        "fleets/fleet.yaml",
    )
    (only,) = found.classes
    assert (only.job.speedup, only.restart_hours, only.widths) == (Linear(), 0, ANY_WIDTH)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", False),
        ("speedup: {amdahl: 0.9}", True),
        ("speedup: {linear: {alpha: 1, beta: 0}}", True),
    ],
)
def test_a_speedup_that_is_assumed_is_told_from_one_that_was_said(lines: str, said: bool) -> None:
    assert one(lines).speedup_said is said


@pytest.mark.parametrize(
    ("second", "said"), [("{work: 1 gpu-hour}", False), ("{work: 1 gpu-hour, speedup: {amdahl: 0.8}}", True)]
)
def test_all_phases_must_say_how_they_scale(second: str, said: bool) -> None:
    text = SMALL.replace("  work: 4 gpu-hours\n", "")
    phases = f"  phases: [{{work: 2 gpu-hours, speedup: {{amdahl: 0.9}}}}, {second}]\n"
    (found,) = parse(text + phases).classes
    assert found.speedup_said is said


def test_every_key_reaches_its_place() -> None:
    found = parse(
        """\
budget: 20000 usd/month
price: {spot: 2 usd, on_demand: 8 usd, spot_share: 70%}
classes:
  - name: bert
    arrivals_per_hour: 0.5
    work: 6 gpu-hours
    speedup: {amdahl: 0.9}
    restart: 6m
    widths: 1..3
  - name: llama
    arrivals: 12/day
    phases:
      - {work: 2 gpu-hours, speedup: {power: 0.5}}
      - work: 3 gpu-hours
    speedup: {amdahl: 0.8}
    widths: {8,1,2,4}
stream: {node_gpus: 8, provisioning: 3m, idle_grace: 30m, arrivals: bursty, sizes: pareto}
"""
    )
    bert, llama = found.classes
    assert (bert.name, bert.arrivals_per_hour, bert.work_gpu_hours, bert.job.speedup) == (
        "bert",
        0.5,
        6,
        Amdahl(0.9),
    )
    assert bert.restart_hours == pytest.approx(0.1)
    assert bert.widths == (1, 2, 3)
    assert (llama.arrivals_per_hour, llama.work_gpu_hours, llama.widths) == (0.5, 5, (1, 2, 4, 8))
    assert llama.phases == (Phase(2, Power(0.5)), Phase(3, Amdahl(0.8)))
    assert found.usd_per_gpu_hour == pytest.approx(0.7 * 2 + 0.3 * 8)
    assert found.budget_gpus == pytest.approx(20_000 / 730 / 3.8)
    assert found.stream == StreamSettings(8, 0.05, 0.5, "bursty", "pareto")


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("16 gpus", Budget(16, None)),
        ("1 gpu", Budget(1, None)),
        ("2.5 GPUs", Budget(2.5, None)),
        ("40 usd/hour", Budget(None, 40)),
        ("$40/h", Budget(None, 40)),
        ("40 USD per hour", Budget(None, 40)),
        ("$20,000 / month", Budget(None, 20_000 / 730)),
        ("48 usd/day", Budget(None, 2)),
        ("168 usd/week", Budget(None, 1)),
        ("8760 usd/year", Budget(None, 1)),
    ],
)
def test_budgets_are_gpus_or_money_over_a_period(text: str, budget: Budget) -> None:
    found = parse_budget(text)
    assert (found.gpus, found.usd_per_hour) == pytest.approx(tuple(budget))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("16", "write '16 gpus' or '16 usd/hour'"),
        ("40 usd", "name its period, as in '40 usd/month'"),
        ("$40", "name its period, as in '$40/month'"),
        ("40 eur/hour", "a budget must be an average"),
        ("40 usd/fortnight", "a budget must be an average"),
        ("usd/hour", "a budget must be an average"),
        ("-4 gpus", "must not be negative"),
        ("1e400 gpus", "a budget must be an average"),
        ("9" * 400 + " gpus", "must be <= 1e9 gpus"),
        ("", "got ''"),
        ("/", "a budget must be an average"),
        (" per ", "a budget must be an average"),
    ],
)
def test_budgets_that_may_mean_anything_are_refused(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_budget(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("3/hour", 3), ("20/day", 20 / 24), ("5 jobs per week", 5 / 168), ("1 job/h", 1), ("7.3 / month", 0.01)],
)
def test_arrivals_are_read_per_hour(text: str, rate: float) -> None:
    assert parse_arrivals_per_hour(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3", "write 3/hour or 3/day"),
        ("3/second", "a number per period"),
        ("-3/hour", "must not be negative"),
        ("1,5/hour", "a number per period"),
        ("2000000/hour", "must be <= 1e6/hour"),
        ("/hour", "a number per period"),
    ],
)
def test_arrivals_that_may_mean_anything_are_refused(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_arrivals_per_hour(text)
    assert words in str(caught.value)


def test_money_buys_gpus_at_its_price() -> None:
    assert gpus_of(Budget(None, 40.0), 2.5) == 16
    assert gpus_of(Budget(16.0, None), None) == 16
    with pytest.raises(InputError, match="must come with the price of a GPU-hour"):
        gpus_of(Budget(None, 40.0), None)


@pytest.mark.parametrize(
    ("text", "usd"),
    [
        ("2.50 usd", 2.5),
        ("$2.50", 2.5),
        ("{spot: 2 usd}", 2),
        ("{on_demand: $8}", 8),
        ("{spot: 2 usd, on_demand: 8 usd, spot_share: 0.5}", 5),
        ("{spot: 2 usd, on_demand: 8 usd, spot_share: 1}", 2),
        ("{spot: 2 usd, on_demand: 8 usd, spot_share: 0%}", 8),
    ],
)
def test_prices_have_several_forms(text: str, usd: float) -> None:
    assert parse(SMALL + f"price: {text}\n").usd_per_gpu_hour == pytest.approx(usd)


@pytest.mark.parametrize(
    ("text", "widths"),
    [
        ("8", (8,)),
        ("1..4", (1, 2, 3, 4)),
        ("{1,2,4,8}", (1, 2, 4, 8)),
        ("{1, 8, 2}", (1, 2, 8)),
        ("[4, 1]", (1, 4)),
        ("'{1,2}'", (1, 2)),
        ("\n    - 1\n    - 2", (1, 2)),
    ],
)
def test_widths_are_ranges_sets_and_lists(text: str, widths: tuple[int, ...]) -> None:
    assert one(f"widths: {text}").widths == widths


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def from_csv(folder: Path, speedup: str, csv: str) -> JobClass:
    write(folder, "runs.csv", csv)
    (found,) = read_fleet_file(write(folder, "fleet.yaml", SMALL + f"  speedup: {speedup}\n")).classes
    return found


def test_measured_speedups_lie_beside_the_fleet_file(tmp_path: Path) -> None:
    found = from_csv(tmp_path, "{csv: runs.csv}", "GPUs,Throughput\n2,19\n1,10\n4,34\n")
    assert found.job.speedup == Table.of({1: 1, 2: 1.9, 4: 3.4})


def test_some_rows_of_a_csv_may_be_meant(tmp_path: Path) -> None:
    rows = "model,n_gpus,minutes\nbert,1,60\nbert,2,40\nvit,1,9\nvit,2,5\n"
    found = from_csv(tmp_path, "{csv: {file: runs.csv, where: {model: bert}}}", rows)
    assert found.job.speedup == Table.of({1: 1, 2: 1.5})


def test_a_series_without_one_gpu_counts_as_perfect_up_to_its_narrowest(tmp_path: Path) -> None:
    found = from_csv(tmp_path, "{csv: runs.csv}", "gpus,throughput\n4,10\n8,18\n")
    assert found.job.speedup(4) == pytest.approx(4)
    assert found.job.speedup(8) == pytest.approx(7.2)
    assert found.job.speedup(1) == pytest.approx(1)


@pytest.mark.parametrize(
    ("csv", "words"),
    [
        ("gpus,throughput\n1,10\n2,fast\n", "runs.csv:3: throughput must be a number, got 'fast'"),
        ("gpus,throughput\n1,0\n", "runs.csv:2: throughput must be > 0"),
        ("gpus,seconds\n1,0\n", "runs.csv:2: seconds must be > 0"),
        ("gpus,throughput\n1.5,3\n", "runs.csv:2: gpus must be a whole number"),
        ("gpus,throughput\n0,3\n", "gpus must be a whole number in 1..1000000, got '0'"),
        ("gpus,throughput\n1\n", "runs.csv:2: a row must have 2 cells like the header, got 1"),
        ("gpus,throughput\n", "must have rows below its header"),
        ("", "must have a header"),
        ("gpus,loss\n1,2\n", "must have a column such as 'throughput', got only: gpus, loss"),
        ("width,throughput\n1,2\n", "must have a column such as 'gpus', got only: width, throughput"),
        ("gpus,throughput,iter_per_s\n1,2,3\n", "name the one you mean with 'rate' or 'time'"),
        ("gpus,gpus,throughput\n1,2,3\n", "a column must come once, got 'gpus' twice"),
        ("model,gpus,throughput\na,1,2\nb,1,3\n", "got 1 GPUs in lines 2 and 3 with model 'a' and 'b'"),
        ("gpus;throughput\n1;2\n", "columns must be separated by ',', got ';'"),
        ('gpus,throughput\n1,"2\n', "must be well-formed CSV"),
    ],
)
def test_mistakes_of_a_csv_name_both_files(tmp_path: Path, csv: str, words: str) -> None:
    with pytest.raises(FileError) as caught:
        from_csv(tmp_path, "{csv: runs.csv}", csv)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'fleet.yaml'}:6:")


def test_a_missing_csv_is_refused_by_name() -> None:
    with pytest.raises(FileError, match=r"none\.csv: must be a readable file, got: No such file") as caught:
        one("speedup: {csv: none.csv}")
    assert caught.value.line == 6


TWO = SMALL + "- name: bert\n  arrivals: 1/day\n  work: 1 gpuh\n"
MONEY = SMALL.replace("16 gpus", "40 usd/hour")

BROKEN: dict[str, tuple[str, int, str]] = {
    # text of the file, line of its first mistake, words of the answer
    "empty": ("", 1, "must name at least budget and classes, got an empty file"),
    "only text": ("hello\n", 1, "must be a mapping of keys to values, got a single text"),
    "a job file": ("deadline: 2h\nwork: 1 gpuh\n", 1, "got a job file; plan it with 'slacktide plan'"),
    "unknown key": (SMALL + "clases: 1\n", 6, "got 'clases'; did you mean 'classes'?"),
    "no budget": (SMALL.replace("budget: 16 gpus", "# none"), 2, "budget must be given, got nothing"),
    "no classes": ("budget: 16 gpus\n", 1, "classes must be given, got nothing"),
    "budget without unit": (SMALL.replace(" gpus", ""), 1, "budget: a budget must be an average"),
    "budget of nothing": (SMALL.replace("16", "0"), 1, "budget: a budget must be > 0"),
    "budget as list": (SMALL.replace("16 gpus", "[1]"), 1, "budget: must be a single value, got a list"),
    "budget null": (SMALL.replace("16 gpus", ""), 1, "budget: must be a single value, got nothing"),
    "money without price": (MONEY, 1, "budget: a budget in money must come with the price of a GPU-hour"),
    "price without unit": (SMALL + "price: 2.5\n", 6, "price: an amount of money must"),
    "price of nothing": (SMALL + "price: 0 usd\n", 6, "price: must be > 0, got '0 usd'"),
    "price unknown key": (SMALL + "price: {sport: 2 usd}\n", 6, "did you mean 'spot'?"),
    "price empty": (SMALL + "price: {}\n", 6, "price: must name spot, on_demand or both"),
    "price without share": (
        SMALL + "price: {spot: $2, on_demand: $8}\n",
        6,
        "price.spot_share must be given",
    ),
    "share with one price": (SMALL + "price: {spot: $2, spot_share: 1}\n", 6, "must come with both prices"),
    "share of 70": (
        SMALL + "price: {spot: $2, on_demand: $8, spot_share: 70}\n",
        6,
        "spot_share: must be in [0, 1], got '70'",
    ),
    "share as text": (
        SMALL + "price:\n  spot: $2\n  on_demand: $8\n  spot_share: most\n",
        9,
        "must be a number, got 'most'",
    ),
    "classes as mapping": (
        "budget: 1 gpu\nclasses:\n  bert: {}\n",
        3,
        "must be a list of classes, each starting with '- ', got a mapping",
    ),
    "classes empty": ("budget: 1 gpu\nclasses: []\n", 2, "must be a list of classes, each starting"),
    "classes null": (
        "budget: 1 gpu\nclasses:\n",
        2,
        "must be a list of classes, each starting with '- ', got nothing",
    ),
    "class as text": ("budget: 1 gpu\nclasses: [bert]\n", 2, "classes: must be mappings of keys"),
    "class unknown key": (
        SMALL + "  widhts: 1..8\n",
        6,
        "a key of classes.bert must be one of the known names",
    ),
    "class without name": (SMALL.replace("name: bert", "restart: 1m"), 3, "classes.1.name must be given"),
    "class name with a blank": (SMALL.replace("bert", "my bert"), 3, "name: must be 1 to 63 letters"),
    "class twice": (TWO, 6, "classes.bert.name: must differ from all others, got 'bert' again after line 3"),
    "no arrivals": (
        SMALL.replace("arrivals: 3/hour", "restart: 1m"),
        3,
        "classes.bert.arrivals must be given",
    ),
    "arrivals twice": (
        SMALL + "  arrivals_per_hour: 3\n",
        4,
        "arrivals: must be given once, got arrivals_per_hour too",
    ),
    "arrivals without period": (SMALL.replace("3/hour", "3"), 4, "arrivals must be a number per period"),
    "arrivals of nothing": (SMALL.replace("3/hour", "0/hour"), 4, "arrivals: must be > 0"),
    "rate as text": (
        SMALL.replace("arrivals: 3/hour", "arrivals_per_hour: often"),
        4,
        "must be a number, got 'often'",
    ),
    "rate of nothing": (SMALL.replace("arrivals: 3/hour", "arrivals_per_hour: 0"), 4, "must be > 0, got '0'"),
    "rate far too great": (
        SMALL.replace("arrivals: 3/hour", "arrivals_per_hour: 1e9"),
        4,
        "must be <= 1e+06",
    ),
    "no work": (SMALL.replace("work: 4 gpu-hours", "restart: 1m"), 3, "classes.bert.work must be given"),
    "work without unit": (SMALL.replace("4 gpu-hours", "4"), 5, "work must be a number with its unit"),
    "work and phases": (
        SMALL + "  phases: [{work: 1 gpuh}]\n",
        5,
        "work: must be given once, got phases too",
    ),
    "phases as text": (
        SMALL.replace("work: 4 gpu-hours", "phases: three"),
        5,
        "phases: must be a list of phases, each starting",
    ),
    "phase as text": (SMALL.replace("work: 4 gpu-hours", "phases: [1]"), 5, "phases: must be a mapping"),
    "phase without work": (
        SMALL.replace("work: 4 gpu-hours", "phases: [{speedup: {power: 1}}]"),
        5,
        "phases.work must be given",
    ),
    "phase unknown key": (
        SMALL.replace("work: 4 gpu-hours", "phases: [{work: 1 gpuh, sped: 1}]"),
        5,
        "a key of phases must be",
    ),
    "unknown speedup": (SMALL + "  speedup: {ahmdal: 1}\n", 6, "did you mean 'amdahl'?"),
    "speedup overflow": (
        SMALL + "  speedup: {linear: {alpha: 1e308}}\n",
        6,
        "alpha and beta must be <= 1e+12, got 1e+308 and 0",
    ),
    "csv as list": (SMALL + "  speedup: {csv: [a]}\n", 6, "speedup.csv: must be a single value, got a list"),
    "csv without file": (SMALL + "  speedup: {csv: {where: {a: b}}}\n", 6, "speedup.csv.file must be given"),
    "csv unknown key": (SMALL + "  speedup: {csv: {fiel: a}}\n", 6, "did you mean 'file'?"),
    "csv where as text": (SMALL + "  speedup: {csv: {file: a, where: b}}\n", 6, "where: must be a mapping"),
    "restart without unit": (SMALL + "  restart: 4\n", 6, "write 4h for hours or 4m for minutes"),
    "width 0": (SMALL + "  widths: 0..8\n", 6, "a width must be in 1..4096, got '0'"),
    "widths downwards": (SMALL + "  widths: 8..1\n", 6, "must go upwards"),
    "widths of nothing": (SMALL + "  widths: []\n", 6, "a range of GPUs must be written"),
    "widths an empty set": (SMALL + "  widths: {}\n", 6, "a range of GPUs must be written"),
    "widths as mapping": (SMALL + "  widths: {1: 2}\n", 6, "widths: must be a single value, got a mapping"),
    "width twice": (SMALL + "  widths: {1, 1}\n", 6, "a key must be given once, got '1' again"),
    "widths of lists": (SMALL + "  widths: [[1]]\n", 6, "must be a single value, got a list"),
    "stream as text": (SMALL + "stream: bursty\n", 6, "stream: must be a mapping"),
    "stream unknown key": (SMALL + "stream: {node_gpu: 8}\n", 6, "did you mean 'node_gpus'?"),
    "nodes of nothing": (SMALL + "stream: {node_gpus: 0}\n", 6, "a width must be in 1..4096"),
    "nodes of some": (SMALL + "stream: {node_gpus: 1..8}\n", 6, "must be a whole number of GPUs, got '1..8'"),
    "provisioning without unit": (
        SMALL + "stream: {provisioning: 4}\n",
        6,
        "stream.provisioning: a duration",
    ),
    "unknown arrivals": (SMALL + "stream: {arrivals: poison}\n", 6, "did you mean 'poisson'?"),
    "unknown sizes": (SMALL + "stream: {sizes: big}\n", 6, "known: exponential, fixed, lognormal, pareto"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_mistake_is_answered_with_its_place_and_what_must_hold(case: str) -> None:
    text, line, words = BROKEN[case]
    with pytest.raises(FileError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"fleets/fleet.yaml:{line}:{caught.value.column}: ")


def test_all_mistakes_are_reported_in_the_order_of_the_file() -> None:
    with pytest.raises(FileError) as caught:
        parse("budget: 16\nclasses:\n- name: a\n  arrivals: 3\n  work: 4\n- name: b\n  widths: 0\n")
    lines = str(caught.value).splitlines()
    assert [line.split(":")[1] for line in lines] == ["1", "4", "5", "6", "6", "7"]


def test_the_example_is_a_fleet_and_speaks_of_every_kind_of_class() -> None:
    found = read_fleet_file(EXAMPLE)
    assert found.usd_per_gpu_hour is not None
    assert sum(one.load_gpus for one in found.classes) < found.budget_gpus
    assert any(len(one.phases) > 1 and one.restart_hours > 0 for one in found.classes)
    assert any(isinstance(one.job.speedup, Table) for one in found.classes)


def test_every_key_is_documented() -> None:
    text = DOCUMENTATION.read_text(encoding="utf-8")
    for key in (*FLEET_KEYS, *CLASS_KEYS, *BUDGET_KEYS, *PRICE_KEYS, *STREAM_KEYS):
        assert f"`{key}`" in text, key


@given(st.data())
@settings(deadline=None)
def test_a_damaged_fleet_file_is_a_fleet_or_a_mistake_of_the_file(data: st.DataObject) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = start + data.draw(st.integers(0, 8))
        snippet = data.draw(st.sampled_from([" ", "\n", ":", "-", "{", "}", "[", "0", "/", "usd", "%", ""]))
        text = text[:start] + snippet + text[end:]
    refusal, found = outcome(text)
    if found is None:
        assert re.match(rf"{re.escape(str(EXAMPLE))}:\d+:\d+: ", refusal)
    else:
        assert found.classes
        assert found.budget_gpus > 0


def outcome(text: str) -> tuple[str, FleetFile | None]:
    try:
        return "", parse_fleet(text, path=EXAMPLE)
    except FileError as error:
        return str(error), None
