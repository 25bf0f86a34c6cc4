"""How commands print results (on stdout) and progress (on stderr), and how they ask for confirmation.

Text that others wrote (journals, job files and logs may come from anyone) must be printed with `say`.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import click

from slacktide.core.errors import InputError
from slacktide.report.terminal import PIPE_LENGTH, visible

PATIENCE_S = 2.0  # work shorter than this shows no progress
TICK_S = 1.0  # how often a terminal shows the seconds so far

WARNING = "WARNING: "  # the beginning of an assumption that is also printed on stderr


def is_terminal(*, err: bool = False) -> bool:
    """Whether stdout goes to a terminal; `err`: whether stderr does."""
    return (sys.stderr if err else sys.stdout).isatty()


def say(text: str, *, err: bool = False) -> None:
    """Print lines; on a terminal without control characters, with which text could manipulate it."""
    click.echo(visible(text) if is_terminal(err=err) else text, err=err)


def echo_json(document: object) -> None:
    """Print a document as JSON."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))


def print_plugins(known: Sequence[Mapping[str, Any]], output: str) -> None:
    """Print each plug-in with its sentence, and with its settings or parameters if it has any."""
    if output == "json":
        echo_json(known)
        return
    for plugin in known:
        click.echo(f"{click.style(str(plugin['name']), bold=True)}\n    {plugin['summary']}")
        settings = plugin.get("settings", plugin.get("parameters"))
        if settings is not None:
            click.echo(f"    settings: {', '.join(settings)}")


def line_length() -> int:
    """Return the width of the terminal in characters, or a large one for a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_LENGTH


def print_rich(*renderables: object) -> None:
    """Print objects of the library rich: in color on a terminal, wide and plain into a pipe."""
    from rich.console import Console

    from slacktide.report.printing import fitting, rendered

    if not sys.stdout.isatty():
        click.echo(rendered(*renderables), nl=False)
        return
    console = Console(highlight=False)
    for renderable in renderables:
        console.print(fitting(renderable, console))


def write_files(given: Mapping[str, Any], **write: Callable[[str], object]) -> None:
    """Write the files that options request, each by the function of the same name; say so on stderr."""
    for name, write_one in write.items():
        if given[name] is not None:
            write_one(given[name])
            click.echo(f"wrote {given[name]}", err=True)


class ProgressBar:
    """A progress bar on stderr, shown only on a terminal and only when the work takes a while."""

    def __init__(self, title: str) -> None:
        self._title, self._began = title, time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> ProgressBar:
        return self

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            if not sys.stderr.isatty() or time.monotonic() - self._began < PATIENCE_S:
                return
            self._open(total)
        self._bar.update(self._task, completed=done, total=total)

    def _open(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import Progress

        # On stderr, so that results on stdout can be piped.
        self._bar = Progress(console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(self._title, total=total)
        self._bar.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def waiting(what: str, *, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Print what is being done while the block runs, if it takes longer than `patience_s`.

    A terminal counts the seconds in one line, which is removed afterwards; a log gets a line when the wait
    becomes long, and one when it is over.
    """
    over = threading.Event()
    thread = threading.Thread(target=_report_wait, args=(what, over, patience_s), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()  # wait until its line is cleared, before the next output


def _report_wait(what: str, over: threading.Event, patience_s: float) -> None:
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
        # \r and CSI K: to the start of the line, and clear it.
        click.echo(f"\r\033[K{what} ... {time.monotonic() - began:.0f} s", err=True, nl=False)
        shown = not over.wait(TICK_S)
    click.echo("\r\033[K", err=True, nl=False)


def warn(assumptions: Sequence[str]) -> None:
    """Print on stderr those assumptions of a plan that are warnings."""
    for sentence in assumptions:
        if sentence.startswith(WARNING):
            click.echo(sentence, err=True)


def is_interactive() -> bool:
    """Whether a user can answer questions: stdin and stdout are terminals."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def confirmed(doing: str, question: str) -> bool:
    """Ask before something that costs money or loses work; raises InputError without a terminal."""
    if not is_interactive():
        raise InputError(f"{doing} must be confirmed, got no terminal to ask on; add -y")
    return click.confirm(question)


def confirm_forgetting(what: str, *, sure: bool) -> None:
    """Ask before learned state is deleted, and abort on "no"; raises InputError without a terminal."""
    if sure:
        return
    if not sys.stdin.isatty():
        raise InputError(f"forgetting {what} must be confirmed, got no terminal to ask on; give -y")
    click.confirm(f"forget everything learned in {what}?", abort=True, err=True)
