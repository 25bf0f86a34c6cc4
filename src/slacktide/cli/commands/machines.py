"""Commands about machines and what rents and uses them: `machines`, `providers`, `backends`, `cluster`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.journals import is_remote, place_options, remote
from slacktide.cli.shared.output import confirmed, echo_json, print_plugins, say, waiting
from slacktide.core.errors import InputError
from slacktide.core.units import format_count

if TYPE_CHECKING:
    from slacktide.app.machines import Choice, MachinesRequest
    from slacktide.results.status import MachineStatus

FILE = "machines.yaml"
NO_CLUSTER = "no cluster is running; start one with `slacktide cluster up`"
NEXT = """
run a job on it:    slacktide run examples/numpy/job.yaml --backend ray --speed 600
lose a node of it:  slacktide cluster kill {node}
end it:             slacktide cluster down"""


@click.command()
@click.option(
    "--machines", "file", type=click.Path(), default=FILE, metavar="FILE",
    help="The machines file: provider, pools and limits.",
)  # fmt: skip
@place_options
@click.option("--owner", metavar="ID", help="Machines rented for the journal with this id.")
@click.option("--all-owners", is_flag=True, help="Machines rented for any journal.")
@click.option("--bill", is_flag=True, help="What each machine cost, next to its provider's own account.")
@click.option("--sweep", is_flag=True, help="End machines that no open ticket explains.")
@click.option("--dry-run", is_flag=True, help="Print what could be rented, or would be ended; do nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before ending machines.")
@common.output_option("table", "json")
def machines(file: str, journal: str | None, server: str | None, output: str, **given: Any) -> None:
    """List what is rented for a journal, with what it has cost so far.

    A machine is explained by an open ticket in the journal. --sweep ends the others: those of the journal,
    or, where the journal is gone, those that carry its id (--owner) or any (--all-owners). What has an
    open ticket in the journal is never ended.

    --bill lists every machine that the journal ever rented, with the hours that it was paid for by the
    journal and by what the provider lists, and the difference. What the provider no longer lists is unknown.
    """
    from slacktide.app.machines import MachinesRequest, choices, list_machines

    owner, all_owners = given["owner"] or "", given["all_owners"]
    used = [name for name in ("owner", "all_owners", "sweep", "dry_run") if given[name]]
    if is_remote(server):
        if used or given["bill"]:
            raise InputError(
                "with --server machines can only be listed, got another option; use it on the server"
            )
        _print_machines(remote(str(server)).machines(), output)
        return
    if owner and all_owners:
        raise InputError("--owner and --all-owners must not be given together, got both")
    path = Path(journal) if journal else None
    request = MachinesRequest(file=Path(file), journal=path, owner=owner, all_owners=all_owners)
    if given["bill"]:
        if used:
            option = f"--{used[0].replace('_', '-')}"
            raise InputError(
                f"--bill must be about a journal, and alone, got {option}; leave one of them out"
            )
        _print_bill(request, output)
    elif given["sweep"]:
        _sweep(request, yes=given["yes"], dry_run=given["dry_run"], output=output)
    else:
        listed = list_machines(request)
        could_rent = choices(request) if given["dry_run"] else None
        _print_machines(listed, output, owners=all_owners, could_rent=could_rent)


def _print_bill(request: MachinesRequest, output: str) -> None:
    from slacktide.app.machines import account
    from slacktide.report.text.bills import machines as report

    bill = account(request)
    if output == "json":
        echo_json(report.account_json(bill))
    else:
        say(report.account_text(bill))


def _print_machines(
    listed: list[MachineStatus],
    output: str,
    *,
    owners: bool = False,
    could_rent: Sequence[Choice] | None = None,
) -> None:
    from slacktide.report.text.tables import machines as report
    from slacktide.report.wire.values import plain

    if output == "json":
        could = {} if could_rent is None else {"could_rent": [_choice_json(choice) for choice in could_rent]}
        echo_json({"machines": [plain(machine) for machine in listed], **could})
        return
    say(report.text(listed, owners=owners))
    orphans = sum(machine.orphan for machine in listed)
    if orphans:
        noun = "machine has" if orphans == 1 else "machines have"
        click.echo(f"{orphans} {noun} no open ticket; `slacktide machines --sweep` ends them", err=True)
    if could_rent is not None:
        say("")
        say(report.choices([(*choice.spec, choice.usd_per_hour, choice.most) for choice in could_rent]))


def _choice_json(choice: Choice) -> dict[str, object]:
    from slacktide.report.wire.values import plain

    spec = choice.spec
    about = {"capacity": spec.kind, "pool": spec.pool, "gpus": spec.gpus}
    return {**about, "usd_per_hour": choice.usd_per_hour, "machines": plain(choice.most)}


def _sweep(request: MachinesRequest, *, yes: bool, dry_run: bool, output: str) -> None:
    """Show the machines without an open ticket, ask, and end them."""
    from slacktide.app.machines import list_machines, sweep
    from slacktide.report.text.tables import machines as report
    from slacktide.report.wire.values import plain

    orphans = [machine for machine in list_machines(request) if machine.orphan]
    if output != "json":
        say(report.text(orphans, owners=True) if orphans else "no machine is without an open ticket")
    ends = orphans and not dry_run and (yes or confirmed("ending machines", f"End {len(orphans)}?"))
    ended = sweep(request, orphans) if ends else []
    if output == "json":
        echo_json({"machines": [plain(machine) for machine in orphans], "ended": ended})
    elif ends:
        click.echo(f"ended {len(ended)}")


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
@click.option("--spot", type=int, default=3, help="Nodes that act as spot machines.")
@click.option("--on-demand", type=int, default=2, help="Nodes that are on demand.")
@click.option("--gpus", type=int, default=2, help="GPUs of each node.")
def up(spot: int, on_demand: int, gpus: int) -> None:
    """Start the cluster; it stays until `slacktide cluster down`."""
    from slacktide.app.setup.cluster import start_cluster
    from slacktide.report.text.tables.machines import cluster_text

    with waiting(f"starting Ray with {format_count(spot + on_demand, 'node')}", patience_s=0.5):
        status, started = start_cluster(spot, on_demand, gpus)
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
