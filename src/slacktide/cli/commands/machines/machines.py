"""`slacktide machines`: lists rented machines, and ends those that no journal explains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import is_remote, place_options, token_of
from slacktide.cli.shared.output import echo_json, say
from slacktide.core.errors import InputError

if TYPE_CHECKING:
    from slacktide.app.machines import MachinesRequest
    from slacktide.results.machines.machines import MachineStatus

FILE = "machines.yaml"


@click.command()
@click.option(
    "--machines", "file", type=click.Path(), default=FILE, show_default=True, metavar="FILE",
    help="The machines file: provider, pools and limits.",
)  # fmt: skip
@place_options
@click.option("--owner", metavar="ID", default="", help="Machines rented for the journal with this id.")
@click.option("--all-owners", is_flag=True, help="Machines rented for any journal.")
@click.option("--bill", is_flag=True, help="What each machine cost, next to its provider's own account.")
@click.option("--sweep", is_flag=True, help="End machines that no open ticket explains.")
@click.option("--dry-run", is_flag=True, help="Print what could be rented, or would be ended; do nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before ending machines.")
@common.output_option("table", "json")
def machines(
    file: str, journal: str | None, server: str | None, owner: str, all_owners: bool, bill: bool, sweep: bool,
    dry_run: bool, yes: bool, output: str,
) -> None:  # fmt: skip
    """List what is rented for a journal, with what it has cost so far.

    A machine is explained by an open ticket in the journal. --sweep ends the others: those of the journal,
    or, where the journal is gone, those that carry its id (--owner) or any (--all-owners). What has an
    open ticket in the journal is never ended.

    --bill lists every machine that the journal ever rented, with the hours that it was paid for by the
    journal and by what the provider lists, and the difference. What the provider no longer lists is unknown.
    """
    from slacktide.app.machines import MachinesRequest, list_machines

    if is_remote(server):
        _of_server(str(server), output, owner or all_owners or bill or sweep or dry_run)
        return
    if owner and all_owners:
        raise InputError("--owner and --all-owners must not be given together, got both")
    path = Path(journal) if journal else None
    request = MachinesRequest(file=Path(file), journal=path, owner=owner, all_owners=all_owners)
    if bill:
        others = {"--owner": owner, "--all-owners": all_owners, "--sweep": sweep, "--dry-run": dry_run}
        if any(others.values()):
            got = next(name for name, given in others.items() if given)
            raise InputError(f"--bill must be about a journal, and alone, got {got}; leave one of them out")
        _bill(request, output)
        return
    listed = list_machines(request)
    if sweep:
        # Only machines without a ticket may be ended; the others are in use.
        listed = [one for one in listed if one.orphan]
    ended = _swept(request, listed, yes=yes, dry_run=dry_run, output=output) if sweep else []
    if output == "json":
        from slacktide.report.text.tables.machines import as_json

        swept = {"ended": ended} if sweep else {}
        could = {"could_rent": _could(request)} if dry_run and not sweep else {}
        echo_json({"machines": [as_json(one) for one in listed], **could, **swept})
    elif not sweep:
        _show(listed, owners=all_owners)
        if dry_run:
            _show_choices(request)


def _of_server(url: str, output: str, more: str | bool) -> None:
    """List what the journal of a server has rented."""
    from slacktide.client.remote import open_server
    from slacktide.report.text.tables import machines as report

    if more:
        raise InputError(
            "with --server machines can only be listed, got another option; use it on the server"
        )
    listed = open_server(url, token_of(url)).machines()
    if output == "json":
        echo_json({"machines": [report.as_json(one) for one in listed]})
    else:
        _show(listed, owners=False)


def _bill(request: MachinesRequest, output: str) -> None:
    from slacktide.app.machines import account
    from slacktide.report.text.bills import machine_account as report

    found = account(request)
    if output == "json":
        echo_json(report.as_json(found))
    else:
        say(report.text(found))


def _show(listed: list[MachineStatus], *, owners: bool) -> None:
    from slacktide.report.text.tables import machines as report

    say(report.text(listed, owners=owners))
    orphans = sum(one.orphan for one in listed)
    if orphans:
        noun = "machine has" if orphans == 1 else "machines have"
        click.echo(f"{orphans} {noun} no open ticket; `slacktide machines --sweep` ends them", err=True)


def _swept(
    request: MachinesRequest, orphans: list[MachineStatus], *, yes: bool, dry_run: bool, output: str
) -> list[str]:
    """Show the machines without a ticket, ask, and end them; return the ids of those that were ended."""
    from slacktide.app.machines import sweep
    from slacktide.cli.shared.output import is_interactive
    from slacktide.report.text.tables import machines as report

    table = output != "json"
    if table:
        say(report.text(orphans, owners=True) if orphans else "no machine is without an open ticket")
    if dry_run or not orphans:
        return []
    if not yes:
        if not is_interactive():
            raise InputError("ending machines must be confirmed, got no terminal to ask on; add -y")
        if not click.confirm(f"End {len(orphans)}?"):
            return []
    ended = sweep(request, orphans)
    if table:
        click.echo(f"ended {len(ended)}")
    return ended


def _could(request: MachinesRequest) -> list[dict[str, object]]:
    from slacktide.app.machines import choices
    from slacktide.report.wire import values

    return [
        {
            "capacity": one.spec.kind,
            "pool": one.spec.pool,
            "gpus": one.spec.gpus,
            "usd_per_hour": one.usd_per_hour,
            "machines": values.plain(one.most),
        }
        for one in choices(request)
    ]


def _show_choices(request: MachinesRequest) -> None:
    from slacktide.app.machines import choices
    from slacktide.report.text.tables import machines as report

    say("")
    say(report.choices([(*one.spec, one.usd_per_hour, one.most) for one in choices(request)]))
