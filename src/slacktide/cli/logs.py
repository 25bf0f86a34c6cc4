"""`slacktide logs`: what the workers of a job printed."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from slacktide.cli import options as common
from slacktide.cli.journals import FOLLOW_S, journal_option, journal_path, opened

if TYPE_CHECKING:
    from slacktide.backend.base import Backend, Log


@click.command()
@click.argument("job", metavar="JOB")
@click.option("--rank", type=int, metavar="N", help="Only this worker.")
@click.option("--attempt", type=int, metavar="N", help="Only this set of workers; 0 is the set-up.")
@click.option("-f", "--follow", is_flag=True, help="Go on as more is printed, until the job has ended.")
@journal_option
@common.output_option("text", "json")
def logs(
    job: str, rank: int | None, attempt: int | None, follow: bool, journal: str | None, output: str
) -> None:
    """Print what the workers of JOB printed, each line after its attempt and rank.

    JSON is an object per line.
    """
    from slacktide.backend.base import Place, backends
    from slacktide.running import read_world, runs_of, track_of

    with opened(journal) as store:
        world = read_world(store)
        track = track_of(world, job)
        place = Place(folder=runs_of(journal_path(journal)), owner="reader")
        printed = Printed(backends.make({world.backend: {"place": place}}), job, rank, attempt)
        while True:
            over = not track.active
            for where, line in printed.more(last=over or not follow):
                _print(where, line, output)
            if over or not follow:
                return
            time.sleep(FOLLOW_S)
            for record in store.read(after=world.seq):
                world.apply(record)


class Printed:
    """Follows the output of a job's workers, one after another as they come."""

    def __init__(self, backend: Backend, job: str, rank: int | None, attempt: int | None) -> None:
        self._backend, self._job = backend, job
        self._rank, self._attempt = rank, attempt
        self._read: Counter[tuple[int, int]] = Counter()
        """Bytes that were read of what each worker printed."""

    def more(self, *, last: bool) -> Iterator[tuple[Log, str]]:
        """Yield the lines that came since; a line without its end only when nothing more will come."""
        for log in self._backend.logs(self._job):
            if self._rank in (None, log.rank) and self._attempt in (None, log.attempt):
                yield from ((log, line) for line in self._lines(log, last))

    def _lines(self, log: Log, last: bool) -> Iterator[str]:
        who = log.attempt, log.rank
        for line in log.read(self._read[who]):
            if not line.endswith(b"\n") and not last:
                return
            self._read[who] += len(line)
            yield line.decode("utf-8", "replace").rstrip("\r\n")


def _print(where: Log, line: str, output: str) -> None:
    if output == "json":
        click.echo(json.dumps({"attempt": where.attempt, "rank": where.rank, "line": line}))
    else:
        name = f"{where.attempt}/{where.rank}" if where.attempt else "setup"
        click.echo(f"{name:<6}| {line}")
