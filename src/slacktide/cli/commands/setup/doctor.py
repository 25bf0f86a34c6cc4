"""`slacktide doctor`: finds what is missing on this machine."""

from __future__ import annotations

from dataclasses import asdict

import click

from slacktide.cli.shared import options as common
from slacktide.cli.shared.output import echo_json, say


@click.command()
@common.output_option("table", "json")
def doctor(output: str) -> int:
    """Look for what Slacktide needs on this machine, and say how to get what is missing.

    A line is `ok`, `missing`, or `optional`: only a part of Slacktide needs it. Nothing is installed, started
    or sent, and no credential is read. Exits with 1 when something is missing.
    """
    from slacktide.app.setup.doctor import examine
    from slacktide.report.text.tables.grid import Column, Grid, as_text

    found = examine()
    if output == "json":
        echo_json({"findings": [asdict(one) for one in found]})
    else:
        columns = tuple(Column(name, right=False) for name in ("what", "state", "found", "remedy"))
        say(as_text(Grid(columns, tuple((one.name, one.state, one.found, one.remedy) for one in found))))
    return 1 if any(one.state == "missing" for one in found) else 0
