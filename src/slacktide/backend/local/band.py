"""The workers of one attempt: begun together, ended together."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from slacktide.backend.local import folder, machine
from slacktide.backend.local.worker import Worker


class Band:
    """Workers that are told to end with SIGTERM, patience and SIGKILL, until nothing of theirs is left."""

    def __init__(self, attempt: int, workers: Iterable[Worker], stop_path: Path, grace_s: float) -> None:
        self.attempt = attempt
        self.workers = tuple(workers)
        self.stopping = False
        self._stop_path = stop_path
        self._grace_s = grace_s
        self._reload()

    @property
    def begun(self) -> bool:
        """All workers have registered."""
        return all(worker.process or worker.exit_code is not None for worker in self.workers)

    @property
    def lacking(self) -> bool:
        """Some workers have to be started."""
        return not self.stopping and any(worker.awaited for worker in self.workers)

    @property
    def gone(self) -> bool:
        """Nothing is left, neither of the workers nor of what they started."""
        return all(worker.cleared and not worker.present for worker in self.workers)

    @property
    def failed_rank(self) -> int | None:
        """The first worker that ended badly though nobody had asked it to."""
        failed = [worker for worker in self.workers if worker.exit_code and not worker.asked]
        return min(failed, key=lambda worker: worker.ended_ns).rank if failed else None

    def poll(self, now: float) -> None:
        """See who ended, end those with whom patience is over, and clear up behind those who ended."""
        for worker in self.workers:
            worker.poll()
        overdue = [worker for worker in self.workers if worker.alive and worker.kill_at <= now]
        self._tell(overdue, signal.SIGKILL)
        self._clear([worker for worker in self.workers if self._to_clear(worker, now)], now)

    def stop(self, now: float) -> None:
        """Tell all to end."""
        self.take((), 0.0, now)

    def take(self, ranks: Collection[int], notice_s: float, now: float) -> None:
        """Tell all to end, and give these ranks only so much notice; without any they are killed at once.

        Told again, nobody gets a second SIGTERM or more time than before.
        """
        self.fence()
        for worker in self.workers:
            worker.poll()
            if not worker.cleared:
                patience_s = notice_s if worker.rank in ranks else self._grace_s
                worker.kill_at = min(worker.kill_at, now + patience_s)
        self._tell(
            [worker for worker in self.workers if worker.alive and worker.kill_at <= now], signal.SIGKILL
        )
        self._tell([worker for worker in self.workers if worker.alive and not worker.asked], signal.SIGTERM)

    def fence(self) -> None:
        """Let nobody begin who has not begun.

        Where the note cannot be written, who begins nevertheless is ended with the others when time is up.
        """
        self.stopping = True
        with suppress(OSError):
            # The time of the first note stays: who ended before it had not been told.
            os.close(os.open(self._stop_path, os.O_CREAT | os.O_WRONLY, 0o600))

    def _reload(self) -> None:
        """Take up what an earlier controller left: who registered, who ended, and who had been told to."""
        told_ns = folder.age_ns(self._stop_path)
        self.stopping = told_ns is not None
        for worker in self.workers:
            worker.poll()
            worker.asked = told_ns is not None and worker.exit_code is not None and worker.ended_ns >= told_ns

    def _to_clear(self, worker: Worker, now: float) -> bool:
        """Say whether to look for leftovers: after the end, when those found have gone, or if time is up."""
        if worker.alive or worker.cleared or (worker.awaited and not self.stopping):
            return False
        worker.leftovers = [process for process in worker.leftovers if machine.alive(process)]
        return not worker.leftovers or worker.kill_at <= now

    def _clear(self, workers: Collection[Worker], now: float) -> None:
        seen = list(machine.scan()) if workers else []
        for worker in workers:
            worker.clear(now, self._grace_s, seen)

    @staticmethod
    def _tell(workers: Collection[Worker], number: signal.Signals) -> None:
        seen = list(machine.scan()) if workers else []
        for worker in workers:
            worker.tell(number, seen)
