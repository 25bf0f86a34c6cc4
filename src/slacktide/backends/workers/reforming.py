"""Re-forming: workers that go on in another set without a restart, and how they get their places.

A worker announces that it can (`slacktide.worker.ready`). Its process, its notes and its marker stay where it
began; the intent of the new attempt names them, and is on disk before any worker is notified. Workers that
are added are started first, while the others go on in the old set. When all are ready, each gets its place by
a note. If anything fails or takes too long, the whole set is ended, as if none of them could do this.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from slacktide.backends.workers import environment, job_folder
from slacktide.backends.workers.job_folder import Intent, KeptRank
from slacktide.backends.workers.launch import READY_S, TAKE_S, lower_ranks_first
from slacktide.backends.workers.worker import Worker
from slacktide.backends.workers.worker_set import WorkerSet
from slacktide.journal.events import Capacity


def can_spare(worker_set: WorkerSet, ranks: Collection[int]) -> bool:
    """Say whether the other workers of a set can go on when these ranks are taken."""
    others = [worker for worker in worker_set.workers if worker.rank not in ranks]
    return bool(others) and _whole(worker_set) and all(_is_free(worker) for worker in others)


def staying(worker_set: WorkerSet, kinds: tuple[Capacity, ...]) -> dict[int, Worker]:
    """Return which worker gets which rank of a changed set; empty if all have to be started again."""
    if not _whole(worker_set):
        return {}
    free = [worker for worker in worker_set.workers if _is_free(worker)]
    if any(not worker.signaled for worker in worker_set.workers if worker not in free):
        return {}
    former = [worker.kind if worker in free else None for worker in worker_set.workers]
    return {rank: worker_set.workers[before] for rank, before in lower_ranks_first(kinds, former).items()}


def named(worker_set: WorkerSet, kept: Collection[tuple[int, int]]) -> dict[int, Worker]:
    """Return which worker gets which rank, as the controller decided in `kept`; empty if one cannot stay."""
    if not _whole(worker_set):
        return {}
    free = {worker.rank: worker for worker in worker_set.workers if _is_free(worker)}
    stay = {rank: free[former_rank] for rank, former_rank in kept if former_rank in free}
    return stay if len(stay) == len(kept) else {}


def _whole(worker_set: WorkerSet) -> bool:
    """Say whether a set has begun and lost no worker, and all have announced that they can re-form."""
    if worker_set.stopping or worker_set.broken or not worker_set.begun:
        return False
    return all(is_able(worker) for worker in worker_set.workers)


def are_able(worker_set: WorkerSet) -> bool:
    """Say whether all workers of a set are alive and can re-form."""
    if worker_set.stopping or not worker_set.workers:
        return False
    return all(worker.alive and is_able(worker) for worker in worker_set.workers)


def _is_free(worker: Worker) -> bool:
    return worker.alive and worker.process is not None and not worker.signaled and not worker.dying


def successor(before: Intent, new: Intent, stay: Mapping[int, Worker]) -> Intent:
    """Return the intent of a set, or of this machine's part of one, that takes over these workers."""
    kept = tuple(KeptRank(rank, *before.origin(worker.rank)) for rank, worker in stay.items())
    return replace(new, former=before.attempt, generation=before.generation + 1, kept=kept)


def is_able(worker: Worker) -> bool:
    """Say whether a worker has announced that it can re-form."""
    return os.path.lexists(f"{worker.stem}.able")


class Reforming:
    """How far the workers of a re-formed set have come in taking their places."""

    def __init__(self, worker_set: WorkerSet, intent: Intent, home: Path, since: float, now: float) -> None:
        """Read the notes on disk: an earlier controller may have begun."""
        self.formed_at: float | None = None  # when all were seen to have taken their places
        self.places_sent_at: float | None = None
        """When all had received them: the old set stops working then."""
        self.trouble = ""  # why the set had to be ended; empty when it had not
        self._worker_set, self._intent, self._home, self._since = worker_set, intent, home, since
        if self._all("taken"):
            self.places_sent_at = self.formed_at = since
        elif self._all("place"):
            self.places_sent_at = now

    @property
    def under_way(self) -> bool:
        """Whether some have not taken their places, and still may."""
        return self.formed_at is None and not self._worker_set.stopping

    def advance(self, now: float, *, go: bool = True) -> None:
        """Send places once all are ready, then wait until they are taken; end the set if that takes long.

        `go` says whether workers on other machines are ready too.
        """
        if not self.under_way:
            return
        if self.places_sent_at is None:
            self._send_places(now, go=go)
        elif self._all("taken"):
            self.formed_at = now
        elif now > self.places_sent_at + (patience_s := self._intent.grace_s + TAKE_S):
            self._give_up(f"take their places within {patience_s:g} s, and some did not", now)

    def _all(self, note: str) -> bool:
        """Say whether every worker has a note of this attempt."""
        return all(_attempt(worker, note) == self._intent.attempt for worker in self._worker_set.workers)

    def _send_places(self, now: float, *, go: bool) -> None:
        if not are_able(self._worker_set):
            if any(worker.exit_code is not None for worker in self._worker_set.workers):
                self._give_up("live until all are ready, and some have ended", now)
            elif now > self._since + READY_S:
                self._give_up(f"be ready within {READY_S:g} s, and some were not", now)
            return
        if not go:
            return
        try:
            for worker in self._worker_set.workers:
                job_folder.write_durably(Path(f"{worker.stem}.place"), json.dumps(self._place(worker)))
        except OSError as error:  # some may have received theirs, and others cannot
            self._give_up(f"receive their places, got: {error}", now)
            return
        self.places_sent_at = now

    def _give_up(self, what: str, now: float) -> None:
        self.trouble = f"workers that re-form must {what}; all of them are started again"
        self._worker_set.stop(now)

    def _place(self, worker: Worker) -> Mapping[str, object]:
        """Return the place of a worker, as it is written for it."""
        variables = environment.rank_variables(self._intent, worker.rank)
        log = str(self._home / f"rank-{worker.rank}.log")
        return {"attempt": self._intent.attempt, "log": log, "variables": variables}


def _attempt(worker: Worker, note: str) -> int | None:
    """Return the attempt that a note names; None if there is no such note."""
    try:
        return int(json.loads(job_folder.read_text(Path(f"{worker.stem}.{note}")))["attempt"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
