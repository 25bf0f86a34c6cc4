"""What others have asked of the controller to run, and what it answered: a part of the journal's fold.

A request waits until an answer with its key stands in the journal, so it is answered once: a controller that
was killed before it answered finds it waiting, and one that was killed afterwards finds the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from slacktide.events import Event, SubmissionAsked, SubmissionRefused, Submitted


class Answer(NamedTuple):
    """What became of a request: a job, or a refusal."""

    job: str = ""
    """The job's id; empty when it was refused."""
    why: str = ""
    exit_code: int = 0
    """What kind of refusal it is; 0 when it was taken in."""


@dataclass(slots=True)
class Requests:
    """All requests of a journal, by their keys."""

    waiting: dict[str, SubmissionAsked] = field(default_factory=dict)
    """Those without an answer, in the order they came."""
    answers: dict[str, Answer] = field(default_factory=dict)

    def hear(self, event: Event) -> None:
        """Take an event into account; of two requests with one key the first one counts."""
        match event:
            case SubmissionAsked() if event.key not in self.answers:
                self.waiting.setdefault(event.key, event)
            case SubmissionRefused():
                self._answered(event.key, Answer(why=event.why, exit_code=event.exit_code))
            case Submitted() if event.key:
                self._answered(event.key, Answer(job=event.job))

    def _answered(self, key: str, answer: Answer) -> None:
        self.waiting.pop(key, None)
        self.answers.setdefault(key, answer)
