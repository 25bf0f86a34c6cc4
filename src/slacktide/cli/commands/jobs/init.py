"""`slacktide init`: write a commented job or fleet file to start from."""

from __future__ import annotations

from typing import Any

import click

USUAL_DEADLINE = "16h"
USUAL_FILES = {True: "fleet.yaml", False: "job.yaml"}


@click.command()
@click.argument("file", type=click.Path(), metavar="[FILE]", required=False)
@click.option("--fleet", is_flag=True, help="A fleet file: jobs that keep arriving, and one budget.")
@click.option("--name", metavar="NAME", help="The job's name, or that of the fleet's first class.")
@click.option("--gpus", metavar="GPU:WIDTHS", default="H100:1..8", show_default=True, help="GPUs to run on.")
@click.option("--work", metavar="WORK", help="E.g. '40 gpu-hours'; default: enough to leave some slack.")
@click.option("--deadline", metavar="WHEN", help="A duration or a time, for a job.  [default: 16h]")
def init(file: str | None, fleet: bool, **given: Any) -> None:
    """Write a commented job file, or with --fleet a fleet file, to start from.

    FILE is job.yaml or fleet.yaml unless given; - prints it instead. Asks nothing, never overwrites a file.
    `slacktide plan` takes the job file as it is, `slacktide budget` the fleet file.
    """
    from slacktide.app.setup.starter import Starter, starter_text, write_starter
    from slacktide.core.errors import InputError

    for option in ("work", "deadline"):
        if fleet and given[option] is not None:
            raise InputError(f"--{option} must not be given with --fleet; each class says it in the file")
    printed, usual = file == "-", USUAL_FILES[fleet]
    wanted = Starter(
        path=usual if file is None or printed else file,
        fleet=fleet,
        name=given["name"],
        gpus=given["gpus"],
        work=given["work"],
        deadline=given["deadline"] or USUAL_DEADLINE,
    )
    if printed:
        click.echo(starter_text(wanted), nl=False)
        return
    write_starter(wanted)
    click.echo(f"wrote {wanted.path}")
    click.echo(f"next: slacktide {'budget' if fleet else 'plan'} {wanted.path}", err=True)
