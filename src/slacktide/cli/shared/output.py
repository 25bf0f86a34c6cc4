"""How text that others wrote is printed: journals, job files and logs may come from anyone."""

from __future__ import annotations

import sys

import click


def is_terminal(*, err: bool = False) -> bool:
    """Whether somebody reads this on a terminal."""
    return (sys.stderr if err else sys.stdout).isatty()


def say(text: str, *, err: bool = False) -> None:
    """Print lines; on a terminal without anything that could steer it."""
    from slacktide.report.terminal import visible

    click.echo(visible(text) if is_terminal(err=err) else text, err=err)
