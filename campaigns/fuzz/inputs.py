"""Inputs: what is written into a folder, and what the command line is asked to do with it."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from campaigns.fuzz import mutations, seeds
from campaigns.fuzz.options import arguments

PROGRESS = "progress"
"""The target that is no command: what a job's worker appends, read as the back end reads it."""


class Case(NamedTuple):
    """One input."""

    target: str
    args: tuple[str, ...]
    """What follows `slacktide` on the command line."""
    files: dict[str, bytes]


@lru_cache(maxsize=4)
def case(seed: int, number: int) -> Case:
    """Return an input by its number; the same seed and number make the same one."""
    chance = random.Random(f"{seed}:{number}")
    target = chance.choices(list(TARGETS), [weight for weight, _ in TARGETS.values()])[0]
    args, files = TARGETS[target][1](chance)
    return Case(target, tuple(args), {**valid_files(), **files})


@lru_cache(maxsize=1)
def valid_files() -> dict[str, bytes]:
    """Return the files that every input finds beside its own."""
    texts = {
        "job.yaml": seeds.JOB, "fleet.yaml": seeds.FLEET, "speedup.csv": seeds.SPEEDUPS,
        "jobs.csv": seeds.JOBS, "market.csv": seeds.market(), "learn.json": seeds.learned(),
    }  # fmt: skip
    return {name: text.encode() for name, text in texts.items()}


Made = tuple[list[str], dict[str, bytes]]


def _job(chance: random.Random) -> Made:
    source = chance.choice((seeds.JOB, seeds.JOB, seeds.OTHER_JOB))
    ways = (
        ["backtest", "job.yaml", "--starts", "1", "--policy", "on-demand"],
        ["backtest", "job.yaml", "--starts", "2", "--policy", "maximal-spot,uniform-progress,ahanp"],
        ["plan", "job.yaml"],
        ["submit", "job.yaml", "--journal", "no-journal.db", "--no-wait"],
    )
    output = ["-o", "json"] if chance.random() < 0.3 else []
    return [*chance.choices(ways, (20, 6, 1, 4))[0], *output], {"job.yaml": mutations.text(source, chance)}


def _fleet(chance: random.Random) -> Made:
    ways = (
        ["budget", "fleet.yaml"],
        ["budget", "fleet.yaml", "--frontier", "-o", "csv"],
        ["budget", "fleet.yaml", "--response", "2h", "-o", "json"],
        ["simulate", "fleet.yaml", "--count", "20", "--policy", "fixed-width", "-o", "json"],
        ["simulate", "fleet.yaml", "--count", "12", "--policy", "equi,fifo", "-o", "csv"],
    )
    return list(chance.choice(ways)), {"fleet.yaml": mutations.text(seeds.FLEET, chance)}


def _shown(name: str, chance: random.Random) -> list[str]:
    """Return a way to use a market file; most only look at it."""
    ways = (
        ["market", "show", name],
        ["market", "show", name, "-o", "json"],
        ["market", "import", name, "out.csv", "--gaps", "hold", "--sort", "--duplicates", "last", "--force"],
        ["market", "forecast", name, "--forecaster", "seasonal", "--horizon", "3"],
        ["backtest", "job.yaml", "--market", name, "--starts", "1", "--policy", "on-demand"],
    )
    return list(chance.choices(ways, (4, 2, 2, 1, 2))[0])


def _table(chance: random.Random) -> Made:
    return _shown("table.csv", chance), {"table.csv": mutations.text(seeds.market(), chance)}


def _json_market(chance: random.Random) -> Made:
    source = chance.choice((seeds.skypilot(), seeds.history()))
    return _shown("v100.json", chance), {"v100.json": mutations.tree(source, chance)}


def _events(chance: random.Random) -> Made:
    return _shown("events.csv", chance), {"events.csv": mutations.text(seeds.EVENTS, chance)}


def _packed(chance: random.Random) -> Made:
    if chance.random() < 0.5:
        content = mutations.damaged(seeds.packed(), chance)
    else:
        content = gzip.compress(mutations.text(seeds.market(), chance), mtime=0)
    return _shown("table.csv.gz", chance), {"table.csv.gz": content}


def _parquet(chance: random.Random) -> Made:
    content = mutations.damaged(seeds.parquet(), chance) if chance.random() < 0.4 else _other_parquet(chance)
    return _shown("table.parquet", chance), {"table.parquet": content}


def _other_parquet(chance: random.Random) -> bytes:
    """Return a well-formed Parquet file of which a column has another type, name or value."""
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(io.BytesIO(seeds.parquet()))
    at = chance.randrange(table.num_columns)
    name, old = table.column_names[at], table.column(at).to_pylist()
    columns: tuple[Callable[[], Any], ...] = (
        lambda: pa.array([None] * len(old), pa.int64()),
        lambda: pa.array([chance.choice(mutations.WORDS)] * len(old)),
        lambda: pa.array([chance.randrange(-(2**63), 2**63) for _ in old], pa.timestamp("us", tz="UTC")),
        lambda: pa.array([chance.randrange(-(2**50), 2**50) for _ in old], pa.timestamp("s")),
        lambda: pa.array([chance.randrange(2**60) for _ in old], pa.timestamp("ns")),
        lambda: pa.array([float("nan")] * len(old)),
        lambda: pa.array([chance.choice((1e308, -1.0, 1e9, 0.0)) for _ in old]),
        lambda: pa.array([[1]] * len(old)),
        lambda: pa.array([b"\xff"] * len(old)),
        lambda: pa.array([True] * len(old)),
    )
    changed = table.set_column(at, chance.choice((name, name, name, "other")), chance.choice(columns)())
    out = io.BytesIO()
    parquet.write_table(changed.slice(0, chance.choice((0, 1, 2, len(old)))), out)
    return out.getvalue()


def _speedups(chance: random.Random) -> Made:
    ways = (
        ["speedup", "fit", "speedup.csv", "--group", "model"],
        ["speedup", "fit", "speedup.csv", "--where", "model=bert", "-o", "json"],
        ["budget", "fleet.yaml"],
    )
    return list(chance.choice(ways)), {"speedup.csv": mutations.text(seeds.SPEEDUPS, chance)}


def _recorded(chance: random.Random) -> Made:
    args = ["simulate", "fleet.yaml", "--jobs", "jobs.csv", "--policy", "fixed-width", "-o", "json"]
    return args, {"jobs.csv": mutations.text(seeds.JOBS, chance)}


def _learned(chance: random.Random) -> Made:
    output = ["-o", "json"] if chance.random() < 0.5 else []
    return ["learn", "--state", "learn.json", *output], {
        "learn.json": mutations.tree(seeds.learned(), chance)
    }


def _journal(chance: random.Random) -> Made:
    name = chance.choice(sorted(seeds.journals()))
    command = chance.choice(
        (["jobs"], ["events"], ["cost"], ["cancel", "one"], ["preempt", "one"], ["logs", "one"])
    )
    output = ["-o", "json"] if command[0] in ("jobs", "events", "cost") and chance.random() < 0.5 else []
    return [*command, *output, "--journal", "journal.db"], {
        "journal.db": mutations.damaged(seeds.journals()[name], chance)
    }


def _progress(chance: random.Random) -> Made:
    content = mutations.text(seeds.PROGRESS, chance)
    if chance.random() < 0.4:
        lines = seeds.PROGRESS.splitlines()
        content = b"\n".join(mutations.tree(line, chance) for line in lines) + b"\n"
    return [], {"progress.jsonl": content}


def _options(chance: random.Random) -> Made:
    name = chance.choice(sorted(seeds.journals()))
    return arguments(chance), {"journal.db": seeds.journals()[name]}


TARGETS: dict[str, tuple[int, Callable[[random.Random], Made]]] = {
    "job files": (18, _job),
    "fleet files": (12, _fleet),
    "market tables": (12, _table),
    "market JSON": (8, _json_market),
    "price events": (4, _events),
    "packed tables": (4, _packed),
    "Parquet": (6, _parquet),
    "measured speedups": (6, _speedups),
    "recorded jobs": (5, _recorded),
    "learned states": (6, _learned),
    "journals": (5, _journal),
    PROGRESS: (4, _progress),
    "options": (12, _options),
}
"""What is mutated, how often, and how."""
