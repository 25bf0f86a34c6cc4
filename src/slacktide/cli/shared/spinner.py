"""Say on stderr what takes a while, so that nobody takes silence for a standstill."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from slacktide.cli.shared.options import PATIENCE_S

TICK_S = 1.0
"""How often a terminal shows how long it has taken so far."""


@contextmanager
def waiting(what: str, *, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Say what is being done, once it takes longer than a moment.

    A terminal counts the seconds in one line, which is gone afterwards; a log gets a line when it begins to
    take long, and one when it is done.
    """
    over = threading.Event()
    thread = threading.Thread(target=_tell, args=(what, over, patience_s), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _tell(what: str, over: threading.Event, patience_s: float) -> None:
    began = time.monotonic()
    if over.wait(patience_s):
        return
    if not sys.stderr.isatty():
        click.echo(f"{what} ...", err=True)
        over.wait()
        click.echo(f"{what}: done after {time.monotonic() - began:.0f} s", err=True)
        return
    shown = True
    while shown:
        click.echo(f"\r\033[K{what} ... {time.monotonic() - began:.0f} s", err=True, nl=False)
        shown = not over.wait(TICK_S)
    click.echo("\r\033[K", err=True, nl=False)
