"""The live loop round the engine: read the clock, step, show, wait."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable

from slacktide.backends.base import RentsMachines
from slacktide.core.errors import BackendError, LeaseError
from slacktide.core.units import format_count
from slacktide.engine.clock import Clock
from slacktide.engine.engine import Engine

POLL_S = 0.05
PATIENCE_S = 30.0
"""A disk that is full or a machine that cannot start processes may recover; after this long we let go."""
LETTING_GO_S = 60.0
GIVING_BACK_S = 15.0  # how long machines may take to be given back before that is said


def live(
    engine: Engine,
    clock: Clock,
    *,
    between: Callable[[], None] = lambda: None,
    over: Callable[[], bool] = lambda: True,
    show: Callable[[float], None] = lambda now_hours: None,
    stopping: Callable[[], bool] = lambda: False,
    complain: Callable[[BackendError], None] = lambda error: None,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
    poll_s: float = POLL_S,
    patience_s: float = PATIENCE_S,
) -> None:
    """Run until it is over, or, once `stopping` says so, until everything is let go.

    It is over when every job has ended, and `over` agrees. `between` is done after each step.
    When the journal or the machine fails, nothing is decided and the step is tried again; if that goes
    on for too long, or anything else goes wrong, the workers are let go and the error is raised.
    """
    try:
        _go_round(
            engine, clock, between, over, show, stopping, complain, sleep, monotonic, poll_s, patience_s
        )
    except BaseException:
        _let_go(engine, sleep, monotonic)
        raise


def _go_round(
    engine: Engine,
    clock: Clock,
    between: Callable[[], None],
    over: Callable[[], bool],
    show: Callable[[float], None],
    stopping: Callable[[], bool],
    complain: Callable[[BackendError], None],
    sleep: Callable[[float], None],
    monotonic: Callable[[], float],
    poll_s: float,
    patience_s: float,
) -> None:
    trouble: float | None = None
    giving_back = GivingBack(engine, complain, monotonic)
    while True:
        if stopping():
            engine.release()
        now = clock.step(engine.most_hours)
        try:
            engine.step(now)
            between()
            trouble = None
        except LeaseError:
            raise  # another process may be in charge, so waiting is useless
        except BackendError as error:
            if trouble is None:
                trouble = monotonic()
                complain(error)
            if monotonic() - trouble > patience_s:
                raise
            sleep(min(1.0, patience_s / 10))
            continue
        show(now)
        giving_back.watch()
        if engine.idle and (stopping() or over()):
            return
        sleep(poll_s)


class GivingBack:
    """Says why nothing ends though all jobs have: machines are rented, and cannot be given back."""

    def __init__(
        self, engine: Engine, complain: Callable[[BackendError], None], monotonic: Callable[[], float]
    ) -> None:
        self._engine, self._complain, self._monotonic = engine, complain, monotonic
        self._since: float | None = None

    def watch(self) -> None:
        """Look whether machines are all that is left, and for how long; it is said once."""
        backend = self._engine.backend
        if self._engine.state.active or not isinstance(backend, RentsMachines) or not backend.rented:
            self._since = None
        elif self._since is None:
            self._since = self._monotonic()
        elif self._monotonic() - self._since > GIVING_BACK_S:
            self._since = math.inf
            rented = format_count(backend.rented, "machine")
            why = backend.renting_trouble or "their provider still lists them"
            self._complain(BackendError(f"{rented} must be given back before the end, got: {why}; waiting"))


def _let_go(engine: Engine, sleep: Callable[[float], None], monotonic: Callable[[], float]) -> None:
    """Stop all workers without the journal, and see them gone."""
    engine.abandon()
    jobs = [record.job for record in engine.state.active if record.holding.order is not None]
    until = monotonic() + LETTING_GO_S
    while monotonic() < until:
        with contextlib.suppress(BackendError):  # what could not be ended now is tried again
            if all(facts.gone for facts in engine.backend.look(jobs).values()):
                return
        sleep(POLL_S)
