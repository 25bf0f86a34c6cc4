"""How a controller runs jobs, and what must stay as it is while its journal has unfinished jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from slacktide.app.jobs.submission import Defaults
from slacktide.core.errors import InputError
from slacktide.engine.clock import Clock, resumed_hours
from slacktide.journal.events import ClockSet
from slacktide.journal.state.journal_state import JournalState

if TYPE_CHECKING:
    from slacktide.app.alerts.alert import AlertsFile

DEFAULT_BACKEND = "local"
RENTING_BACKEND = "ray"
ELSE = "leave it out, or give another journal with --journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a controller runs jobs."""

    speed: float | None = None
    """How many times as fast as real time the market's clock runs; None: as before, else 1."""
    notice_s: float = 0.0  # how long before a loss of spot GPUs their workers are notified
    backend: str | None = None
    """None: the one that unfinished jobs run on, else `ray` if machines are rented, else `local`."""
    machines: Path | None = None
    """The machines file, which says what to rent; None: the one in use in this journal, if there is one."""
    learned: Path | None = None  # the file with what the learner knows; None: the user's own
    defaults: Defaults = field(default_factory=Defaults)  # what requests leave open
    alerts: AlertsFile | None = None  # the hooks that receive alerts; None: there are none
    dashboard: str = ""  # where browsers find the server, for links in alerts; empty: there is none

    def backend_name(self, state: JournalState, *, rents: bool) -> str:
        """Return the back end that unfinished jobs run on, else the named one, else the default."""
        if _is_in_use(state) and self.backend not in (None, state.backend):
            raise InputError(
                f"the back end must stay {state.backend} while jobs of this journal are unfinished, got "
                f"{self.backend}; {ELSE}"
            )
        default = RENTING_BACKEND if rents else DEFAULT_BACKEND
        return state.backend if _is_in_use(state) else self.backend or default

    def machines_path(self, state: JournalState) -> str:
        """Return the path of the machines file that was named or is in use already; empty for none."""
        named = "" if self.machines is None else str(self.machines.absolute())
        if state.tickets.open and state.machines and named not in ("", state.machines):
            raise InputError(
                f"the machines file must stay {state.machines} while machines of it are rented, got {named}; "
                f"{ELSE}"
            )
        return named or (state.machines if _is_in_use(state) else "")

    def resumed_clock(self, state: JournalState) -> Clock | None:
        """Return the clock that continues from where the journal left it; None if a new one must start."""
        if state.clock is None or not self._goes_on(state):
            return None
        speed = state.clock.speed
        if self.speed is not None and self.speed != speed:
            raise InputError(
                f"speed must stay {speed:g} while jobs of this journal are unfinished, got {self.speed:g}; "
                f"{ELSE}"
            )
        return Clock(speed, resumed_hours(state.clock, state.anchor, state.now_hours))

    def _goes_on(self, state: JournalState) -> bool:
        """Whether the clock must continue: jobs have not ended, or a fleet's money is counted on it."""
        fleet, speed = self.defaults.fleet, None if state.clock is None else state.clock.speed
        counts = fleet is not None and fleet.shares_market(self.defaults.policy)
        return bool(state.active or (counts and state.fleets and self.speed in (None, speed)))


def clock_set(clock: Clock) -> ClockSet:
    """Return the event of a clock that begins at hour 0 now."""
    return ClockSet(at_hours=0.0, epoch_utc=datetime.now(UTC).isoformat(), speed=clock.speed)


def _is_in_use(state: JournalState) -> bool:
    return bool(state.active or state.tickets.open)
