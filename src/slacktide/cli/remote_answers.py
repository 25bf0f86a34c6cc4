"""`slacktide plan --server` and `backtest --server`: the job file goes there, tables and files come back."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli import options as common
from slacktide.cli.journals import check_left_to_server, remote

if TYPE_CHECKING:
    from slacktide.app.question_forms import BacktestQuestion, PlanQuestion
    from slacktide.app.remote import RemoteJournal

SERVERS = ("slot_hours", "gaps", "spot_usd", "on_demand_usd")
"""Options about a market that is a file: a server has its own."""


def plan_on_server(job: str, given: Mapping[str, Any]) -> None:
    """Have a job planned on a server, print the plan and write its files."""
    from slacktide.cli.plan import warn

    check_left_to_server(SERVERS)
    with remote(given["server"]) as journal, common.Bar("planning") as bar:
        found = journal.plan(plan_question(job, given, _wants(given, "text")), _hearing(bar))
    made = found.pop("made", {})
    if given["output"] == "json":
        common.echo_json(found)
    else:
        click.echo(made["text"])
    warn(found.get("assumptions", ()))
    _write(made, given)


def backtest_on_server(job: str, given: Mapping[str, Any]) -> None:
    """Have policies for a job tried on a server, print the table and write its files."""
    check_left_to_server((*SERVERS, "on"))
    shown = "decisions" if given["verbose"] else "text"
    with remote(given["server"]) as journal, common.Bar("back-testing") as bar:
        found = journal.backtest(_backtest_question(job, given, _wants(given, shown)), _hearing(bar))
    made = found.pop("made", {})
    if given["output"] == "json":
        common.echo_json(found)
    else:
        click.echo(made["csv" if given["output"] == "csv" else shown], nl=given["output"] != "csv")
    _write(made, given)


def plan_told(journal: RemoteJournal, job: str, given: Mapping[str, Any]) -> str:
    """Return the plan of a job on a server, as it is printed."""
    with common.Bar("planning") as bar:
        return str(journal.plan(plan_question(job, given, ["text"]), _hearing(bar))["made"]["text"])


def plan_question(
    job: str, given: Mapping[str, Any], wants: Sequence[Any] = (), *, check: bool = False
) -> PlanQuestion:
    """Return the question that the options of a command ask of a server about a job file."""
    from slacktide.app.question_forms import PlanQuestion

    return PlanQuestion(
        **_about(job, given),
        policy=_written(common.parse_policy(given["policy"], job)),
        start=given.get("start"),
        wants=tuple(wants),
        check=check,
    )


def _backtest_question(job: str, given: Mapping[str, Any], wants: Sequence[Any]) -> BacktestQuestion:
    from slacktide.app.question_forms import BacktestQuestion

    starts = common.parse_starts(given["starts"])
    policies = [_written(one) for one in common.parse_policies(given["policy"], job)]
    return BacktestQuestion(
        **_about(job, given),
        policies=tuple(one for one in policies if one is not None),
        starts=starts.count,
        every_hours=starts.every_hours,
        truth=given["truth"],
        sight=given["sight"],
        wants=tuple(wants),
    )


def _about(job: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job file as it is sent, without values of secrets, and the market that is named for it."""
    from slacktide.app.remote import text_to_send

    market = common.market_spec(given)
    return {"text": text_to_send(job), "name": Path(job).name, "market": market.source, "pool": market.pool}


def _written(policy: object) -> str | None:
    import json

    return None if policy is None else json.dumps(policy)


def _wants(given: Mapping[str, Any], shown: str) -> list[str]:
    """Return what the server is to make of its answer."""
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


def _hearing(bar: common.Bar) -> Any:
    """Return what shows on a bar how far a server is; while others come first there is nothing to show."""

    def hear(ahead: int, done: int, total: int) -> None:
        if total:
            bar(done, total)

    return hear
