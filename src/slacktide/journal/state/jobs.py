"""The jobs of a journal in the order they came: recent ones as they are, long ended ones compressed.

A controller runs for months, and sees far more jobs end than it ever runs at once. A job that has ended does
not change any more, so all but the last of them are kept as compressed JSON, a block of them together: some
hundred bytes a job instead of several thousand. A reader gets it unpacked.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass, field
from typing import Any

from slacktide.journal.codec.json_forms import FormMismatch, form
from slacktide.journal.state.job_record import JobRecord

KEPT_ENDED = 256  # how many of the jobs that ended last stay unpacked, because most readers want these
BLOCK_JOBS = 64
"""How many are packed together: they have most of their words in common. One is unpacked in a millisecond."""
AT_HAND = -1  # the place of a job that is not packed


@dataclass(slots=True, eq=False)
class Jobs(Mapping[str, JobRecord]):
    """Every job of a journal by its id; the record of a job that has ended does not change any more."""

    places: dict[str, int] = field(default_factory=dict)
    """In the order they came, the block in which each is packed."""
    at_hand: dict[str, JobRecord] = field(default_factory=dict)
    blocks: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)  # the unpacked jobs that have ended, in that order

    def add(self, record: JobRecord) -> JobRecord:
        """Add a new job and return it, replacing one of the same id."""
        if record.job in self.ended:
            self.ended.remove(record.job)
        self.places[sys.intern(record.job)] = AT_HAND
        self.at_hand[record.job] = record
        return record

    def opened(self, job: str) -> JobRecord:
        """Return a job that an event will change; it is unpacked from now on."""
        if job not in self.at_hand:
            self.at_hand[job] = self[job]
            self.places[job] = AT_HAND
        return self.at_hand[job]

    def put_away(self, job: str) -> None:
        """Note that a job has ended; where too many have, those that ended first are packed."""
        if job not in self.ended:
            self.ended.append(job)
        if len(self.ended) >= KEPT_ENDED + BLOCK_JOBS:
            self._pack(self.ended[:BLOCK_JOBS])
            del self.ended[:BLOCK_JOBS]

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self.places)

    def __contains__(self, job: object) -> bool:
        return job in self.places

    def __getitem__(self, job: str) -> JobRecord:
        found = self.at_hand.get(job)
        return _read(self._trees(self.places[job])[job]) if found is None else found

    def values(self) -> ValuesView[JobRecord]:
        """Return all jobs, each block unpacked once."""
        return _Records(self)

    def walk(self, names: Iterable[str]) -> Iterator[JobRecord]:
        """Yield jobs by their ids; a block is unpacked once, and kept until all its jobs were yielded."""
        left, open_blocks = Counter(self.places.values()), dict[int, dict[str, Any]]()
        for name in names:
            block = self.places[name]
            if block == AT_HAND:
                yield self.at_hand[name]
                continue
            if block not in open_blocks:
                open_blocks[block] = self._trees(block)
            yield _read(open_blocks[block][name])
            left[block] -= 1
            if not left[block]:
                del open_blocks[block]

    def unpacked(self, block: int) -> list[JobRecord]:
        """Return the jobs that were packed together, also those that were opened again since."""
        return [_read(tree) for tree in self._trees(block).values()]

    def _pack(self, names: list[str]) -> None:
        try:
            jobs = [(name, form(JobRecord).plain(self.at_hand[name])) for name in names]
        except FormMismatch:
            return  # what could not be read back stays as it is
        inside = ", ".join(f"{json.dumps(name)}: {form(JobRecord).text(record)}" for name, record in jobs)
        packed = base64.b64encode(zlib.compress(f"{{{inside}}}".encode("ascii"), 9)).decode("ascii")
        for name in names:
            self.places[name] = len(self.blocks)
            del self.at_hand[name]
        # A server folds its journal twice, for its engine and for its readers: they share the text.
        self.blocks.append(sys.intern(packed))

    def _trees(self, block: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(self.blocks[block])))
        return found


class _Records(ValuesView[JobRecord]):
    def __init__(self, jobs: Jobs) -> None:
        super().__init__(jobs)
        self._jobs = jobs

    def __iter__(self) -> Iterator[JobRecord]:
        return self._jobs.walk(list(self._jobs))


def _read(tree: Any) -> JobRecord:
    record: JobRecord = form(JobRecord).read(tree)
    return record
