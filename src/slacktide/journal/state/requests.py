"""The submissions that were requested, and what the controller answered: a part of the journal's fold.

A request waits until an answer with its key stands in the journal, so it is answered once: a controller that
was killed before it answered finds it waiting, and one that was killed afterwards finds the answer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from slacktide.journal.events import Event, SubmissionAsked, SubmissionRefused, Submitted


class RequestAnswer(NamedTuple):
    """What became of a request: a job, or a refusal."""

    job: str = ""  # the job's id; empty when it was refused
    why: str = ""
    exit_code: int = 0  # what kind of refusal it is; 0 when it was taken in


@dataclass(slots=True, eq=False)
class RequestAnswers(Mapping[str, RequestAnswer]):
    """What became of every request, by its key: the same key gets the same answer for ever."""

    taken_in: dict[str, str] = field(default_factory=dict)
    """The jobs that requests became. There are as many as jobs, so nothing else is kept of them."""
    refused: dict[str, RequestAnswer] = field(default_factory=dict)

    def give(self, key: str, answer: RequestAnswer) -> None:
        """Note what became of a request; the first answer counts."""
        if key in self:
            return
        if answer.job:
            self.taken_in[sys.intern(key)] = sys.intern(answer.job)
        else:
            self.refused[key] = answer

    def __len__(self) -> int:
        return len(self.taken_in) + len(self.refused)

    def __iter__(self) -> Iterator[str]:
        yield from self.taken_in
        yield from self.refused

    def __contains__(self, key: object) -> bool:
        return key in self.taken_in or key in self.refused

    def __getitem__(self, key: str) -> RequestAnswer:
        return RequestAnswer(job=self.taken_in[key]) if key in self.taken_in else self.refused[key]


@dataclass(slots=True)
class Requests:
    """All requests of a journal, by their keys."""

    waiting: dict[str, SubmissionAsked] = field(default_factory=dict)
    """Those without an answer, in the order they came."""
    answers: RequestAnswers = field(default_factory=RequestAnswers)

    def apply(self, event: Event) -> None:
        """Take an event into account; of two requests with one key the first one counts."""
        match event:
            case SubmissionAsked() if event.key not in self.answers:
                self.waiting.setdefault(event.key, event)
            case SubmissionRefused():
                self._answered(event.key, RequestAnswer(why=event.why, exit_code=event.exit_code))
            case Submitted() if event.key:
                self._answered(event.key, RequestAnswer(job=event.job))

    def _answered(self, key: str, answer: RequestAnswer) -> None:
        self.waiting.pop(key, None)
        self.answers.give(key, answer)
