"""What may be asked of the process that answers costly questions, and of a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from slacktide.app.jobs.submission import FleetText
from slacktide.app.markets.market import MarketSpec
from slacktide.core.errors import BackendError, InputError
from slacktide.journal.codec.json_scalars import Misfit
from slacktide.journal.codec.json_types import form
from slacktide.journal.events import Sight

Wanted = Literal["text", "decisions", "csv", "report", "png", "svg", "pdf"]
"""What can be made of an answer beside its documented keys: text as the command line prints it, text with
each decision of a typical start, a table, an HTML page, a picture. Pictures come in base64."""

PoolName = Literal["auto", "paper"]
"""What can be chosen from: the few of `policy: auto`, or the paper's 112."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Whose questions are answered."""

    journal: str
    market: MarketSpec = field(default_factory=MarketSpec)
    """The server's own, where a question and its job file name none."""
    fleet: FleetText | None = None
    """The server's, which says what a job leaves to its class."""
    allocator: str = ""
    """The one that decides about the fleet, as JSON; empty: the fleet file's own."""
    learned: str | None = None
    """The file with what was learned of policies; None: that of the server's account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """What would this job cost, and when would it be done?"""

    text: str
    """The job file."""
    name: str = "job.yaml"
    market: str | None = None
    """A synthetic one; None: the job file's, else the server's."""
    sent: str | None = None
    """SHA-256 of a market that was sent before, which comes first; None: there is none."""
    pool: str | None = None
    policy: str | None = None
    start: int | None = None
    wants: tuple[Wanted, ...] = ()
    """What else to make of the answer, told under `made`."""
    check: bool = False
    """Only say whether the plan would be refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestQuestion:
    """How would policies have done with this job on past market data?"""

    text: str
    name: str = "job.yaml"
    market: str | None = None
    sent: str | None = None
    pool: str | None = None
    policies: tuple[str, ...] = ()
    starts: int | None = 24
    every_hours: float | None = None
    """The time between starts, where `starts` is null."""
    truth: str | None = None
    sight: Sight = "feed"
    wants: tuple[Wanted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedQuestion:
    """Which policies have earned the trust of `policy: auto`?"""

    pool_of: PoolName | None = None
    """What to choose from where nothing is learned yet."""
    wants: tuple[Wanted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnQuestion(LearnedQuestion):
    """Which of them do well with this job, started at random times of a market? Trust moves to those."""

    text: str
    name: str = "job.yaml"
    market: str | None = None
    sent: str | None = None
    pool: str | None = None
    jobs: int = 200
    seed: int = 0


AboutJob = PlanQuestion | BacktestQuestion | LearnQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetQuestion:
    """Will everything that was learned of policies be forgotten?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostQuestion:
    """What did a job cost, or the whole journal?"""

    job: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuestion:
    """What does the run of a job look like: as a page, or as a picture?"""

    job: str
    want: Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesQuestion:
    """What is rented?"""


class OutOfMemoryError(BackendError):
    """A question needs more memory than an answer may take; the next one is better asked of a new process."""


def read_as(kind: Any, tree: object) -> Any:
    """Return a typed request from JSON; raises InputError where a field is unknown, absent or of no use."""
    try:
        return form(kind).read(tree)
    except Misfit as misfit:
        raise InputError(f"a request must be as documented: {misfit}") from None
