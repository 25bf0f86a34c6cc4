"""`slacktide jobs`: every job of a journal and where it stands."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli import options as common
from slacktide.cli.journals import elapsed_hours, journal_option, opened, policy_of, status_of, task_of

if TYPE_CHECKING:
    from slacktide.engine.world import Track, World


@click.command()
@journal_option
@common.output_option("table", "json")
def jobs(journal: str | None, output: str) -> None:
    """List the jobs of a journal, as of its last event."""
    from slacktide.report import jobs as report
    from slacktide.running import read_world

    with opened(journal) as store:
        world = read_world(store)
    listed = [_listed(track, world) for track in world.jobs.values()]
    if output == "json":
        common.echo_json({"jobs": [report.as_json(one) for one in listed]})
    else:
        click.echo(report.text(listed))


def _listed(track: Track, world: World) -> Any:
    from slacktide.report.jobs import Listed

    order = track.order
    work_gpu_hours, deadline_hours = task_of(track)
    return Listed(
        name=track.job,
        policy=policy_of(track),
        status=status_of(track, world),
        health=track.health,
        hours=elapsed_hours(track, world.now_hours),
        spot_gpus=order.spot_gpus if order else 0,
        on_demand_gpus=order.on_demand_gpus if order else 0,
        progress_gpu_hours=track.state.progress_gpu_hours,
        cost_usd=track.bill.cost_usd,
        preemptions=track.preemptions,
        submitted_utc=track.submitted.submitted_utc.replace("+00:00", "Z"),
        work_gpu_hours=work_gpu_hours,
        deadline_hours=deadline_hours if math.isfinite(deadline_hours) else None,
    )
