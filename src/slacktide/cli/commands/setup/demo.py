"""`slacktide demo`: runs a real training job on a replayed spot market in about a minute."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slacktide.cli.shared.output import waiting
from slacktide.cli.shared.run_options import RunOptions, submit_or_resume
from slacktide.cli.shared.run_report import Pictures, settle

if TYPE_CHECKING:
    from collections.abc import Iterator

START = 400
"""A slot of the demo's market with eight days of history before it, and several preemptions before the
deadline."""
SPEED = 600.0

JOB = """\
# Train a small network on one to four workers by a deadline; every worker stands for a GPU.
# 1,080 steps of 0.1 s are 108 s on one worker, which is 18 hours on a clock that runs 600 times as fast.
name: spirals
run: >-
  $SLACKTIDE_PYTHON -m slacktide.demo.train
  --steps 1080 --step-seconds 0.1 --parallel-share 0.95 --checkpoint-every 10
resources:
  accelerators: H100:1..4
work: 18 gpu-hours
speedup: {amdahl: 0.95}
deadline: 9h
restart: 15m
checkpoint: {every: 10m, grace: 2s}
policy: stochastic-horizon
market: synthetic:h100?seed=4&slot=30m&days=21
"""


@click.command()
@click.option(
    "--out", type=click.Path(), default="demo", show_default=True, metavar="FOLDER", help="Output folder."
)
def demo(out: str) -> int:
    """Train a small model in real processes on a replayed spot market, preempted for real, by its deadline.

    Takes about a minute and needs no GPU and no account. Ends with the bill next to on-demand and
    perfect foresight, and a plot and a page of the whole run.
    """
    from slacktide.app.jobs.warm_up import decide_ahead

    folder = Path(out)
    job = _prepare(folder)
    click.echo(
        "A network is trained by one to four processes, each standing for a GPU. The spot market is\n"
        f"replayed {SPEED:.0f} times as fast: 9 hours in 54 seconds. When it takes GPUs away, processes\n"
        f"are killed. The job is {job}.\n"
    )
    with _yardstick(job):
        with waiting("computing the decisions in advance (the first time on a machine this compiles)"):
            decide_ahead(str(job), START)
        return _run(folder, job)


def _run(folder: Path, job: Path) -> int:
    """Run the job and end with its bill."""
    from slacktide.app.jobs.controller import Controller
    from slacktide.app.jobs.setup import Setup
    from slacktide.app.markets.market import MarketSpec
    from slacktide.cli.shared.broken_pipe import steady_output
    from slacktide.cli.shared.live_view import show_live
    from slacktide.cli.shared.signals import StopRequests

    wanted = RunOptions(MarketSpec(start=START))
    # The demo learns into a file of its own: what the user's jobs have learned must not change.
    pictures = Pictures(report=str(folder / "run.html"), plot=str(folder / "run.png"))
    with (
        StopRequests() as stop,
        Controller(folder / "journal.db", Setup(speed=SPEED, learned=folder / "learn.json")) as controller,
    ):
        with steady_output():
            jobs = submit_or_resume(controller, [str(job)], wanted, resume=False)
            show_live(controller, jobs, stop, plain=False)
        stop.over()
        return settle(controller, jobs, pictures, "table")


def _prepare(folder: Path) -> Path:
    """Write the job file; what an earlier demo left behind is cleared away, unless it has not ended."""
    import shutil

    from slacktide.app.journal.journal import unfinished_files
    from slacktide.core.errors import InputError
    from slacktide.journal.store.real_path import runs_of

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--out must be a folder that can be written, got {folder}: {error.strerror}"
        ) from error
    journal, job = folder / "journal.db", folder / "job.yaml"
    if journal.exists():
        if unfinished_files(journal):
            return job  # it resumes with the file that it was started with
        for path in folder.glob("journal.db*"):
            path.unlink()
        shutil.rmtree(runs_of(journal), ignore_errors=True)
    job.write_text(JOB, encoding="utf-8")
    return job


@contextmanager
def _yardstick(job: Path) -> Iterator[None]:
    """Compile what the clairvoyant needs while the job runs, so that the bill does not wait for it."""
    command = [sys.executable, "-m", "slacktide.app.jobs.warm_up", str(job), str(START)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()
