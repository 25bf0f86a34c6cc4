"""The rows of the list of jobs: computed again for unfinished jobs, once for those that have ended."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from slacktide.app.journal.listing import listed
from slacktide.journal.state.jobs import AT_HAND, Jobs
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.report.text.tables import jobs as jobs_report
from slacktide.results.status import JobStatus

Row = dict[str, Any]


class JobRows:
    """Rows of jobs under their documented keys, the newest first.

    Those of jobs that are packed are kept packed, too: dashboards request the list of all jobs all the time.
    """

    def __init__(self) -> None:
        self._ended: dict[str, tuple[JobStatus, Row]] = {}
        self._packed: dict[int, bytes] = {}

    def of(self, record: JobRecord, state: JournalState, in_charge: bool) -> tuple[JobStatus, Row]:
        """Return where a job stands, and its row."""
        known = self._ended.get(record.job)
        if known is None:
            status = listed(record, state, in_charge=in_charge)
            known = status, jobs_report.as_json(status)
            if record.ended is not None and record.job in state.jobs.at_hand:  # no more can happen to it
                self._ended[record.job] = known
        return known

    def at_hand(self, state: JournalState, in_charge: bool, only: Iterable[str] | None) -> dict[str, Row]:
        """Return the rows of jobs that need not be unpacked; of some of them, or of all."""
        records = state.jobs.at_hand
        for job in self._ended.keys() - records.keys():
            del self._ended[job]
        names = records if only is None else [job for job in only if job in records]
        return {job: self.of(records[job], state, in_charge)[1] for job in names}

    def newest_first(
        self, places: dict[str, int], rows: Mapping[str, Row], state: JournalState
    ) -> Iterator[Row]:
        """Yield the rows of all jobs; `rows` are those at hand, `places` says where the others are packed."""
        opened: tuple[int, dict[str, Row]] = (AT_HAND, {})
        for job in reversed(places):
            if job in rows:
                yield rows[job]
                continue
            if opened[0] != places[job]:
                opened = places[job], self._unpacked(places[job], state)
            yield opened[1][job]

    def _unpacked(self, block: int, state: JournalState) -> dict[str, Row]:
        if block not in self._packed:
            self._packed[block] = zlib.compress(json.dumps(_rows(state.jobs, block, state)).encode(), 6)
        found: dict[str, Row] = json.loads(zlib.decompress(self._packed[block]))
        return found


def _rows(jobs: Jobs, block: int, state: JournalState) -> dict[str, Row]:
    """Return the rows of jobs that have ended: no controller need be in charge of them."""
    return {
        record.job: jobs_report.as_json(listed(record, state, in_charge=False))
        for record in jobs.unpacked(block)
    }
