"""`slacktide examples`: list the examples that ship with Slacktide, or copy one."""

from __future__ import annotations

from pathlib import Path

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import echo_json


@click.command()
@click.argument("name", required=False)
@click.argument("folder", type=click.Path(file_okay=False), default=".", required=False)
@common.output_option("text", "json")
def examples(name: str | None, folder: str, output: str) -> None:
    """List the examples, or copy the one called NAME into FOLDER (default: the current one).

    Nothing is overwritten. An example is one YAML file, or a folder with a job file in it.
    """
    from slacktide.app.setup.examples import list_examples

    if name is not None:
        _copy(name, folder, output)
    elif output == "json":
        echo_json([{"name": one.name, "summary": one.summary} for one in list_examples()])
    else:
        known = list_examples()
        width = max(len(one.name) for one in known)
        for one in known:
            click.echo(f"{click.style(f'{one.name:<{width}}', bold=True)}  {one.summary}")
        click.echo("\n`slacktide examples NAME` copies one into this folder", err=True)


def _copy(name: str, folder: str, output: str) -> None:
    from slacktide.app.setup.examples import copy_example, file_of

    written = copy_example(name, folder)
    if output == "json":
        echo_json({"name": name, "written": [str(path) for path in written]})
        return
    for path in written:
        click.echo(f"wrote {path}")
    click.echo(f"next: {_next(file_of(written[0]))}", err=True)


def _next(path: Path) -> str:
    """Return the command that shows what an example does."""
    if path.suffix == ".md":
        return f"read {path}"
    text = path.read_text(encoding="utf-8")
    verb = "plan" if "\nbudget:" not in text else "simulate" if "\nmarket:" in text else "budget"
    return f"slacktide {verb} {path}"
