"""Job files: what each key means, and where and how each mistake is answered."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from slacktide.core.errors import FileError, InputError
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.core.types import Phase, PoolChoice
from slacktide.files.job import JOB_KEYS, JobFile, parse_job, read_job_file

NOW = datetime(2030, 5, 1, 12, tzinfo=UTC)
EXAMPLES = Path(__file__).parents[3] / "examples"
DOCUMENTATION = Path(__file__).parents[3] / "docs" / "reference" / "job-file.md"

SMALL = """\
resources: {accelerators: H100:1..8}
work: 40 gpu-hours
deadline: 12h
"""

ANY_OF = """\
resources:
  any_of:
    - {}
work: 40 gpu-hours
deadline: 12h
"""


def parse(text: str) -> JobFile:
    return parse_job(text, path="jobs/job.yaml", now=NOW)


def small(line: str) -> JobFile:
    """Parse the smallest job with one more line, its fourth."""
    return parse(SMALL + line)


def test_the_smallest_job_has_the_documented_defaults() -> None:
    found = parse_job(SMALL, path="small.yaml", now=NOW)
    job = found.job
    assert (job.name, job.work_gpu_hours, job.deadline_hours, job.widths) == (
        "small",
        40,
        12,
        tuple(range(1, 9)),
    )
    assert (job.restart_hours, job.shrink_hours, job.billing) == (0, None, "second")
    assert (job.checkpoint_hours, job.after_deadline) == (math.inf, "stop")
    assert (job.value_usd, job.worthless_after_hours, job.max_cost_usd) == (0, None, None)
    assert job.speedup == Linear()
    assert job.hard
    assert (found.gpu, found.policy, found.market) == ("H100", "auto", None)
    assert (found.run, found.setup, found.workdir, found.envs, found.secrets) == (None, None, None, {}, {})
    assert (found.checkpoint_dir, found.path) == (None, "small.yaml")
    assert found.grace_hours == pytest.approx(30 / 3600)


def test_a_job_may_have_phases() -> None:
    found = parse(
        """\
resources: {accelerators: H100:1..8}
speedup: {power: 0.5}
phases:
  - {work: 10 gpu-hours}
  - {work: 30 gpu-hours, speedup: {amdahl: 0.9}}
deadline: 12h
"""
    )
    assert found.job.phases == (Phase(10.0, Power(0.5)), Phase(30.0, Amdahl(0.9)))
    assert found.job.work_gpu_hours == 40.0


def test_work_and_phases_exclude_one_another() -> None:
    with pytest.raises(FileError, match=r"job.yaml:2:.*work: must be given once, got phases too"):
        small("phases: [{work: 4 gpu-hours}]")


def test_a_job_may_have_no_checkpoints() -> None:
    assert small("checkpoint: none").job.checkpoint_hours == math.inf


def test_a_job_of_a_stream_has_no_deadline() -> None:
    found = parse("resources: {accelerators: H100:1..8}\nwork: 4 gpu-hours\nclass: bert\n")
    assert found.job.deadline_hours == math.inf


def test_a_job_may_say_that_it_has_no_deadline() -> None:
    found = parse("resources: {accelerators: H100:1..8}\nwork: 4 gpu-hours\ndeadline: none\n")
    assert found.job.deadline_hours == math.inf


def test_a_job_says_what_it_is_to_its_fleet() -> None:
    found = small("patience: 90m\npriority: 2.5\nowner: ada@example.org")
    assert (found.patience_hours, found.priority, found.owner) == (1.5, 2.5, "ada@example.org")
    usual = small("")
    assert (usual.patience_hours, usual.priority, usual.owner) == (None, None, "")
    assert (small("patience: never").patience_hours, small("patience: 0s").patience_hours) == (math.inf, 0)


def test_every_key_reaches_its_place() -> None:
    found = parse(
        """\
name: llama-lora
run: python train.py
setup: |
  pip install torch
  nvidia-smi
workdir: .
envs: {EPOCHS: 3, DEBUG: no, HF_HOME: }
secrets: {TOKEN: s3cret}
resources:
  accelerators: H100:{1,2,4}
work: 40 gpu-hours
speedup: {amdahl: 0.97}
deadline: 12h
value: 600 usd
worthless_after: 18h
restart: 4m
shrink: 2m
checkpoint: {dir: ckpt, every: 10m, grace: 1m}
max_cost: $300
billing: slot
policy: auto
market: synthetic:h100
"""
    )
    job = found.job
    assert (job.name, job.widths, job.speedup) == ("llama-lora", (1, 2, 4), Amdahl(0.97))
    assert (job.value_usd, job.worthless_after_hours, job.max_cost_usd, job.billing) == (600, 18, 300, "slot")
    assert (job.restart_hours, job.shrink_hours) == pytest.approx((4 / 60, 2 / 60))
    assert (job.checkpoint_hours, found.grace_hours) == pytest.approx((1 / 6, 1 / 60))
    assert (found.run, found.setup) == ("python train.py", "pip install torch\nnvidia-smi\n")
    assert (found.workdir, found.checkpoint_dir) == (".", "ckpt")
    assert found.envs == {"EPOCHS": "3", "DEBUG": "no", "HF_HOME": None}
    assert found.secrets == {"TOKEN": "s3cret"}
    assert (found.policy, found.market) == ("auto", "synthetic:h100")


def test_secrets_are_not_shown() -> None:
    assert "s3cret" not in repr(small("secrets: {TOKEN: s3cret}"))


@pytest.mark.parametrize(
    ("text", "speedup"),
    [
        ("{amdahl: 0.97}", Amdahl(0.97)),
        ("{linear: {alpha: 0.9, beta: 0.1}}", Linear(0.9, 0.1)),
        ("{linear: {alpha: 0.9}}", Linear(0.9)),
        ("{power: 0.8}", Power(0.8)),
        ("{table: {1: 1, 2: 1.9, 4: 3.4}}", Table.of({1: 1, 2: 1.9, 4: 3.4})),
    ],
)
def test_speedups_have_four_forms(text: str, speedup: Speedup) -> None:
    assert small(f"speedup: {text}").job.speedup == speedup


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("12h", 12),
        ("1d12h", 36),
        ("2030-05-01T18:00:00Z", 6),
        ("2030-05-01T18:00+02:00", 4),
        ("2030-05-01 18:00:00 +02:00", 4),
        ("'2030-05-02T12:00:00Z'", 24),
    ],
)
def test_deadlines_are_durations_or_times_with_a_zone(text: str, hours: float) -> None:
    found = parse(SMALL.replace("12h", text))
    assert found.job.deadline_hours == pytest.approx(hours)


def test_an_absolute_deadline_counts_from_any_zone() -> None:
    now = datetime(2030, 5, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    text = SMALL.replace("12h", "2030-05-01T18:00:00Z")
    assert parse_job(text, now=now).job.deadline_hours == pytest.approx(6)


def test_the_present_is_the_default_of_now() -> None:
    text = SMALL.replace("12h", (datetime.now(UTC) + timedelta(hours=5)).isoformat())
    assert parse_job(text).job.deadline_hours == pytest.approx(5, abs=0.05)


def test_now_needs_a_zone() -> None:
    with pytest.raises(InputError, match="now must have a time zone"):
        parse_job(SMALL, now=datetime(2030, 5, 1))


@pytest.mark.parametrize(
    ("text", "gpu", "widths"),
    [
        ("V100", "V100", (1,)),
        ("{H100: 8}", "H100", (8,)),
        ("{H100: 2..3}", "H100", (2, 3)),
        ("'H100:{2,4}'", "H100", (2, 4)),
    ],
)
def test_accelerators_may_be_text_or_a_mapping(text: str, gpu: str, widths: tuple[int, ...]) -> None:
    found = parse(SMALL.replace("H100:1..8", text))
    assert (found.gpu, found.job.widths) == (gpu, widths)


@pytest.mark.parametrize(
    ("text", "market"),
    [
        ("synthetic:h100", "synthetic:h100"),
        ("synthetic:h100?seed=3&slot=10m", "synthetic:h100?seed=3&slot=10m"),
        ("synthetic", "synthetic"),
        ("synthetic.csv", str(Path("jobs/synthetic.csv"))),
        ("./a:b.csv", str(Path("jobs/a:b.csv"))),
        ("traces/may.csv", str(Path("jobs/traces/may.csv"))),
        ("/data/may.csv", "/data/may.csv"),
        ("a.csv, /data/b.csv,synthetic:h100", f"{Path('jobs/a.csv')},/data/b.csv,synthetic:h100"),
        ("feed:a,b.csv", "feed:a,b.csv"),
    ],
)
def test_a_market_is_a_name_or_a_path_from_the_job_file(text: str, market: str) -> None:
    assert small(f"market: {text}").market == market


@pytest.mark.parametrize(
    "spec",
    [
        "auto",
        "on-demand",
        {"uniform-progress": {"gang": True}},
        {"uniform-progress": None},
        {"deadline-guard": {"inner": {"uniform-progress": {"gang": True}}}},
    ],
)
def test_policies_are_kept_as_written(spec: object) -> None:
    text = str(spec).replace("'", "").replace("None", "").replace("True", "yes")
    assert small(f"policy: {text}").policy == spec


BROKEN: dict[str, tuple[str, int, str]] = {
    # text of the file, line of its first mistake, words of the answer
    "empty": ("", 1, "must name at least resources, work and deadline, got an empty file"),
    "only a comment": ("# nothing\n\n", 1, "got an empty file"),
    "null document": ("---\n", 1, "got an empty file"),
    "only text": ("hello\n", 1, "must be a mapping of keys to values, got a single text"),
    "list": ("\n- a\n- b\n", 2, "must be a mapping of keys to values, got a list"),
    "second document": (SMALL + "---\na: 1\n", 4, "one document, got a second"),
    "tab": (SMALL + "checkpoint:\n\tdir: ckpt\n", 5, "indented with spaces, got a tab"),
    "bracket not closed": (SMALL + "envs: {A: 1\n", 5, "(begun at line 4)"),
    "quote not closed": (SMALL + "name: 'job\n", 5, "(begun at line 4)"),
    "colon in text": (SMALL + "run: echo a: b\n", 4, "quote text that holds ': '"),
    "control character": (SMALL + "name: a\x07b\n", 4, "must be printable, got character"),
    "escape of no character": (SMALL + 'name: "\\UFFFFFFFF"\n', 4, "must be YAML"),
    "escaped NUL": (SMALL + 'run: "a\\0b"\n', 4, "must not hold NUL"),
    "half character": (SMALL + 'run: "\\ud800"\n', 4, "half characters"),
    "alias": (SMALL + "run: *x\n", 4, "must be written out, got an anchor (&) or alias (*)"),
    "anchor": (SMALL + "run: &x hello\n", 4, "must be written out, got an anchor"),
    "python tag": (SMALL + "run: !!python/object/apply:os.getcwd []\n", 4, "must be plain, got a tag (!)"),
    "own tag": (SMALL + "run: !secret x\n", 4, "must be plain, got a tag (!)"),
    "too deep": (SMALL + "envs: " + "[" * 50 + "]" * 50, 4, "nested at most 20 deep"),
    "far too deep": (SMALL + "envs: " + "[" * 50_000, 4, "nested at most 20 deep"),
    "too many values": (SMALL + "envs: [" + "1," * 30_000 + "]", 4, "at most 20000 values, got more"),
    "duplicate key": (SMALL + "work: 50 gpu-hours\n", 4, "given once, got 'work' again after line 2"),
    "duplicate width": (SMALL + "speedup:\n  table:\n    1: 1\n    1: 2\n", 7, "given once, got '1' again"),
    "list as key": (SMALL + "? [a]\n: 1\n", 4, "a key must be a single value, got a list"),
    "unknown key": (SMALL + "dedline: 3h\n", 4, "got 'dedline'; did you mean 'deadline'?"),
    "unknown key inside": (SMALL + "checkpoint:\n  evry: 3h\n", 5, "a key of checkpoint must be one of"),
    "merge key": (SMALL + "<<: {a: 1}\n", 4, "got '<<'"),
    "no work": ("resources: {accelerators: H100}\ndeadline: 12h\n", 1, "work must be given, got nothing"),
    "no deadline": ("\nresources: {accelerators: H100}\nwork: 1 gpuh\n", 2, "deadline must be given"),
    "no resources": ("work: 1 gpuh\ndeadline: 12h\n", 1, "resources must be given"),
    "no accelerators": (
        "work: 1 gpuh\ndeadline: 12h\nresources: {}\n",
        3,
        "resources.accelerators must be given",
    ),
    "resources as text": (
        SMALL.replace("{accelerators: H100:1..8}", "H100"),
        1,
        "resources: must be a mapping",
    ),
    "no such unit of resources": (SMALL.replace("accelerators", "gpus"), 1, "a key of resources must be"),
    "width 0": (SMALL.replace("1..8", "0..8"), 1, "a width must be in 1..4096, got '0'"),
    "width downwards": (SMALL.replace("1..8", "8..1"), 1, "must go upwards, got '8..1'"),
    "width far too great": (SMALL.replace("1..8", "1..999999999"), 1, "a width must be in 1..4096"),
    "width with a hyphen": (SMALL.replace("1..8", "1-8"), 1, "must be written 8, 1..8 or {1,2,4,8}"),
    "accelerators as a list": (
        SMALL.replace("H100:1..8", "[H100, A100]"),
        1,
        "must be a single value, got a list",
    ),
    "two accelerators": (SMALL.replace("H100:1..8", "{H100: 1, A100: 1}"), 1, "got a mapping"),
    "set inside braces": (SMALL.replace("1..8", "{1,2}"), 1, "or quote text that holds"),
    "work without unit": (
        SMALL.replace("40 gpu-hours", "40"),
        2,
        ": work must be a number with its unit",
    ),
    "work of nothing": (
        SMALL.replace("40 gpu-hours", "0 gpu-hours"),
        2,
        "work: must be > 0, got '0 gpu-hours'",
    ),
    "work null": (SMALL.replace("40 gpu-hours", ""), 2, "work: must be a single value, got nothing"),
    "work as mapping": (SMALL.replace("40 gpu-hours", "{a: 1}"), 2, "must be a single value, got a mapping"),
    "deadline without unit": (SMALL.replace("12h", "12"), 3, "write 12h for hours or 12m for minutes"),
    "deadline sexagesimal": (SMALL.replace("12h", "12:30"), 3, "got '12:30'; write 12h30m"),
    "deadline negative": (SMALL.replace("12h", "-2h"), 3, "must not be negative"),
    "worth of no deadline": (
        SMALL.replace("12h", "none") + "value: 5 usd\nworthless_after: 3h\n",
        5,
        "worthless_after: must come with a deadline, got none",
    ),
    "patience without unit": (SMALL + "patience: 3\n", 4, "got '3'; write 3h for hours or 3m for minutes"),
    "priority zero": (
        SMALL + "priority: 0\n",
        4,
        "priority: must be in 0.001..1000, got '0'; 1 is a usual job",
    ),
    "priority word": (SMALL + "priority: high\n", 4, "priority: must be a number, got 'high'"),
    "owner of signs": (SMALL + "owner: 'a;b'\n", 4, "owner: must be 1 to 100 characters of a name"),
    "deadline now": (SMALL.replace("12h", "0h"), 3, "deadline: must be > 0, got '0h'"),
    "deadline past": (SMALL.replace("12h", "2030-05-01T10:30Z"), 3, "must be in the future"),
    "deadline naive": (SMALL.replace("12h", "2030-05-02T10:30:00"), 3, "must have a zone"),
    "deadline a day": (SMALL.replace("12h", "2030-05-02"), 3, "must have a zone"),
    "deadline no date": (SMALL.replace("12h", "2030-13-41T10:30Z"), 3, "must be a time such as"),
    "deadline far away": (SMALL.replace("12h", "9999-12-31T23:59:59Z"), 3, "within ten years"),
    "name with a slash": (SMALL + "name: a/b\n", 4, "name: must be 1 to 63 letters"),
    "name as list": (SMALL + "name:\n  - a\n", 5, "name: must be a single value, got a list"),
    "run blank": (SMALL + "run: ' '\n", 4, "run: must not be empty"),
    "run null": (SMALL + "run:\n", 4, "run: must be a single value, got nothing"),
    "envs as list": (SMALL + "envs: [A=1]\n", 4, "envs: must be a mapping of keys to values, got a list"),
    "bad variable": (SMALL + "envs:\n  A: 1\n  2B: 1\n", 6, "a variable must be letters"),
    "variable as list": (SMALL + "envs:\n  A: [1]\n", 5, "the value of variable A must be text, got a list"),
    "speedup as number": (SMALL + "speedup: 0.9\n", 4, "speedup: must be {amdahl: 0.97}"),
    "two speedups": (SMALL + "speedup: {amdahl: 1, power: 1}\n", 4, "got amdahl, power"),
    "unknown speedup": (SMALL + "speedup: {ahmdal: 1}\n", 4, "did you mean 'amdahl'?"),
    "amdahl beyond 1": (SMALL + "speedup: {amdahl: 97}\n", 4, "parallel share must be in [0, 1], got 97"),
    "amdahl as text": (SMALL + "speedup: {amdahl: 97%}\n", 4, "speedup.amdahl: must be a number, got '97%'"),
    "power of infinity": (SMALL + "speedup: {power: .inf}\n", 4, "must be a number, got '.inf'"),
    "power of 1e999": (SMALL + "speedup: {power: 1e999}\n", 4, "must be a number, got '1e999'"),
    "linear downwards": (SMALL + "speedup: {linear: {alpha: -1}}\n", 4, "alpha must be > 0"),
    "linear key": (SMALL + "speedup:\n  linear:\n    alfa: 1\n", 6, "did you mean 'alpha'?"),
    "linear overflow": (
        SMALL + "speedup: {linear: {alpha: 1e308}}\n",
        4,
        "alpha and beta must be <= 1e+12, got 1e+308 and 0",
    ),
    "no table": (SMALL + "speedup: {table: }\n", 4, "must be a mapping of widths to speedups, got nothing"),
    "empty table": (SMALL + "speedup: {table: {}}\n", 4, "widths to speedups, got an empty mapping"),
    "table of width 0": (SMALL + "speedup:\n  table:\n    1: 1\n    0: 1\n", 7, "a width must be in 1..4096"),
    "table of width 1.5": (SMALL + "speedup:\n  table:\n    1.5: 1\n", 6, "whole number of GPUs, got '1.5'"),
    "table of rate 0": (
        SMALL + "speedup:\n  table:\n    1: 1\n    2: 0\n",
        7,
        "speedup at 2 GPUs must be > 0",
    ),
    "table twice": (SMALL + "speedup: {table: {1: 1, 01: 1}}\n", 4, "each width must come once"),
    "value without unit": (SMALL + "value: 600\nworthless_after: 18h\n", 4, "value: an amount of money must"),
    "value alone": (SMALL + "value: 600 usd\n", 4, "must come with worthless_after"),
    "worthless_after alone": (SMALL + "worthless_after: 18h\n", 4, "must come with value"),
    "worthless too early": (
        SMALL + "value: $6\nworthless_after: 2h\n",
        5,
        "must be >= deadline (12h), got 2h",
    ),
    "restart without unit": (SMALL + "restart: 4\n", 4, "write 4h for hours or 4m for minutes"),
    "shrink above restart": (SMALL + "restart: 4m\nshrink: 6m\n", 5, "must be <= restart (4m), got 6m"),
    "shrink alone": (SMALL + "shrink: 6m\n", 4, "must be <= restart (0s), got 6m"),
    "checkpoint as text": (SMALL + "checkpoint: ckpt\n", 4, "checkpoint: must be a mapping"),
    "checkpoint every 10": (SMALL + "checkpoint:\n  every: 10\n", 5, "checkpoint.every: a duration must"),
    "max_cost of nothing": (SMALL + "max_cost: $0\n", 4, "max_cost: must be > 0, got '$0'"),
    "max_cost in euros": (SMALL + "max_cost: 300 eur\n", 4, "max_cost: an amount of money must"),
    "billing by the hour": (SMALL + "billing: hour\n", 4, "billing must be one of the known names"),
    "unknown policy": (SMALL + "policy: uniform-progres\n", 4, "did you mean 'uniform-progress'?"),
    "unknown parameter": (SMALL + "policy: {uniform-progress: {gank: 1}}\n", 4, "did you mean 'gang'?"),
    "two policies": (SMALL + "policy: {on-demand: {}, uniform-progress: {}}\n", 4, "must be one name"),
    "policy as list": (SMALL + "policy: [on-demand]\n", 4, "policy: must be a name, module:Class or"),
    "policy null": (SMALL + "policy:\n", 4, "policy: must be a name, module:Class or"),
    "parameters as text": (SMALL + "policy: {uniform-progress: gang}\n", 4, "parameters must be a mapping"),
    "auto with parameters": (SMALL + "policy: {auto: {a: 1}}\n", 4, "auto takes no parameters"),
    "any_of as mapping": (
        SMALL.replace("accelerators: H100:1..8", "any_of: {a: 1}"),
        1,
        "resources.any_of: must be a list such as [{accelerators: H100:1..8}], got a mapping",
    ),
    "any_of of nothing": (
        SMALL.replace("accelerators: H100:1..8", "any_of: []"),
        1,
        "resources.any_of: must be a list such as [{accelerators: H100:1..8}], got an empty list",
    ),
    "a choice as text": (ANY_OF.format("H100:8"), 3, "resources.any_of[1]: must be a mapping"),
    "a choice without accelerators": (
        ANY_OF.format("{infra: aws}"),
        3,
        "resources.any_of[1].accelerators must be given, got nothing",
    ),
    "a choice with a wrong key": (
        ANY_OF.format("{accelerators: H100, zone: a}"),
        3,
        "a key of resources.any_of[1] must be one of",
    ),
    "a choice of width 0": (ANY_OF.format("{accelerators: H100:0..2}"), 3, "a width must be in 1..4096"),
    "a choice of no speed": (
        ANY_OF.format("{accelerators: H100, speed: 0}"),
        3,
        "resources.any_of[1].speed: must be > 0 and <= 1000, got '0'; 1 is the reference GPU",
    ),
    "a choice of negative speed": (ANY_OF.format("{accelerators: H100, speed: -1}"), 3, "must be > 0"),
    "a choice of speed in words": (
        ANY_OF.format("{accelerators: H100, speed: fast}"),
        3,
        "resources.any_of[1].speed: must be a number, got 'fast'",
    ),
    "a choice in an empty place": (
        ANY_OF.format("{accelerators: H100, infra: aws//us-east-1a}"),
        3,
        "resources.any_of[1].infra: must be a cloud, region or zone, such as gcp/us-central1-a",
    ),
    "infra as list": (
        SMALL.replace("H100:1..8", "H100:1..8, infra: [aws]"),
        1,
        "resources.infra: must be a single value, got a list",
    ),
    "checkpoint size without unit": (
        SMALL + "checkpoint: {size: 50}\n",
        4,
        "checkpoint.size: a size must be a number with its unit, such as '50 GB' or '800 MB', got '50'; "
        "write '50 GB'",
    ),
    "market between commas": (SMALL + "market: a.csv,,b.csv\n", 4, "market: a market must be named between"),
    "market as list": (SMALL + "market: [a]\n", 4, "market: must be a single value, got a list"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_mistake_is_answered_with_its_place_and_what_must_hold(case: str) -> None:
    text, line, words = BROKEN[case]
    with pytest.raises(FileError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"jobs/job.yaml:{line}:{caught.value.column}: ")


def test_the_column_is_that_of_the_value() -> None:
    with pytest.raises(FileError) as caught:
        small("checkpoint: {dir: ckpt, every: 10}")
    assert (caught.value.line, caught.value.column) == (4, 32)


def test_all_mistakes_are_reported_in_the_order_of_the_file() -> None:
    with pytest.raises(FileError) as caught:
        parse("work: 40\ndeadline: 12\nresources: {accelerators: H100}\nnme: x\nrestart: 1m\nshrink: 2m\n")
    lines = str(caught.value).splitlines()
    assert [line.split(":")[1] for line in lines] == ["1", "2", "4", "6"]


def test_a_bad_number_is_not_complained_about_twice() -> None:
    with pytest.raises(FileError) as caught:
        parse(SMALL.replace("12h", "12") + "value: $600\nworthless_after: 18h\nrestart: 4\nshrink: 2m\n")
    assert len(str(caught.value).splitlines()) == 2


def test_a_file_of_nothing_but_mistakes_gets_a_short_answer() -> None:
    with pytest.raises(FileError) as caught:
        parse("".join(f"key{number}: 1\n" for number in range(2_000)))
    assert len(str(caught.value).splitlines()) == 20


def test_a_byte_order_mark_and_windows_line_ends_are_read() -> None:
    assert parse("\ufeff" + SMALL.replace("\n", "\r\n")).job.work_gpu_hours == 40


def test_a_file_is_read_from_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "my-job.yaml"
    path.write_text(SMALL + "market: may.csv\n", encoding="utf-8")
    found = read_job_file(path)
    assert (found.job.name, found.market, found.path) == ("my-job", str(tmp_path / "may.csv"), str(path))


def test_a_file_name_that_cannot_name_a_job_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "my job.yaml"
    path.write_text(SMALL, encoding="utf-8")
    assert read_job_file(path).job.name == "job"


def test_a_missing_file_and_a_folder_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"none\.yaml: must be a readable file, got: No such file"):
        read_job_file(tmp_path / "none.yaml")
    with pytest.raises(FileError, match="must be a readable file, got: Is a directory"):
        read_job_file(tmp_path)
    with pytest.raises(FileError, match="must be a readable file"):
        read_job_file("a\0b")


def test_bytes_that_are_no_text_are_refused_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"work: 1 gpuh\nname: \xc3\xa9\xff\n")
    with pytest.raises(FileError, match="must be UTF-8 text, got byte 0xff") as caught:
        read_job_file(path)
    assert (caught.value.line, caught.value.column) == (2, 8)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(FileError, match="must be at most 1000000 bytes, got more"):
        read_job_file(path)
    with pytest.raises(FileError, match="must be at most 1000000 characters"):
        parse("#" * 1_000_001)


def test_the_examples_are_valid() -> None:
    jobs = [path for path in EXAMPLES.glob("*.yaml") if "\nbudget:" not in path.read_text()]
    examples = {path.stem: read_job_file(path) for path in jobs}
    assert examples.keys() >= {"llama-lora", "soft-deadline", "one-v100", "discrete-widths", "many-pools"}
    assert all(found.job.name == stem for stem, found in examples.items())
    assert examples["llama-lora"].job.hard
    assert not examples["soft-deadline"].job.hard
    assert examples["one-v100"].job.widths == (1,)
    assert examples["discrete-widths"].job.widths == (1, 2, 4, 8)
    assert [choice.gpu for choice in examples["many-pools"].job.pools] == ["H100", "V100"]


def test_every_key_is_documented() -> None:
    text = DOCUMENTATION.read_text(encoding="utf-8")
    known = (*JOB_KEYS, "accelerators", "dir", "every", "grace", "size", "any_of", "infra", "speed")
    missing = [key for key in known if f"`{key}`" not in text]
    assert not missing


def test_a_file_says_whether_its_hours_depend_on_when_it_is_read() -> None:
    text = "resources: {accelerators: H100:1..2}\nwork: 4 gpu-hours\n"
    assert not parse_job(f"{text}deadline: 12h\n").dated
    assert parse_job(f"{text}deadline: 2030-05-01T18:00:00Z\n", now=datetime(2030, 5, 1, tzinfo=UTC)).dated


def test_checkpoints_may_go_to_a_store() -> None:
    found = small("checkpoint: {dir: ckpt, url: s3://bucket/a, keep: 3}")
    assert (found.checkpoint_url, found.checkpoint_keep) == ("s3://bucket/a", 3)
    assert (small("").checkpoint_url, small("checkpoint: {url: gs://bucket}").checkpoint_keep) == (None, 2)


STORES = {
    "checkpoint: {url: ckpt}": r":4:19: checkpoint.url: must be a URL such as s3://bucket/folder",
    "checkpoint: {url: s3://key:hunter2@bucket}": r":4:19: checkpoint.url: must hold no credentials",
    "checkpoint: {url: gs://bucket, keep: 0}": r":4:38: checkpoint.keep: must be a whole number >= 1",
    "checkpoint: {keep: 2}": r":4:20: checkpoint.keep: must come with url",
    "checkpoint: {url: gs://bucket, shared: true}": r":4:19: checkpoint.url: must not come with 'shared",
}


@pytest.mark.parametrize("text", STORES)
def test_mistakes_about_a_store_have_their_place(text: str) -> None:
    with pytest.raises(FileError, match=STORES[text]) as caught:
        small(text)
    assert "hunter2" not in str(caught.value)


def test_without_a_word_of_checkpoints_a_job_has_none() -> None:
    assert small("").job.checkpoint_hours == math.inf
    assert small("checkpoint: {dir: ckpt}").job.checkpoint_hours == 0.0
    assert small("checkpoint: {dir: ckpt, shared: true}").checkpoint_shared
    with pytest.raises(FileError, match=r"checkpoint.shared: must be true or false, got 'maybe'"):
        small("checkpoint: {shared: maybe}")


def test_a_job_may_never_hang() -> None:
    assert small("hang_after: never").hang_after_hours == math.inf
    with pytest.raises(FileError, match=r"hang_after: .*got 'soon'; or write 'never'"):
        small("hang_after: soon")


def test_progress_may_come_from_the_log() -> None:
    assert small(r"progress: {log: 'step (\d+)/(\d+)'}").progress_log == r"step (\d+)/(\d+)"
    assert small(r"progress: {log: '(\d+)%'}").progress_log == r"(\d+)%"


@pytest.mark.parametrize(
    ("pattern", "answer"),
    [
        ("step (", "must be a regular expression"),
        (r"step \d+", r"must have one group .* or two .* got 0"),
        (r"(\d+)/(\d+)/(\d+)", "got 3"),
        (r"(a+)+b", "must not repeat a group"),
        (r"((?:a|a)*)b", "must not repeat a group"),
        (r"(\d{1,9}){1,9}", "must not repeat a group"),
        (r"(\d+)(?=x)", "must not use lookaround"),
        (r"(\d+)/\1", "must not use lookaround, backreferences"),
        (r"(.*).*.*.*.*x", "at most 4 repeats, got 5"),
        ("(x" + "y" * 300 + ")", "at most 200 characters"),
    ],
)
def test_patterns_that_cannot_be_used_are_refused(pattern: str, answer: str) -> None:
    with pytest.raises(FileError, match=f"progress.log: .*{answer}"):
        small(f"progress: {{log: '{pattern}'}}")


def test_after_a_hard_deadline_a_job_stops_unless_its_file_says_otherwise() -> None:
    assert small("").job.after_deadline == "stop"
    assert small("value: 9 usd\nworthless_after: 90h").job.after_deadline == "finish-fast"
    assert small("after_deadline: finish-cheaply").job.after_deadline == "finish-cheaply"
    with pytest.raises(FileError, match="after_deadline must be one of the known names, got 'wait'"):
        small("after_deadline: wait")


def test_a_job_may_use_any_of_several_pools() -> None:
    found = parse(
        """\
resources:
  any_of:
    - {accelerators: H100:1..4, infra: gcp/us-central1-a}
    - {accelerators: "A100:{2,8}", speed: 0.5}
work: 40 gpu-hours
deadline: 12h
checkpoint: {every: 10m, size: 50 GB}
"""
    )
    assert found.job.pools == (
        PoolChoice("H100", "gcp/us-central1-a", (1, 2, 3, 4), 1.0),
        PoolChoice("A100", "", (2, 8), 0.5),
    )
    assert (found.gpu, found.job.widths, found.job.checkpoint_gb) == ("H100", (1, 2, 3, 4, 8), 50.0)


def test_the_gpu_of_a_job_is_the_one_of_speed_1() -> None:
    text = "[{accelerators: H100, speed: 2}, {accelerators: A100}]"
    assert parse(SMALL.replace("accelerators: H100:1..8", f"any_of: {text}")).gpu == "A100"
    text = "[{accelerators: H100, speed: 2}, {accelerators: A100, speed: 1.5}]"
    assert parse(SMALL.replace("accelerators: H100:1..8", f"any_of: {text}")).gpu == "H100"


def test_choices_have_what_stands_beside_them() -> None:
    text = "accelerators: H100:1..8, infra: gcp, any_of: [{infra: us-east5}, {accelerators: A100, speed: .5}]"
    assert parse(SMALL.replace("accelerators: H100:1..8", text)).job.pools == (
        PoolChoice("H100", "us-east5", tuple(range(1, 9))),
        PoolChoice("A100", "gcp", (1,), 0.5),
    )


def test_one_type_may_be_wanted_in_one_place() -> None:
    found = parse(SMALL.replace("H100:1..8", "H100:1..8, infra: gcp/us-central1"))
    assert found.job.pools == (PoolChoice("H100", "gcp/us-central1", tuple(range(1, 9))),)
    assert parse(SMALL).job.pools == ()


def test_all_mistakes_of_choices_are_reported_together() -> None:
    with pytest.raises(FileError) as caught:
        parse(ANY_OF.format("{accelerators: H100, speed: 0}\n    - {accelerators: H100:0, infra: ''}"))
    assert len(str(caught.value).split("\n")) == 3
