"""`plan`, `backtest` and `learn` with `--server`: the job file goes there, tables and files come back."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.job_requests import backtest_request, learn_request, plan_request
from slacktide.cli.shared.journals import check_left_to_server, is_on_command_line, remote
from slacktide.cli.shared.output import ProgressBar, confirm_forgetting, echo_json, warn

if TYPE_CHECKING:
    from slacktide.app.jobs.submission import Submission
    from slacktide.client.remote import RemoteJournal

READING = ("slot_hours", "gaps", "spot_usd", "on_demand_usd")
"""Options for how a market is read: a server has read its own already."""


def plan_on_server(job: str, given: Mapping[str, Any]) -> None:
    """Plan a job on a server, print the plan and write its files."""
    with remote(given["server"]) as journal, ProgressBar("planning") as bar:
        found = journal.plan(
            plan_request(job, given, _sent(journal, job, given), _wants(given, "text")), _progress_on(bar)
        )
    made = found.pop("made", {})  # texts and pictures for us, no part of the JSON output
    if given["output"] == "json":
        echo_json(found)
    else:
        click.echo(made["text"])
    warn(found.get("assumptions", ()))
    _write(made, given)


def backtest_on_server(job: str, given: Mapping[str, Any]) -> None:
    """Back-test policies on a server, print the table and write its files."""
    check_left_to_server(("on",))
    shown = "decisions" if given["verbose"] else "text"
    with remote(given["server"]) as journal, ProgressBar("back-testing") as bar:
        found = journal.backtest(
            backtest_request(job, given, _sent(journal, job, given), _wants(given, shown)), _progress_on(bar)
        )
    made = found.pop("made", {})
    if given["output"] == "json":
        echo_json(found)
    else:
        click.echo(made["csv" if given["output"] == "csv" else shown], nl=given["output"] != "csv")
    _write(made, given)


def learn_on_server(job: str | None, given: Mapping[str, Any]) -> None:
    """Show or train a server's trust in policies, print it and write its picture."""
    check_left_to_server(("on", "state"))
    wants = _wants({**given, "report": None}, "text")
    with remote(given["server"]) as journal, ProgressBar("learning") as bar:
        if given["reset"]:
            confirm_forgetting(given["server"], sure=given["yes"])
            journal.forget()
            click.echo(f"forgot what {given['server']} had learned", err=True)
        if job is None:
            found = journal.learned(given["pool_of"], wants)
        else:
            found = journal.learn(
                learn_request(job, given, _sent(journal, job, given), wants), _progress_on(bar)
            )
    made = found.pop("made", {})
    if given["output"] == "json":
        echo_json(found)
    else:
        click.echo(made["text"], nl=False)
    _write(made, {**given, "report": None})


def plan_text(journal: RemoteJournal, job: str, given: Mapping[str, Any]) -> str:
    """Return the plan of a job, made on a server, as it is printed."""
    with ProgressBar("planning") as bar:
        request = plan_request(job, given, _sent(journal, job, given), ["text"])
        return str(journal.plan(request, _progress_on(bar))["made"]["text"])


def check_affordable(journal: RemoteJournal, wanted: Submission, given: Mapping[str, Any]) -> None:
    """Raise InfeasibleError if a job has a maximum cost and the server refuses its plan."""
    # Only then: the server refuses all else at submission, and a plan takes it a while.
    if wanted.file.job.max_cost_usd is not None:
        path, options = wanted.file.path, {**dict.fromkeys(("market", "pool", *READING)), **given}
        journal.plan(plan_request(path, options, _sent(journal, path, options), check=True))


def _sent(journal: RemoteJournal, job: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job file as it is sent, without the values of secrets, and its market.

    A market that the server cannot know, a local file or one that is read with options, is sent along.
    """
    from slacktide.client.remote import own_market, text_to_send

    market = common.market_spec(given)
    about = {"text": text_to_send(job), "name": Path(job).name, "pool": market.pool}
    own = own_market(job, market, read_own_way=is_on_command_line(READING))
    if own is None:
        check_left_to_server(READING)
        return {**about, "market": market.source}
    return {**about, "sent": journal.send_market(own)}


def _wants(given: Mapping[str, Any], shown: str) -> list[str]:
    """Return the forms in which the server is to return its answer."""
    table = {"table": [shown], "csv": ["csv"]}.get(given["output"], [])
    picture = [_form(given["plot"])] if given["plot"] is not None else []
    return [*table, *picture, *(["report"] if given["report"] is not None else [])]


def _form(path: str) -> str:
    return Path(path).suffix.removeprefix(".").lower()


def _write(made: Mapping[str, str], given: Mapping[str, Any]) -> None:
    if given["plot"] is not None:
        Path(given["plot"]).write_bytes(base64.b64decode(made[_form(given["plot"])]))
        click.echo(f"wrote {given['plot']}", err=True)
    if given["report"] is not None:
        Path(given["report"]).write_text(made["report"], encoding="utf-8")
        click.echo(f"wrote {given['report']}", err=True)


def _progress_on(bar: ProgressBar) -> Any:
    """Return a callback that shows a server's progress on a bar; while it waits there is none."""

    def show(ahead: int, done: int, total: int) -> None:
        if total:
            bar(done, total)

    return show
