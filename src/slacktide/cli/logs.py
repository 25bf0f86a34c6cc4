"""`slacktide logs`: what the workers of a job printed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slacktide.cli import options as common
from slacktide.cli.journals import FOLLOW_S, journal_option, journal_path, opened

if TYPE_CHECKING:
    from slacktide.backend.local.sighting import LogFile

CHUNK_BYTES = 1 << 20


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
    from slacktide.running import read_world, runs_of, track_of

    with opened(journal) as store:
        world = read_world(store)
        track = track_of(world, job)
        printed = Printed(runs_of(journal_path(journal)), job, rank, attempt)
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
    """Follows the output of a job's workers, file by file as they come."""

    def __init__(self, runs: Path, job: str, rank: int | None, attempt: int | None) -> None:
        from slacktide.backend.local.processes import Processes

        self._processes, self._job = Processes(runs, "reader"), job
        self._rank, self._attempt = rank, attempt
        self._read: dict[Path, int] = {}

    def more(self, *, last: bool) -> Iterator[tuple[LogFile, str]]:
        """Yield the lines that came since; a line without its end only when nothing more will come."""
        for where in self._processes.logs(self._job):
            if self._rank in (None, where.rank) and self._attempt in (None, where.attempt):
                yield from ((where, line) for line in self._lines(where.path, last))

    def _lines(self, path: Path, last: bool) -> Iterator[str]:
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            for line in file:
                if not line.endswith(b"\n") and not last:
                    return
                self._read[path] = self._read.get(path, 0) + len(line)
                yield line.decode("utf-8", "replace").rstrip("\r\n")


def _print(where: LogFile, line: str, output: str) -> None:
    if output == "json":
        click.echo(json.dumps({"attempt": where.attempt, "rank": where.rank, "line": line}))
    else:
        name = f"{where.attempt}/{where.rank}" if where.attempt else "setup"
        click.echo(f"{name:<6}| {line}")
