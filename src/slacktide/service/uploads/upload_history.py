"""Files of jobs that came over the network, removed when no job needs them any more.

A folder is kept while its job waits or runs, and for some days after its end: results may lie in it. A folder
for which no job ever came is kept for a day. All of it is worked out from the journal, so a server that is
killed in the middle finds the same again.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from slacktide.engine.job.launch_spec import came_over_network
from slacktide.journal.events import Ended
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.store.base import Store
from slacktide.service.uploads.uploads import KEPT_S, Uploads

KEPT_DAYS = 7.0
"""How long the files of a job are kept after its end."""


class UploadHistory:
    """Knows the job of every folder, and finds the folders that no job needs any more."""

    def __init__(self, uploads: Uploads, store: Store, keep_days: float = KEPT_DAYS) -> None:
        self._uploads, self._store, self._keep_s = uploads, store, keep_days * 24 * 3600.0
        self._ended_s: dict[str, float] = {}
        """When jobs ended, of those whose folders are still there."""

    def spent(self, state: JournalState, folders: Iterable[str], now_s: float) -> list[str]:
        """Return those of these folders whose jobs ended long enough ago."""
        waiting = {_folder(one.path) for one in state.requests.waiting.values()}
        active = {_folder(record.submitted.path) for record in state.active}
        jobs = {_folder(record.submitted.path): record.job for record in state.jobs.values()}
        over = [name for name in folders if name in jobs and name not in waiting | active]
        return [name for name in over if self._ended(jobs[name]) + self._keep_s < now_s]

    def orphans(self, state: JournalState, folders: Iterable[str], now_s: float) -> list[str]:
        """Return those of these folders that are some time old and belong to no job."""
        known = {_folder(one.path) for one in state.requests.waiting.values()}
        known |= {_folder(record.submitted.path) for record in state.jobs.values()}
        return [name for name in folders if name not in known and self._uploads.age_s(name, now_s) > KEPT_S]

    def _ended(self, job: str) -> float:
        """Return when a job ended, by the wall clock; infinity if the journal does not say."""
        if job not in self._ended_s:
            ends = [one.time_utc for one in self._store.read(job=job) if isinstance(one.event, Ended)]
            self._ended_s[job] = _seconds(ends[-1]) if ends else float("inf")
        return self._ended_s[job]


def _seconds(moment: datetime) -> float:
    return moment.timestamp()


def _folder(path: str) -> str:
    """Return the folder of a job that came over the network; empty for another job."""
    return Path(path).parent.name if came_over_network(path) else ""
