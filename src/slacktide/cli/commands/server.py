"""Commands that run submitted jobs, `controller` and `serve`, and those about their `token` and `alerts`."""

from __future__ import annotations

import sys
from dataclasses import asdict, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import journal_option, journal_path, opened, place_options
from slacktide.cli.shared.output import echo_json, say
from slacktide.cli.shared.run_options import run_options_of, setup_of, staying_options
from slacktide.core.errors import BackendError, InputError
from slacktide.report.wire.values import picked

if TYPE_CHECKING:
    from slacktide.app.jobs.controller import Controller
    from slacktide.cli.shared.interruptions import StopRequests


@click.command()
@staying_options
@journal_option
def controller(**given: Any) -> int:
    """Run the jobs submitted to a journal, until Ctrl-C, SIGTERM or a closed terminal.

    Jobs come from `slacktide submit`, run in any process, even before the controller started. Jobs
    that have not ended are resumed. Prints a line for everything that changes. When it is
    stopped, the workers checkpoint and all GPUs are released; the next controller resumes the jobs.
    """
    from slacktide.app.jobs.controller import Controller
    from slacktide.cli.shared.interruptions import StopRequests, steady_output

    defaults = run_options_of(given).for_all()
    defaults.check()
    path, setup = journal_path(given["journal"]), setup_of(given, defaults)
    with steady_output(), StopRequests(given["on_hangup"]) as stop:
        with Controller(path, setup) as running:
            _stay(running, stop)
            left = list(running.journal.unfinished())
        if left:
            say(f"not ended: {', '.join(left)}; `slacktide controller` resumes them", err=True)
    return 0


def _stay(running: Controller, stop: StopRequests) -> None:
    from slacktide.cli.shared.screens import ControllerScreen, reporting_stopped_workers
    from slacktide.report.live.screen import Lines

    screen, jobs = Lines(sys.stdout), running.journal.unfinished()
    with reporting_stopped_workers("slacktide controller"):
        running.run(
            staying=True,
            show=ControllerScreen(running, jobs, screen, stop.note, named=True),
            stopping=stop,
            complain=lambda error: screen.print_lines([f"problem, retrying: {error}"]),
            report=lambda line: screen.print_lines([line]),
        )


@click.command()
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8470, help="0: any free one.")
@click.option(
    "--name", "names", multiple=True, metavar="NAME", help="A host name by which clients reach the server."
)
@click.option(
    "--tls-cert", "certificate", type=common.FILE, metavar="FILE", help="Certificate chain in PEM form."
)
@click.option("--tls-key", "key", type=common.FILE, metavar="FILE", help="Its private key.")
@click.option("--behind-proxy", is_flag=True, help="A proxy does TLS and passes requests on.")
@click.option(
    "--rate", "rate_per_s", type=click.FloatRange(min=1), default=200.0, metavar="N",
    help="Requests per second for each token."
)  # fmt: skip
@click.option(
    "--keep-days", type=click.FloatRange(min=0), default=7.0, metavar="N",
    help="Days for which the files of clients' jobs are kept after a job's end.",
)  # fmt: skip
@click.option(
    "--warm-up/--no-warm-up", "warms_up", default=True,
    help="Compile in advance what plans and back-tests need, at low priority.",
)  # fmt: skip
@staying_options
@journal_option
def serve(**given: Any) -> None:
    """Run the jobs of a journal and answer HTTP requests, until Ctrl-C or SIGTERM.

    As `slacktide controller`, with an API under /api/v1 for `--server URL`, browsers and programs. Listens
    on the loopback; elsewhere only with TLS, its own or a proxy's. Clients need a token: see `slacktide
    token`. Prints `ready on URL` when it answers, then a line for everything that changes.
    """
    try:
        from slacktide.service.listening import Address
        from slacktide.service.server import serve
    except ModuleNotFoundError as error:
        raise InputError(
            f"the server must have its libraries, found no {error.name}; pip install 'slacktide[serve]'"
        ) from error
    from slacktide.app.tokens import tokens_of
    from slacktide.cli.shared.interruptions import steady_output

    address = Address(**{field.name: given[field.name] for field in fields(Address)})
    address.check()
    defaults = run_options_of(given).for_all()
    defaults.check()
    path = journal_path(given["journal"])
    tokens = tokens_of(path)
    if not tokens.all():
        say("there is no token yet: `slacktide token add NAME --role submit` makes one", err=True)
    with steady_output():
        serve(path, address, setup_of(given, defaults), tokens, say)


@click.group()
def token() -> None:
    """Create, list and revoke the tokens of a journal's server."""


@token.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--role", type=click.Choice(["read", "submit"]), default="read",
    help="read: see jobs, logs and bills; submit: also run programs on the workers.",
)  # fmt: skip
@click.option("--expires", type=common.Duration(), metavar="TIME", help="Valid for this long, e.g. 90d.")
@journal_option
def add(name: str, role: str, expires: float | None, journal: str | None) -> None:
    """Create a token called NAME and print it once; clients pass it in SLACKTIDE_TOKEN."""
    from slacktide.app.tokens import tokens_of

    lasting = None if expires is None else timedelta(hours=expires)
    click.echo(tokens_of(journal_path(journal)).add(name, role, lasting))


@token.command(name="list")
@journal_option
@common.output_option("table", "json")
def list_tokens(journal: str | None, output: str) -> None:
    """List the tokens with their roles; their secrets are not stored."""
    from slacktide.app.tokens import tokens_of

    tokens = tokens_of(journal_path(journal)).all()
    if output == "json":
        echo_json({"tokens": [picked(token, "name", "role", "made_utc", "expires_utc") for token in tokens]})
        return
    for token in tokens:
        until = f"until {token.expires_utc[:16]}" if token.expires_utc else "no end"
        if token.is_over():
            until = "expired"
        click.echo(f"{token.name:<24} {token.role:<7} {until}")


@token.command()
@click.argument("name", metavar="NAME")
@journal_option
def revoke(name: str, journal: str | None) -> None:
    """Revoke the token called NAME and all its sessions, at once."""
    from slacktide.app.tokens import tokens_of

    tokens_of(journal_path(journal)).revoke(name)
    click.echo(f"revoked {name}")


@click.group()
def alerts() -> None:
    """Try the hooks of an alerts file, or show what they were sent and what is waiting."""


@alerts.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--hook", metavar="NAME", help="Only this hook; default: all of the file.")
@common.output_option("table", "json")
def test(file: Path, hook: str | None, output: str) -> int:
    """Send a sample to the hooks of FILE and say what came back.

    Each hook is tried once, whatever it is for. Exits with 4 if one of them did not accept the sample.
    """
    from slacktide.app.alerts.file import read_alerts_file
    from slacktide.app.alerts.sending import try_hooks

    read = read_alerts_file(file)
    for note in read.notes:
        say(note, err=True)
    trials = try_hooks(read, hook)
    if output == "json":
        echo_json({"hooks": [asdict(trial) for trial in trials]})
    else:
        for trial in trials:
            outcome = "accepted" if trial.accepted else "failed"
            say(f"{trial.hook:<24} {outcome:<9} {trial.target}: {trial.said}")
    return 0 if all(trial.accepted for trial in trials) else BackendError.exit_code


@alerts.command()
@place_options
@common.output_option("table", "json")
def show(journal: str | None, server: str | None, output: str) -> None:
    """Show what the hooks of a journal were sent, what is waiting, and the last error.

    A server leaves the addresses out of error messages.
    """
    with opened(journal, server) as place:
        hooks = place.hooks()
    if output == "json":
        echo_json({"hooks": [asdict(hook) for hook in hooks]})
        return
    if not hooks:
        say("no hooks yet: `slacktide serve --alerts FILE` or `slacktide controller --alerts FILE`", err=True)
    for hook in hooks:
        counts = f"{hook.sent} sent, {hook.waiting} waiting, {hook.dropped} dropped"
        trouble = f"; last error at {hook.error_utc}: {hook.error}" if hook.error else ""
        say(f"{hook.name:<24} {counts}{trouble}")
