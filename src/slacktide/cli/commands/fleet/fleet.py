"""`slacktide fleet`: what past jobs say about a fleet."""

from __future__ import annotations

import click


@click.group()
def fleet() -> None:
    """Make fleet files."""


@fleet.command()
@click.argument("past", type=click.Path(), metavar="PAST.csv")
@click.option("--by", metavar="COLUMN", help="The column with the kind of a job; guessed by default.")
@click.option("--classes", type=int, default=8, show_default=True, help="Maximum number of classes.")
def learn(past: str, by: str | None, classes: int) -> None:
    """Print a fleet file with the classes, rates, sizes and speedups of the jobs in PAST.csv.

    PAST.csv is a table with a header, separated by commas, bars, tabs or semicolons: for instance
    `sacct -P -o JobID,JobName,Submit,Elapsed,AllocTRES,State`, or an export of Weights & Biases runs. It must
    say when a job was submitted (ISO or epoch), how long it ran, and on how many GPUs. What it cannot say
    is marked UNSURE in the comments.
    """
    from slacktide.app.fleets.past_jobs import fleet_text, learn_fleet

    click.echo(fleet_text(learn_fleet(past, by=by, classes=classes)), nl=False)
