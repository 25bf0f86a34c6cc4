"""`plan`, `backtest` and `learn` with `--server`: sends the job file, and prints and writes the answer."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import check_left_to_server, is_on_command_line, remote
from slacktide.cli.shared.output import ProgressBar, echo_json, warn, write_files

if TYPE_CHECKING:
    from slacktide.app.jobs.submission import Submission
    from slacktide.client.remote import RemoteJournal, TaskRequest

READING = ("slot_hours", "gaps", "spot_usd", "on_demand_usd")
"""Options for how a market is read; they do not apply to the server's own market."""


def answer_on_server(
    request: TaskRequest | None, given: Mapping[str, Any], *, title: str, text: str = "text"
) -> None:
    """Send a request to a server, print its answer, and write the requested files.

    `text` is the form of the answer to print as a table. If `request` is None, what was learned is shown.
    """
    shown = {"table": text, "csv": "csv"}.get(given["output"])
    plot, report = given["plot"], given.get("report")
    picture = "" if plot is None else Path(plot).suffix.removeprefix(".").lower()
    wants = [want for want in (shown, picture, "report" if report is not None else "") if want]
    with remote(given["server"]) as journal, ProgressBar(title) as bar:
        if request is None:
            answer = journal.learned(given["pool_of"], wants)
        else:
            answer = journal.answer(_sent(journal, request, given, wants=wants), _progress_on(bar))
    made = answer.pop("made", {})  # texts and pictures that we requested; not for the JSON output
    if shown is None:
        echo_json(answer)
    else:
        # Decisions end with an empty line, here as where they are made.
        click.echo(made[shown], nl=shown == "decisions" or not made[shown].endswith("\n"))
    warn(answer.get("assumptions", ()))
    write_files(
        {"plot": plot, "report": report},
        plot=lambda path: Path(path).write_bytes(base64.b64decode(made[picture])),
        report=lambda path: Path(path).write_text(made["report"], encoding="utf-8"),
    )


def plan_text(journal: RemoteJournal, job: str, given: Mapping[str, Any]) -> str:
    """Have a server plan a job, and return the plan as text."""
    with ProgressBar("planning") as bar:
        request = _sent(journal, common.plan_request(job, given), given, wants=["text"])
        return str(journal.answer(request, _progress_on(bar))["made"]["text"])


def check_affordable(journal: RemoteJournal, wanted: Submission, given: Mapping[str, Any]) -> None:
    """Raise InfeasibleError if a job has a maximum cost and the server refuses its plan."""
    # Only for such a job: all else is refused at submission, and a plan takes the server a while.
    if wanted.file.job.max_cost_usd is not None:
        options = {**dict.fromkeys(("market", "pool", *READING)), **given}
        request = common.plan_request(wanted.file.path, options)
        journal.answer(_sent(journal, request, options, check=True))


def _sent(journal: RemoteJournal, request: Any, given: Mapping[str, Any], **more: object) -> Any:
    """Return a request as it is sent: with the job file without values of secrets, the market, and `more`.

    A market that the server cannot know, a local file or one that is read with options, is uploaded first.
    """
    from slacktide.client.remote import own_market, text_to_send

    job, market = request.name, common.market_spec(given)
    own = own_market(job, market, read_own_way=is_on_command_line(READING))
    if own is None:
        check_left_to_server(READING)
        more["market"] = market.source
    else:
        more["sent"] = journal.send_market(own)
    text, name = text_to_send(job), Path(job).name
    return msgspec.structs.replace(request, text=text, name=name, pool=market.pool, **more)


def _progress_on(bar: ProgressBar) -> Any:
    """Return a callback that shows a server's progress on a bar, once the request is no longer queued."""

    def show(ahead: int, done: int, total: int) -> None:
        if total:
            bar(done, total)

    return show
