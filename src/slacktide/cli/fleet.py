"""`slacktide fleet`: what past jobs say about a fleet."""

from __future__ import annotations

import click


@click.group()
def fleet() -> None:
    """Make fleet files."""


@fleet.command()
@click.argument("past", type=click.Path(), metavar="PAST.csv")
@click.option("--by", metavar="COLUMN", help="The column that names the kind of a job; otherwise guessed.")
@click.option("--classes", type=int, default=8, show_default=True, help="How many classes at most.")
def learn(past: str, by: str | None, classes: int) -> None:
    """Print a fleet file with the classes, rates, sizes and speedups of the jobs in PAST.csv.

    PAST.csv is a table with a header, separated by commas, bars, tabs or semicolons: for instance
    `sacct -P -o JobID,JobName,Submit,Elapsed,AllocTRES,State`, or an export of Weights & Biases runs. It must
    say when a job came (ISO or epoch time), how long it ran, and on how many GPUs. What the table cannot tell
    is marked UNSURE in the comments.
    """
    from slacktide.app.past import fleet_text, learn_fleet

    click.echo(fleet_text(learn_fleet(past, by=by, classes=classes)), nl=False)
