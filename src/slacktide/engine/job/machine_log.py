"""The account of rented machines, written into the journal by the engine that is in charge of it."""

from __future__ import annotations

from collections.abc import Callable

from slacktide.engine.engine import Engine
from slacktide.journal.state.tickets import Fact, Tickets


class EngineMachineLog:
    """Hands facts of a back end to its engine: one writer, one order, one fold."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        """Name the engine, which is made after its back end."""
        self._engine = engine

    def note(self, *facts: Fact) -> None:
        """Append facts to the journal, all or none; raises BackendError when it cannot be written to."""
        self._engine().write(facts)

    def tickets(self) -> Tickets:
        """Return the account as the journal has it."""
        return self._engine().state.tickets
