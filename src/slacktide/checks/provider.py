"""The contract of a provider of machines, as checks that anyone can run on their own.

A ticket gives one machine, a machine that was ended stays ended, and an owner sees only its own. With a real
provider the checks rent real machines, at most two at a time, and end them.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeAlias, TypeVar

from slacktide.checks.base import PAUSE_S, CheckFailed, must, wait_until
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

PATIENCE_S = 300.0  # how long to wait for a machine to be listed or to be gone; far longer than it takes
LONGEST_CALL_S = 60.0
LATE_S = 2.0
"""How far a provider's list may lag behind: checks wait that long before they rely on it."""

Answer = TypeVar("Answer")
MakeProvider: TypeAlias = Callable[[Renter], Provider]


class ProviderTrial:
    """A provider that is being checked, with one owner, and the requests to it."""

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
        """Make the provider again, for the same owner, as a new controller would."""
        self.provider = self._make(self._renter)

    def request(self, ticket: str, spec: MachineKind) -> None:
        """Request a machine, again while the provider is unreachable; raises NoCapacity, Spent or Refused."""
        self._answer(lambda: self.provider.rent(ticket, spec))

    def rent(self, ticket: str) -> None:
        """Request a machine; raises CheckFailed if there is none."""
        try:
            self.request(ticket, self.spec)
        except (NoCapacity, Spent, Refused) as error:
            raise CheckFailed(
                f"a machine of {self.spec} must be there to check with, got: {error}"
            ) from error

    def end(self, *ids: str) -> None:
        self._answer(lambda: self.provider.end(ids))

    def listed(self) -> Sequence[Machine]:
        return self._answer(self.provider.machines)

    def surveyed(self, provider: Surveying) -> set[str]:
        """Return the ids of this owner's machines in a survey of all owners."""
        return {machine.id for machine in self._answer(provider.everyones).get(self._renter.owner, ())}

    def is_alive(self, ticket: str) -> bool:
        """Whether a machine with this ticket is listed as alive."""
        return any(machine.alive for machine in self.listed() if machine.ticket == ticket)

    def alive(self, ticket: str) -> Machine:
        """Wait until a machine with this ticket is listed as alive, and return it; raises CheckFailed."""

        def there() -> list[Machine]:
            return [machine for machine in self.listed() if machine.ticket == ticket and machine.alive]

        words = "a machine that was rented must be listed with its ticket"
        return wait_until(there, bool, words, PATIENCE_S)[0]

    def until(self, holds: Callable[[], bool], words: str) -> None:
        """Wait until a condition holds; raises CheckFailed with these words if it never does."""
        wait_until(holds, bool, words, PATIENCE_S)

    def settle(self) -> None:
        """Wait until a change must be in the provider's list."""
        time.sleep(LATE_S)

    def close(self) -> None:
        """End everything that was rented, as far as the provider works."""
        for trial in (self, *self._others):
            with suppress(
                CheckFailed, SlacktideError
            ):  # the failure that was found first is the one to report
                ids = [machine.id for machine in trial.listed() if machine.state != "gone"]
                if ids:
                    trial.end(*ids)

    def _answer(self, call: Callable[[], Answer]) -> Answer:
        """Call until the provider is reachable; raises CheckFailed for slow calls and unexpected errors."""
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
    """Make a provider to check, and end what it rented afterwards."""
    with tempfile.TemporaryDirectory() as folder, closing(ProviderTrial(make, spec, Path(folder))) as trial:
        yield trial


ProviderCheck: TypeAlias = Callable[[ProviderTrial], None]


def check_provider(make: MakeProvider, spec: MachineKind) -> None:
    """Run all checks with machines of one kind; raises CheckFailed at the first broken promise.

    `make` makes the provider for a renter; if called twice for the same one, it must find the same machines.
    """
    for check in PROVIDER_CHECKS:
        with provider_trial(make, spec) as trial:
            check(trial)


def check_renting(trial: ProviderTrial) -> None:
    """A machine that was rented is listed, with its ticket, as the kind that was requested."""
    trial.rent("1")
    machine = trial.alive("1")
    must(machine.id, "a machine must have an id, got an empty one")
    must(
        machine.spec == trial.spec, f"a machine must be what was requested, {trial.spec}, got {machine.spec}"
    )


def check_asking_again(trial: ProviderTrial) -> None:
    """A ticket gives one machine, however often it is requested."""
    for _ in range(3):
        trial.rent("1")
    trial.alive("1")
    trial.rent("1")
    trial.settle()
    found = [machine for machine in trial.listed() if machine.alive]
    must(len(found) == 1, f"one ticket must give one machine, got {len(found)}")


def check_two(trial: ProviderTrial) -> None:
    """Two tickets give two machines."""
    trial.rent("1")
    trial.rent("2")
    first, second = trial.alive("1"), trial.alive("2")
    must(first.id != second.id, f"two tickets must give two machines, got {first.id} for both")


def check_ending(trial: ProviderTrial) -> None:
    """Only the machine that is ended goes; ending it again, or ending nothing, raises no error."""
    trial.rent("1")
    trial.rent("2")
    first, second = trial.alive("1"), trial.alive("2")
    trial.end(first.id)
    trial.until(lambda: not trial.is_alive("1"), "a machine that was ended must not be listed as alive")
    must(trial.is_alive("2"), f"only what is named must be ended, got {second.id} ended as well")
    trial.end(first.id)
    trial.end()


def check_owners(trial: ProviderTrial) -> None:
    """An owner sees only its own machines, and the same ticket of another owner is another machine."""
    trial.rent("1")
    first, other = trial.alive("1"), trial.another()
    must(
        not other.listed(), f"an owner must see its own machines only, got {len(other.listed())} of another's"
    )
    other.rent("1")
    second = other.alive("1")
    must(second.id != first.id, "a ticket of another owner must give another machine, got the same")
    other.end(second.id)
    other.until(lambda: not other.is_alive("1"), "a machine that was ended must not be listed as alive")
    must(trial.is_alive("1"), "an owner's machine must outlive another's of the same ticket, got it ended")


def check_another_controller(trial: ProviderTrial) -> None:
    """A provider that is made again finds its machines, and their tickets give no second machine."""
    trial.rent("1")
    before = trial.alive("1")
    trial.renew()
    must(trial.alive("1").id == before.id, "a provider made anew must list what its owner has")
    trial.rent("1")
    trial.settle()
    found = [machine.id for machine in trial.listed() if machine.alive]
    must(found == [before.id], f"a provider made anew must know its tickets, got {len(found)} machines")
    trial.end(before.id)
    trial.until(lambda: not trial.is_alive("1"), "a provider made anew must end what an earlier one rented")


def check_refusal(trial: ProviderTrial) -> None:
    """A machine that cannot exist may raise only NoCapacity or Refused, and then there must be none."""
    nowhere = trial.spec._replace(pool="no-such-zone/no-such-machine")
    try:
        trial.request("1", nowhere)
    except (NoCapacity, Refused):
        trial.settle()
        must(not trial.is_alive("1"), "a ticket that was refused must have no machine, got one")


def check_survey(trial: ProviderTrial) -> None:
    """A provider that can list the machines of all owners names them by owner, without those gone."""
    provider = trial.provider
    if isinstance(provider, Surveying):
        trial.rent("1")
        machine = trial.alive("1")
        trial.until(
            lambda: machine.id in trial.surveyed(provider), "a survey must have every owner's machines"
        )
        trial.end(machine.id)
        trial.until(
            lambda: machine.id not in trial.surveyed(provider), "a survey must leave out what is gone"
        )


PROVIDER_CHECKS: tuple[ProviderCheck, ...] = (
    check_renting, check_asking_again, check_two, check_ending, check_owners, check_another_controller,
    check_refusal, check_survey,
)  # fmt: skip
