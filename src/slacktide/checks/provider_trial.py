"""A provider on trial: owners of its own, requests that are repeated, and an end to all that was rented."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias, TypeVar

from slacktide.checks.policy import CheckFailed
from slacktide.checks.trial import must
from slacktide.core.errors import SlacktideError
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import (
    Machine,
    NoCapacity,
    Provider,
    Refused,
    Renter,
    Spent,
    Surveying,
    Unreachable,
)

PATIENCE_S = 300.0
"""How long to wait for a machine to be listed or to go; far longer than it takes."""
LONGEST_CALL_S = 60.0
LATE_S = 2.0
"""How late lists of a provider may be: so long is waited before something is said not to be there."""
PAUSE_S = 0.02

Answer = TypeVar("Answer")
MakeProvider: TypeAlias = Callable[[Renter], Provider]


class ProviderTrial:
    """A provider for one owner, and the requests to it."""

    def __init__(self, make: MakeProvider, spec: MachineKind, folder: Path) -> None:
        """Make the provider for a new owner."""
        self.spec = spec
        self._make, self._folder = make, folder
        self._renter = Renter(owner=f"check-{uuid.uuid4().hex[:12]}", folder=folder)
        self.provider = make(self._renter)
        self._others: list[ProviderTrial] = []

    def another(self) -> ProviderTrial:
        """Return the same provider for another owner."""
        self._others.append(ProviderTrial(self._make, self.spec, self._folder))
        return self._others[-1]

    def renew(self) -> None:
        """Go on as another controller, which knows nothing but the journal."""
        self.provider = self._make(self._renter)

    def request(self, ticket: str, spec: MachineKind) -> None:
        """Rent, asking again while there is no answer; raises NoCapacity, Spent or Refused."""
        self._answer(lambda: self.provider.rent(ticket, spec))

    def rent(self, ticket: str) -> None:
        """Rent a machine, which there must be."""
        try:
            self.request(ticket, self.spec)
        except (NoCapacity, Spent, Refused) as error:
            raise CheckFailed(
                f"a machine of {self.spec} must be there to check with, got: {error}"
            ) from error

    def end(self, *ids: str) -> None:
        """End machines."""
        self._answer(lambda: self.provider.end(ids))

    def listed(self) -> Sequence[Machine]:
        """List machines."""
        return self._answer(self.provider.machines)

    def surveyed(self, provider: Surveying) -> set[str]:
        """Return the ids of this owner's machines as a survey has them."""
        return {machine.id for machine in self._answer(provider.everyones).get(self._renter.owner, ())}

    def is_alive(self, ticket: str) -> bool:
        """Whether a machine of this ticket is listed as alive."""
        return any(machine.alive for machine in self.listed() if machine.ticket == ticket)

    def alive(self, ticket: str) -> Machine:
        """Wait for the machine of a ticket."""
        found: list[Machine] = []  # by the look that found it: a list after that may be older

        def is_there() -> bool:
            found[:] = [one for one in self.listed() if one.ticket == ticket and one.alive]
            return bool(found)

        self.until(is_there, "a machine that was rented must be listed with its ticket")
        return found[0]

    def until(self, holds: Callable[[], bool], words: str) -> None:
        """Look until something holds; raises CheckFailed if it never does."""
        give_up = time.monotonic() + PATIENCE_S
        while not holds():
            must(time.monotonic() < give_up, f"{words} within {PATIENCE_S:g} s")
            time.sleep(PAUSE_S)

    def settle(self) -> None:
        """Wait as long as a list may be late."""
        time.sleep(LATE_S)

    def close(self) -> None:
        """End all that was rented, as well as the provider can."""
        for one in (self, *self._others):
            with suppress(CheckFailed, SlacktideError):  # what was found to be wrong has been reported
                ids = [machine.id for machine in one.listed() if machine.state != "gone"]
                if ids:
                    one.end(*ids)

    def _answer(self, call: Callable[[], Answer]) -> Answer:
        """Call until there is an answer; raises CheckFailed for one that a provider must not give."""
        give_up = time.monotonic() + PATIENCE_S
        while True:
            began = time.monotonic()
            try:
                return call()
            except Unreachable as error:
                must(time.monotonic() < give_up, f"a provider must answer in the end, got: {error}")
            except (NoCapacity, Spent, Refused):
                raise
            except Exception as error:
                kinds = "NoCapacity, Spent, Unreachable or Refused"
                raise CheckFailed(
                    f"a provider must raise {kinds}, got {type(error).__name__}: {error}"
                ) from error
            finally:
                took = time.monotonic() - began
                must(
                    took < LONGEST_CALL_S,
                    f"a call must return within {LONGEST_CALL_S:g} s, took {took:.0f} s",
                )
            time.sleep(PAUSE_S)


@contextmanager
def provider_trial(make: MakeProvider, spec: MachineKind) -> Iterator[ProviderTrial]:
    """Put a provider on trial, and end what it rented."""
    with tempfile.TemporaryDirectory() as folder:
        one = ProviderTrial(make, spec, Path(folder))
        try:
            yield one
        finally:
            one.close()
