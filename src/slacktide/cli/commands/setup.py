"""Commands for new users: `doctor`, `examples`, `demo`, and shell `completion`."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import echo_json, say, waiting
from slacktide.cli.shared.run_options import RunOptions, submit_or_resume
from slacktide.cli.shared.run_report import settle
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "slacktide"
VARIABLE = "_SLACKTIDE_COMPLETE"  # the environment variable with which a shell requests completions
START = 400
"""The demo's slot of its market: there are eight days of history before it, and several preemptions before
the deadline."""
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
@common.output_option("table", "json")
def doctor(output: str) -> int:
    """Look for what Slacktide needs on this machine, and say how to get what is missing.

    A line is `ok`, `missing`, or `optional`: only a part of Slacktide needs it. Nothing is installed, started
    or sent, and no credential is read. Exits with 1 when something is missing.
    """
    from slacktide.app.setup.doctor import examine
    from slacktide.report.text.tables.grid import Grid, as_text, left

    findings = examine()
    if output == "json":
        echo_json({"findings": [asdict(finding) for finding in findings]})
    else:
        rows = tuple((finding.name, finding.state, finding.found, finding.remedy) for finding in findings)
        say(as_text(Grid(left("what", "state", "found", "remedy"), rows)))
    return 1 if any(finding.state == "missing" for finding in findings) else 0


@click.command()
@click.argument("name", required=False)
@click.argument("folder", type=click.Path(file_okay=False), default=".", required=False)
@common.output_option("text", "json")
def examples(name: str | None, folder: str, output: str) -> None:
    """List the examples, or copy the one called NAME into FOLDER (default: the current one).

    Nothing is overwritten. An example is one YAML file, or a folder with a job file in it.
    """
    from slacktide.app.setup.examples import list_examples

    if name is not None:
        _copy_example(name, folder, output)
    elif output == "json":
        echo_json([{"name": example.name, "summary": example.summary} for example in list_examples()])
    else:
        known = list_examples()
        width = max(len(example.name) for example in known)
        for example in known:
            click.echo(f"{click.style(f'{example.name:<{width}}', bold=True)}  {example.summary}")
        click.echo("\n`slacktide examples NAME` copies one into this folder", err=True)


def _copy_example(name: str, folder: str, output: str) -> None:
    from slacktide.app.setup.examples import copy_example, file_of

    written = copy_example(name, folder)
    if output == "json":
        echo_json({"name": name, "written": [str(path) for path in written]})
        return
    for path in written:
        click.echo(f"wrote {path}")
    click.echo(f"next: {_next_command(file_of(written[0]))}", err=True)


def _next_command(path: Path) -> str:
    if path.suffix == ".md":
        return f"read {path}"
    text = path.read_text(encoding="utf-8")
    verb = "plan" if "\nbudget:" not in text else "simulate" if "\nmarket:" in text else "budget"
    return f"slacktide {verb} {path}"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--install", is_flag=True, help="Write it to where the shell finds it.")
@click.pass_context
def completion(context: click.Context, shell: str, install: bool) -> None:
    """Print the script that completes commands and options in SHELL, or install it.

    For one session: eval "$(slacktide completion bash)", the same for zsh, or slacktide completion fish |
    source.
    """
    from slacktide.app.setup.completion import install_script, next_step

    script = _completion_script(shell, context.find_root().command)
    if not install:
        click.echo(script)
        return
    path = install_script(shell, script)
    say(f"wrote {path}")
    say(next_step(shell, path), err=True)


def _completion_script(shell: str, root: click.Command) -> str:
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    completer = kind(root, {}, NAME, VARIABLE)
    # `completer.source()` would start a shell to find out its version.
    return completer.source_template % completer.source_vars()


@click.command()
@click.option("--out", type=click.Path(), default="demo", metavar="FOLDER", help="Output folder.")
def demo(out: str) -> int:
    """Train a small model in real processes on a replayed spot market, preempted for real, by its deadline.

    Takes about a minute and needs no GPU and no account. Ends with the bill next to on-demand and
    perfect foresight, and a plot and a page of the whole run.
    """
    from slacktide.app.jobs.warm_up import decide_ahead

    folder = Path(out)
    job = _prepare_demo(folder)
    click.echo(
        "A network is trained by one to four processes, each standing for a GPU. The spot market is\n"
        f"replayed {SPEED:.0f} times as fast: 9 hours in 54 seconds. When it takes GPUs away, processes\n"
        f"are killed. The job is {job}.\n"
    )
    with _yardstick(job):
        with waiting("computing the decisions in advance (the first time on a machine this compiles)"):
            decide_ahead(str(job), START)
        return _run_demo(folder, job)


def _run_demo(folder: Path, job: Path) -> int:
    from slacktide.app.jobs.controller import Controller
    from slacktide.app.jobs.setup import Setup
    from slacktide.app.markets.market import MarketSpec
    from slacktide.cli.shared.interruptions import StopRequests, steady_output
    from slacktide.cli.shared.screens import show_live

    wanted = RunOptions(MarketSpec(start=START))
    # The demo learns into its own file, so that the user's learned state does not change.
    printed = {"output": "table", "report": str(folder / "run.html"), "plot": str(folder / "run.png")}
    with (
        StopRequests() as stop,
        Controller(folder / "journal.db", Setup(speed=SPEED, learned=folder / "learn.json")) as controller,
    ):
        with steady_output():
            jobs = submit_or_resume(controller, [str(job)], wanted, resume=False)
            show_live(controller, jobs, stop, plain=False)
        stop.over()
        return settle(controller.journal, jobs, printed, stuck=controller.without_market())


def _prepare_demo(folder: Path) -> Path:
    """Write the job file, and remove the journal of an earlier demo; one that has not ended is resumed."""
    import shutil

    from slacktide.app.journal.journal import unfinished_files
    from slacktide.journal.store.paths import runs_of

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        must = "--out must be a folder that can be written"
        raise InputError(f"{must}, got {folder}: {error.strerror}") from error
    journal, job = folder / "journal.db", folder / "job.yaml"
    if journal.exists():
        if unfinished_files(journal):
            return job  # the earlier demo resumes with its own job file
        for path in folder.glob("journal.db*"):
            path.unlink()
        shutil.rmtree(runs_of(journal), ignore_errors=True)
    job.write_text(JOB, encoding="utf-8")
    return job


@contextmanager
def _yardstick(job: Path) -> Iterator[None]:
    """Compile the clairvoyant's code while the job runs, so that the bill does not wait for that."""
    command = [sys.executable, "-m", "slacktide.app.jobs.warm_up", str(job), str(START)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()
