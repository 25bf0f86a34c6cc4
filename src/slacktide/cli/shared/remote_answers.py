"""`plan`, `backtest` and `learn` with `--server`: the job file goes there, tables and files come back."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import check_left_to_server, is_on_command_line, remote
from slacktide.cli.shared.output import ProgressBar, confirm_forgetting, echo_json, warn, write_files

if TYPE_CHECKING:
    from slacktide.app.jobs.submission import Submission
    from slacktide.client.remote import RemoteJournal

READING = ("slot_hours", "gaps", "spot_usd", "on_demand_usd")
"""Options for how a market is read: a server has read its own already."""


def plan_on_server(job: str, given: Mapping[str, Any]) -> None:
    """Plan a job on a server, print the plan and write its files."""

    def plan(journal: RemoteJournal, wants: Sequence[str], progress: Any) -> dict[str, Any]:
        return journal.plan(common.plan_request(job, given, _sent(journal, job, given), wants), progress)

    _answer(given, "planning", plan)


def backtest_on_server(job: str, given: Mapping[str, Any]) -> None:
    """Back-test policies on a server, print the table and write its files."""

    def backtest(journal: RemoteJournal, wants: Sequence[str], progress: Any) -> dict[str, Any]:
        request = common.backtest_request(job, given, _sent(journal, job, given), wants)
        return journal.backtest(request, progress)

    check_left_to_server(("on",))
    _answer(given, "back-testing", backtest, "decisions" if given["verbose"] else "text")


def learn_on_server(job: str | None, given: Mapping[str, Any]) -> None:
    """Show or train a server's trust in policies, print it and write its picture."""

    def learn(journal: RemoteJournal, wants: Sequence[str], progress: Any) -> dict[str, Any]:
        if given["reset"]:
            confirm_forgetting(given["server"], sure=given["yes"])
            journal.forget()
            click.echo(f"forgot what {given['server']} had learned", err=True)
        if job is None:
            return journal.learned(given["pool_of"], wants)
        return journal.learn(common.learn_request(job, given, _sent(journal, job, given), wants), progress)

    check_left_to_server(("on", "state"))
    _answer({**given, "report": None}, "learning", learn, newline=False)


def plan_text(journal: RemoteJournal, job: str, given: Mapping[str, Any]) -> str:
    """Return the plan of a job, made on a server, as it is printed."""
    with ProgressBar("planning") as bar:
        request = common.plan_request(job, given, _sent(journal, job, given), ["text"])
        return str(journal.plan(request, _progress_on(bar))["made"]["text"])


def check_affordable(journal: RemoteJournal, wanted: Submission, given: Mapping[str, Any]) -> None:
    """Raise InfeasibleError if a job has a maximum cost and the server refuses its plan."""
    # Only then: the server refuses all else at submission, and a plan takes it a while.
    if wanted.file.job.max_cost_usd is not None:
        path, options = wanted.file.path, {**dict.fromkeys(("market", "pool", *READING)), **given}
        journal.plan(common.plan_request(path, options, _sent(journal, path, options), check=True))


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


def _answer(
    given: Mapping[str, Any],
    title: str,
    ask: Callable[[RemoteJournal, Sequence[str], Any], dict[str, Any]],
    text: str = "text",
    *,
    newline: bool = True,
) -> None:
    """Print what a server answers and write the files made of it.

    `text` is the form of the answer that is printed for people, followed by a newline or not.
    """
    shown = {"table": text, "csv": "csv"}.get(given["output"])
    plot, report = given["plot"], given["report"]
    picture = "" if plot is None else Path(plot).suffix.removeprefix(".").lower()
    wants = [want for want in (shown, picture, "report" if report is not None else "") if want]
    with remote(given["server"]) as journal, ProgressBar(title) as bar:
        found = ask(journal, wants, _progress_on(bar))
    made = found.pop("made", {})  # texts and pictures for us, no part of the JSON output
    if shown is None:
        echo_json(found)
    else:
        click.echo(made[shown], nl=newline and shown != "csv")
    warn(found.get("assumptions", ()))
    write_files(
        given,
        plot=lambda path: Path(path).write_bytes(base64.b64decode(made[picture])),
        report=lambda path: Path(path).write_text(made["report"], encoding="utf-8"),
    )


def _progress_on(bar: ProgressBar) -> Any:
    """Return a callback that shows a server's progress on a bar; while it waits there is none."""

    def show(ahead: int, done: int, total: int) -> None:
        if total:
            bar(done, total)

    return show
