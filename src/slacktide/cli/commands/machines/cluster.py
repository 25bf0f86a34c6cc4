"""`slacktide cluster`: a Ray cluster of several nodes on this machine, to try things out on."""

from __future__ import annotations

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import echo_json, say
from slacktide.core.units import format_count

NONE = "no cluster is running; start one with `slacktide cluster up`"
NEXT = """
run a job on it:    slacktide run examples/numpy/job.yaml --backend ray --speed 600
lose a node of it:  slacktide cluster kill {node}
end it:             slacktide cluster down"""


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
    from slacktide.cli.shared.output import waiting
    from slacktide.report.text.tables.cluster import text

    request = ClusterRequest(spot=spot, on_demand=on_demand, gpus=gpus)
    with waiting(f"starting Ray with {format_count(spot + on_demand, 'node')}", patience_s=0.5):
        status, started = start_cluster(request)
    say(text(status) if started else f"it is already running\n{text(status)}")
    alive = [node.name for node in status.nodes if node.alive]
    say(NEXT.format(node=alive[0] if alive else "NODE"))


@cluster.command()
@common.output_option("table", "json")
def status(output: str) -> None:
    """Show the nodes of the cluster and how many workers run on each."""
    from slacktide.app.setup.cluster import cluster_status
    from slacktide.report.text.tables.cluster import as_json, text

    found = cluster_status()
    if output == "json":
        echo_json(as_json(found))
    else:
        say(NONE if found is None else text(found))


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
