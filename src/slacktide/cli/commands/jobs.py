"""Commands about the jobs of a journal: `submit`, `jobs`, `events`, `why`, `logs`, `cost`, `cancel` …"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import NO_CONTROLLER, opened, place_options, warn_without_controller
from slacktide.cli.shared.output import echo_json, is_terminal, line_length, print_rich, say
from slacktide.cli.shared.run_report import fetch_pictures, write_pictures
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from slacktide.app.journal.listing import JobFilter
    from slacktide.app.journal.logs import LogLine
    from slacktide.client.remote import AnyJournal
    from slacktide.report.text.bills.cost_report import CostReport

NOT_TAKEN_IN = 101
NONE_OF_THEM = "no job of this kind"  # printed if there are jobs, but the options select none of them
WIDEST = 100  # sentences are wrapped at this many characters, however wide the terminal is


@click.command()
@click.argument("job", type=click.Path(), metavar="JOB")
@common.policy_option("The policy to run with; default: the controller's choice")
@click.option("--pool", metavar="POOL", help="The pool to run in; default: the cheapest one.")
@common.sight_option()
@click.option("--class", "job_class", metavar="CLASS", help="The job's class in the controller's fleet.")
@click.option("--key", metavar="KEY", help="A name for the request: the same key twice is one job.")
@click.option("--no-wait", is_flag=True, help="Print the key of the request and do not wait.")
@place_options
@common.output_option("text", "json")
def submit(job: str, **given: Any) -> int:
    """Submit JOB, a YAML file, to the controller of a journal, and print the job's id.

    The request goes through the journal, so it is answered once, whatever happens to the controller; while
    none is running it waits there for the next one. Exits with 0 when the job was accepted, 2 or 3 when it
    was refused as bad input or infeasible, and 101 when no controller is running.
    """
    from slacktide.app.jobs.requests import check_key
    from slacktide.app.jobs.submission import Submission
    from slacktide.app.markets.market import MarketSpec
    from slacktide.cli.shared.remote_answers import check_affordable
    from slacktide.client.remote import RemoteJournal

    policy, market = common.parse_policy(given["policy"], job), MarketSpec(pool=given["pool"])
    if given["key"] is not None:
        check_key(given["key"])
    key, job_class = given["key"] or "", given["job_class"] or ""
    submission = Submission.read(
        job, policy=policy, market=market, key=key, sight=given["sight"], job_class=job_class
    )
    with opened(given["journal"], given["server"], create=True) as journal:
        if isinstance(journal, RemoteJournal):
            check_affordable(journal, submission, given)
        key = journal.submit(submission, job_class=job_class)
        taken = None if given["no_wait"] else journal.wait(key)
        alone = taken is None and not journal.in_charge
    if given["output"] == "json":
        echo_json({"key": key, "job": taken})
    else:
        click.echo(taken or key)
    if alone:
        click.echo(f"{NO_CONTROLLER}; the request waits there: `slacktide controller` picks it up", err=True)
    return 0 if taken or given["no_wait"] else NOT_TAKEN_IN


@click.command()
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="In this state; `active`: not ended. Repeatable.",
)
@click.option("--class", "job_class", metavar="CLASS", help="Of this class of a fleet.")
@click.option("--owner", metavar="NAME", help="Of this owner, as the job file names it.")
@click.option("--since", metavar="TIME", help="Submitted since: 2d, or 2026-01-31.")
@click.option("--late", is_flag=True, help="Late, or expected to be.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="The newest N of these.")
@place_options
@common.output_option("table", "json")
def jobs(journal: str | None, server: str | None, output: str, **given: Any) -> None:
    """List the jobs of a journal, as of its last event, with one word for the state of each.

    A running job is `late` if it cannot meet its deadline, `late-expected` if it probably cannot, `at-risk`
    if it may not, and `measuring` until its pace is known. It is `released` if it was stopped cleanly, and
    `unattended` if its controller died: its workers may still run and cost money until a controller is
    started. A `blocked` job cannot continue; the reason is printed, and it can be cancelled.
    """
    from slacktide.app.journal.listing import UNATTENDED
    from slacktide.report.text.tables import jobs as report
    from slacktide.report.text.tables.grid import as_rich

    wanted = _filter(given)
    with opened(journal, server) as read:
        every = read.jobs()
        listed = wanted.kept(every)
        if output == "json":
            echo_json({"jobs": [report.as_json(job) for job in listed]})
        elif is_terminal() and listed:
            print_rich(as_rich(report.table_of(listed), caption=report.note(listed)))
        else:
            say(report.text(listed) if listed or not every else NONE_OF_THEM)
        for job in listed:
            if job.blocked:
                say(_wrapped(f"{job.name} is blocked: {job.blocked}"), err=True)
        _print_waiting(read)
        alone = [job.name for job in listed if job.status == UNATTENDED]
    if alone:
        click.echo(f"workers of {', '.join(alone)} may still run without a controller", err=True)


def _filter(given: Mapping[str, Any]) -> JobFilter:
    from slacktide.app.journal.listing import JobFilter, parse_since

    return JobFilter(
        **{name: given[name] for name in ("states", "job_class", "owner", "late")},
        since=None if given["since"] is None else parse_since(given["since"]),
        most=given["limit"],
    )


def _print_waiting(journal: AnyJournal) -> None:
    """Print on stderr which submissions wait, and that no controller is running if one is needed."""
    waiting = journal.waiting()
    for submission in waiting:
        say(_wrapped(f"waiting to be accepted: {submission.path} (key {submission.key})"), err=True)
    if (waiting or journal.unfinished()) and not journal.in_charge:
        click.echo(f"{NO_CONTROLLER}; `slacktide controller` resumes it", err=True)


def _wrapped(text: str) -> str:
    """Break a long text into the lines of a terminal; in a pipe it stays one line."""
    return textwrap.fill(text, line_length()) if is_terminal(err=True) else text


@click.command()
@click.argument("job", metavar="[JOB]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new events until the job has ended.")
@place_options
@common.output_option("text", "json")
def events(job: str | None, follow: bool, journal: str | None, server: str | None, output: str) -> None:
    """Show what happened to JOB, who did it and why, one line per event; without JOB the whole journal.

    JSON is one object per line.
    """
    from slacktide.report.live.lines import EventLines
    from slacktide.report.wire.events import as_json

    event_lines = EventLines(named=job is None)
    with opened(journal, server) as read:
        for recorded in read.events(job, follow=follow):
            if output == "text":
                say(event_lines.line(recorded.record.event))
            else:
                say(json.dumps(as_json(recorded.record, recorded.submitted), allow_nan=False))


@click.command()
@click.argument("job", metavar="JOB")
@place_options
@common.output_option("text", "json")
def why(job: str, journal: str | None, server: str | None, output: str) -> None:
    """Explain in plain sentences why JOB holds the GPUs it holds: what decided it, and why."""
    with opened(journal, server) as read:
        sentences = read.why(job)
    if output == "json":
        echo_json({"job": job, "why": sentences})
    else:
        say(textwrap.fill(" ".join(sentences), min(WIDEST, line_length())))


@click.command()
@click.argument("job", metavar="JOB")
@click.option("--rank", type=click.IntRange(min=0), metavar="N", help="Only this worker.")
@click.option(
    "--attempt", type=click.IntRange(min=0), metavar="N", help="Only this set of workers; 0 is the setup."
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new output until the job has ended.")
@place_options
@common.output_option("text", "json")
def logs(job: str, journal: str | None, server: str | None, output: str, **given: Any) -> None:
    """Print the output of JOB's workers, each line with its attempt and rank.

    A long line is split, and its later pieces follow a + instead of a |. On a terminal, control
    characters are removed or shown as escapes; a pipe gets the raw output. JSON is one object per
    line.
    """
    harmless = output == "text" and is_terminal()
    with opened(journal, server) as read:
        for printed in read.logs(job, **given):
            line = json.dumps(printed.as_json()) if output == "json" else _log_line(printed, harmless)
            click.echo(line, color=True)  # otherwise click would remove colors from output into a pipe


def _log_line(printed: LogLine, harmless: bool) -> str:
    from slacktide.report.terminal import settled, visible

    name = f"{printed.attempt}/{printed.rank}" if printed.attempt else "setup"
    line = visible(settled(printed.line)) if harmless else printed.line
    return f"{name:<6}{'+' if printed.continued else '|'} {line}"


@click.command()
@click.argument("job", metavar="[JOB]", required=False)
@common.report_option("Write an HTML page about the run of JOB")
@common.plot_option("Write a plot of the run of JOB")
@click.option("--by", metavar="KEYS", help="In parts: by owner, class, month or job; several with commas.")
@place_options
@common.output_option("table", "json", "csv")
def cost(job: str | None, **given: Any) -> int:
    """Print the bill of JOB next to other ways to run it, and audit it: every stretch priced again.

    Without JOB it is the bill of the whole journal, including GPUs used by no job, and the audit of all
    stretches together also checks whether spot was sold twice. Where machines were rented, what they cost
    is shown next to what jobs used of them; `slacktide machines --bill` compares it with their provider's
    account. Exits with 1 when the audit finds a gap, an overlap, a cent too much or too little, or more spot
    held than offered.

    --by divides the bill of a journal; the parts add up to it to the cent. A part of a month is what began
    in it, in UTC, on the clock that jobs run by. CSV is in parts, by job unless --by says otherwise.
    """
    from slacktide.app.journal.journal import Journal
    from slacktide.report.text.bills.cost_report import job_cost_report

    pictured = given["report"] or given["plot"]
    if job is None and pictured:
        raise InputError("--report and --plot must come with a JOB, got none; name the job to draw")
    by = given["by"] or ("job" if given["output"] == "csv" else None)
    if by is not None:
        return _cost_in_parts(job, by, given)
    with opened(given["journal"], given["server"]) as journal:
        if isinstance(journal, Journal) and job is not None and pictured:
            cost = journal.cost(job)
            found = job_cost_report(cost)
            _print_cost(found, given["output"])
            write_pictures(journal, cost.bill, given)
        else:
            found = journal.cost_report(job)
            _print_cost(found, given["output"])
            if job is not None and not isinstance(journal, Journal):
                fetch_pictures(journal, job, given)
    return 0 if found.clean else 1


def _cost_in_parts(job: str | None, by: str, given: Mapping[str, Any]) -> int:
    """Print the bill of a journal in parts, which add up to the audited total; return the exit code."""
    from slacktide.app.journal.costs import bill_parts, check_sum, parse_keys
    from slacktide.report.text.bills import cost_report as report

    if job is not None or given["report"] or given["plot"]:
        raise InputError("--by and -o csv must be of a whole journal, got a JOB; leave it out")
    keys = parse_keys(by)
    with opened(given["journal"], given["server"]) as journal:
        found, parts = journal.cost_report(), bill_parts(journal.events(), keys)
    total, audit = found.document["total"], found.document["audit"]
    check_sum(parts, total["cost_usd"])
    if given["output"] == "csv":
        click.echo(report.parts_csv(parts, keys), nl=False)
    elif given["output"] == "json":
        echo_json({"parts": report.parts_json(parts, keys), "total": total, "audit": audit})
    else:
        say(report.parts_text(parts, keys, total["cost_usd"]))
    for note in found.notes:
        say(note, err=True)
    if not found.clean:
        click.echo("the audit found mistakes: see `slacktide cost`", err=True)
    return 0 if found.clean else 1


def _print_cost(found: CostReport, output: str) -> None:
    """Print a bill, and on stderr notes about the markets on which it is based."""
    for note in found.notes:
        say(note, err=True)
    if output == "json":
        echo_json(found.document)
    else:
        say(found.text)


@click.command()
@click.argument("job", metavar="JOB")
@place_options
def cancel(job: str, journal: str | None, server: str | None) -> None:
    """Cancel JOB: its workers may checkpoint, then all its GPUs are released.

    JOB may also be the key of a submission that no controller has accepted yet; it is withdrawn.
    """
    with opened(journal, server) as opened_journal:
        if opened_journal.cancel(job):
            click.echo(f"withdrew the submission {job}")
            return
        click.echo(f"requested to cancel {job}")
        warn_without_controller(opened_journal)


@click.command()
@click.argument("job", metavar="JOB")
@click.option("--gpus", type=click.IntRange(min=1), metavar="N", help="How many; default: all.")
@place_options
def preempt(job: str, gpus: int | None, journal: str | None, server: str | None) -> None:
    """Take spot workers from JOB, as the market would, to test a preemption."""
    with opened(journal, server) as opened_journal:
        opened_journal.preempt(job, gpus)
        click.echo(f"requested to preempt {gpus or 'all'} spot GPUs of {job}")
        warn_without_controller(opened_journal)
