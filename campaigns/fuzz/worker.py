"""The process in which inputs are tried: reads their numbers and answers with outcomes, as lines of JSON.

A process of its own, because what hangs in compiled code or takes all memory can only be ended from outside.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import sys
import traceback
from pathlib import Path
from typing import IO

from campaigns.fuzz import seeds
from campaigns.fuzz.inputs import PROGRESS, Case, case, valid_files
from campaigns.fuzz.verdict import Outcome

MEMORY_BYTES = 6 << 30
"""Address space of the process, most of which its libraries only reserve."""
WARM = (
    ("backtest", "job.yaml", "--starts", "1", "--policy", "on-demand"),
    ("backtest", "wide.yaml", "--starts", "1", "--policy", "on-demand"),
    ("plan", "job.yaml"),
    ("plan", "soft.yaml"),
    ("budget", "fleet.yaml", "--frontier"),
    ("budget", "fleet.yaml", "--plot", "out.png"),
    ("simulate", "fleet.yaml", "--jobs", "jobs.csv"),
    ("simulate", "fleet.yaml", "--count", "20", "--policy", "fixed-width"),
    ("speedup", "fit", "speedup.csv", "--group", "model"),
    ("market", "forecast", "market.csv", "--horizon", "2"),
    ("learn", "--state", "learn.json"),
)
"""Valid commands that have machine code made and libraries loaded, which is nobody's hang."""


def main(seed: int) -> None:
    """Try what is asked for until nothing more is asked."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    folder = Path.cwd()
    warm(folder)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    _answer(answers, Outcome(0))
    for line in sys.stdin:
        _answer(answers, tried(case(seed, int(line)), folder))


def tried(made: Case, folder: Path) -> Outcome:
    """Write an input's files and do with them what it says."""
    _fill(folder, made.files)
    if made.target == PROGRESS:
        return _followed(folder / "progress.jsonl")
    return called(made.args)


def called(args: tuple[str, ...]) -> Outcome:
    """Call the command line as the process `slacktide` does, and keep what it printed."""
    from slacktide.cli import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = run(list(args))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            return Outcome(None, out.getvalue(), err.getvalue(), traceback.format_exc(limit=-8))
    return Outcome(code, out.getvalue()[:1_000_000], err.getvalue()[:100_000])


def _followed(path: Path) -> Outcome:
    """Read what a worker said as the back end does: broken lines are counted, never raised."""
    from slacktide.backends.workers.progress import Tail

    try:
        progress = Tail(path, 0.0).progress
        told = 0.0 <= progress.checkpointed_share <= progress.done_share <= 1.0
    except Exception:
        return Outcome(None, trouble=traceback.format_exc(limit=-8))
    return Outcome(0, trouble="" if told else f"shares that cannot be: {progress}")


def warm(folder: Path) -> None:
    """Have machine code made and libraries loaded: what an input takes afterwards is its own."""
    wide = seeds.JOB.replace("1..4", "1..80").replace("6 gpu-hours", "60 gpu-hours")
    _fill(folder, {**valid_files(), "soft.yaml": seeds.OTHER_JOB.encode(), "wide.yaml": wide.encode()})
    for args in WARM:
        outcome = called(args)
        if outcome.code != 0:
            raise RuntimeError(f"a valid input must be taken, got {outcome} for {args}")


def _fill(folder: Path, files: dict[str, bytes]) -> None:
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _answer(answers: IO[str], outcome: Outcome) -> None:
    answers.write(json.dumps(outcome) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
