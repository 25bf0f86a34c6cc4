"""What the engine asks of whoever holds the GPUs: make it so, look, take away, let go."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from slacktide.jobfile import JobFile
from slacktide.physics import Terms
from slacktide.types import JobState, Quote


class Order(NamedTuple):
    """What a job is to hold from a moment on."""

    job: str
    attempt: int
    """Number of the set of workers: the same order again changes nothing, a new number begins a new set."""
    slot: int
    from_hours: float
    """Hours since the job began; all hours here are on the job's market clock."""
    quote: Quote
    state: JobState
    """The job at that moment, what the market took already gone."""
    spot_gpus: int
    on_demand_gpus: int
    ending: bool = False
    """Whether all of it is being let go; it is paid for until it is gone."""
    delay_s: float = 0.0
    """Wait this long before new workers are started, in seconds of the wall clock."""

    @property
    def gpus(self) -> int:
        """The width: spot and on demand together."""
        return self.spot_gpus + self.on_demand_gpus


class Failure(NamedTuple):
    """A worker that ended although nobody asked it to."""

    rank: int
    exit_code: int
    hopeless: bool = False
    """Whether trying again would end the same: the command does not exist, or the set-up failed."""
    what: str = ""


class Seen(NamedTuple):
    """What became of an order by a moment."""

    state: JobState
    """The job at `to_hours`; it says itself whether it has ended."""
    to_hours: float
    """Until when this account goes: the moment asked for, or the end of the job before it."""
    spot_usd: float
    on_demand_usd: float
    pause_hours: float
    productive_hours: float
    failure: Failure | None = None
    silent_s: float = 0.0
    """Seconds of the wall clock since the last sign of progress."""
    gone: bool = False
    """Whether no worker is left."""


class Backend(Protocol):
    """Holds GPUs for jobs. Every call returns at once and may be repeated."""

    def enter(self, job: str, terms: Terms, file: JobFile | None) -> None:
        """Get to know a job; raises InputError or BackendError when it cannot be run here."""
        ...

    def hold(self, order: Order) -> None:
        """Make it so."""
        ...

    def look(self, order: Order, now_hours: float) -> Seen:
        """Say what became of the order between its beginning and now; changes nothing."""
        ...

    def take(self, job: str, spot_left: int) -> None:
        """Take spot GPUs away as the market does, until only this many are left."""
        ...

    def stop_hours(self, job: str) -> float:
        """Return how many market hours letting go of everything may take."""
        ...

    def tick(self) -> None:
        """Move on whatever is under way."""
        ...

    def sweep(self, orders: list[Order]) -> None:
        """End every worker that no order explains, and watch over those that one does."""
        ...
