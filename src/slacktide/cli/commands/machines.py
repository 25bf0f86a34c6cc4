"""Commands about machines and what rents and runs them: `machines`, `providers`, `backends`, `cluster`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import is_remote, place_options, token_of
from slacktide.cli.shared.output import confirmed, echo_json, print_plugins, say, waiting
from slacktide.core.errors import InputError
from slacktide.core.units import format_count

if TYPE_CHECKING:
    from slacktide.app.machines import MachinesRequest
    from slacktide.results.status import MachineStatus

FILE = "machines.yaml"
NO_CLUSTER = "no cluster is running; start one with `slacktide cluster up`"
NEXT = """
run a job on it:    slacktide run examples/numpy/job.yaml --backend ray --speed 600
lose a node of it:  slacktide cluster kill {node}
end it:             slacktide cluster down"""


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
    from slacktide.report.wire.values import plain

    others = {"--owner": owner, "--all-owners": all_owners, "--sweep": sweep, "--dry-run": dry_run}
    if is_remote(server):
        _list_of_server(str(server), output, more=bill or any(others.values()))
        return
    if owner and all_owners:
        raise InputError("--owner and --all-owners must not be given together, got both")
    path = Path(journal) if journal else None
    request = MachinesRequest(file=Path(file), journal=path, owner=owner, all_owners=all_owners)
    if bill:
        if any(others.values()):
            got = next(name for name, given in others.items() if given)
            raise InputError(f"--bill must be about a journal, and alone, got {got}; leave one of them out")
        _print_bill(request, output)
        return
    listed = list_machines(request)
    if sweep:
        # Only machines without a ticket may be ended; the others are in use.
        listed = [one for one in listed if one.orphan]
    ended = _swept(request, listed, yes=yes, dry_run=dry_run, output=output) if sweep else []
    if output == "json":
        swept = {"ended": ended} if sweep else {}
        could = {"could_rent": _could_rent(request)} if dry_run and not sweep else {}
        echo_json({"machines": [plain(one) for one in listed], **could, **swept})
    elif not sweep:
        _print_machines(listed, owners=all_owners)
        if dry_run:
            _print_choices(request)


def _list_of_server(url: str, output: str, *, more: bool) -> None:
    """List what the journal of a server has rented."""
    from slacktide.client.remote import open_server
    from slacktide.report.wire.values import plain

    if more:
        raise InputError(
            "with --server machines can only be listed, got another option; use it on the server"
        )
    listed = open_server(url, token_of(url)).machines()
    if output == "json":
        echo_json({"machines": [plain(one) for one in listed]})
    else:
        _print_machines(listed, owners=False)


def _print_bill(request: MachinesRequest, output: str) -> None:
    from slacktide.app.machines import account
    from slacktide.report.text.bills import machines as report

    found = account(request)
    if output == "json":
        echo_json(report.account_json(found))
    else:
        say(report.account_text(found))


def _print_machines(listed: list[MachineStatus], *, owners: bool) -> None:
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
    from slacktide.report.text.tables import machines as report

    table = output != "json"
    if table:
        say(report.text(orphans, owners=True) if orphans else "no machine is without an open ticket")
    if dry_run or not orphans or not (yes or confirmed("ending machines", f"End {len(orphans)}?")):
        return []
    ended = sweep(request, orphans)
    if table:
        click.echo(f"ended {len(ended)}")
    return ended


def _could_rent(request: MachinesRequest) -> list[dict[str, object]]:
    from slacktide.app.machines import choices
    from slacktide.report.wire.values import plain

    return [
        {
            "capacity": one.spec.kind,
            "pool": one.spec.pool,
            "gpus": one.spec.gpus,
            "usd_per_hour": one.usd_per_hour,
            "machines": plain(one.most),
        }
        for one in choices(request)
    ]


def _print_choices(request: MachinesRequest) -> None:
    from slacktide.app.machines import choices
    from slacktide.report.text.tables import machines as report

    say("")
    say(report.choices([(*one.spec, one.usd_per_hour, one.most) for one in choices(request)]))


@click.command()
@click.option(
    "--check", type=click.Path(), metavar="FILE",
    help="Check the provider of a machines file against the contract; rents machines for a short time.",
)  # fmt: skip
@click.option("-y", "--yes", is_flag=True, help="Do not ask before renting machines to check with.")
@common.output_option("table", "json")
def providers(check: str | None, yes: bool, output: str) -> None:
    """List the providers of machines with their settings, or check one against the contract.

    A check rents up to two machines at a time, of the cheapest kind in the file, and ends them.
    """
    from slacktide.app.machines import cheapest
    from slacktide.app.setup.registers import check_provider_of, known_providers

    if check is None:
        print_plugins(known_providers(), output)
        return
    read, spec, price = cheapest(Path(check))
    question = f"Rent {spec.kind} machines of {spec.pool} for ${price:.2f} an hour each?"
    if yes or confirmed("renting machines", question):
        check_provider_of(check, read.provider_for, spec)
        click.echo(f"the provider of {check} keeps the contract")


@click.command()
@click.option("--check", metavar="NAME", help="Check a back end against the contract.")
@common.output_option("table", "json")
def backends(check: str | None, output: str) -> None:
    """List the back ends, where jobs can run, or check one against the contract."""
    from slacktide.app.setup.registers import check_backend_named, known_backends

    if check is None:
        print_plugins(known_backends(), output)
        return
    check_backend_named(check)
    click.echo(f"{check} keeps the contract")


@click.group()
def cluster() -> None:
    """Start, show and end a local Ray cluster, to try Slacktide on several machines.

    All nodes are on this machine and listen on loopback only. Their GPUs are there in name only.
    Needs pip install 'slacktide[ray]', and about 0.3 GB of memory for each node.
    """


@cluster.command()
@click.option("--spot", type=int, default=3, show_default=True, help="Nodes that act as spot machines.")
@click.option("--on-demand", type=int, default=2, show_default=True, help="Nodes that are on demand.")
@click.option("--gpus", type=int, default=2, show_default=True, help="GPUs of each node.")
def up(spot: int, on_demand: int, gpus: int) -> None:
    """Start the cluster; it stays until `slacktide cluster down`."""
    from slacktide.app.setup.cluster import ClusterRequest, start_cluster
    from slacktide.report.text.tables.machines import cluster_text

    request = ClusterRequest(spot=spot, on_demand=on_demand, gpus=gpus)
    with waiting(f"starting Ray with {format_count(spot + on_demand, 'node')}", patience_s=0.5):
        status, started = start_cluster(request)
    say(cluster_text(status) if started else f"it is already running\n{cluster_text(status)}")
    alive = [node.name for node in status.nodes if node.alive]
    say(NEXT.format(node=alive[0] if alive else "NODE"))


@cluster.command()
@common.output_option("table", "json")
def status(output: str) -> None:
    """Show the nodes of the cluster and how many workers run on each."""
    from slacktide.app.setup.cluster import cluster_status
    from slacktide.report.text.tables.machines import cluster_json, cluster_text

    found = cluster_status()
    if output == "json":
        echo_json(cluster_json(found))
    else:
        say(NO_CLUSTER if found is None else cluster_text(found))


@cluster.command()
@click.argument("node")
def kill(node: str) -> None:
    """Kill NODE and all that runs on it at once, as when a machine is lost.

    NODE is a name as in `slacktide cluster status`, or the beginning of an id.
    """
    from slacktide.app.setup.cluster import kill_node

    killed = kill_node(node)
    say(f"killed {killed.name} with {format_count(killed.workers, 'worker')} on it")


@cluster.command()
def down() -> None:
    """End the cluster, and all that runs on it."""
    from slacktide.app.setup.cluster import end_cluster

    say("the cluster has ended" if end_cluster() else "no cluster is running; nothing to end")
