"""What every provider of machines must satisfy: one machine for a ticket, ends that last, its own only.

The checks rent real machines where a provider does: two at a time, each ended again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from slacktide.checks.provider_trial import MakeProvider, ProviderTrial, provider_trial
from slacktide.checks.trial import must
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import NoCapacity, Refused, Surveying

ProviderCheck: TypeAlias = Callable[[ProviderTrial], None]


def check_provider(make: MakeProvider, spec: MachineKind) -> None:
    """Run all checks on machines of one kind; raises CheckFailed with what does not hold.

    `make` makes the provider for a renter: twice for the same one, it must find the same machines.
    """
    for check in PROVIDER_CHECKS:
        with provider_trial(make, spec) as one:
            check(one)


def check_renting(one: ProviderTrial) -> None:
    """What is rented comes to be listed, with its ticket and as what was requested."""
    one.rent("1")
    machine = one.alive("1")
    must(machine.id, "a machine must have an id, got an empty one")
    must(machine.spec == one.spec, f"a machine must be what was requested, {one.spec}, got {machine.spec}")


def check_asking_again(one: ProviderTrial) -> None:
    """The same ticket gives one machine, however often it is requested."""
    for _ in range(3):
        one.rent("1")
    one.alive("1")
    one.rent("1")
    one.settle()
    found = [machine for machine in one.listed() if machine.alive]
    must(len(found) == 1, f"one ticket must give one machine, got {len(found)}")


def check_two(one: ProviderTrial) -> None:
    """Two tickets give two machines."""
    one.rent("1")
    one.rent("2")
    first, second = one.alive("1"), one.alive("2")
    must(first.id != second.id, f"two tickets must give two machines, got {first.id} for both")


def check_ending(one: ProviderTrial) -> None:
    """What is ended goes, what is not stays, and ending again or nothing is no mistake."""
    one.rent("1")
    one.rent("2")
    first, second = one.alive("1"), one.alive("2")
    one.end(first.id)
    one.until(lambda: not one.is_alive("1"), "a machine that was ended must not be listed as alive")
    must(one.is_alive("2"), f"only what is named must be ended, got {second.id} ended as well")
    one.end(first.id)
    one.end()


def check_owners(one: ProviderTrial) -> None:
    """An owner sees its own machines only, and the same ticket of another one is another machine."""
    one.rent("1")
    mine, other = one.alive("1"), one.another()
    must(
        not other.listed(), f"an owner must see its own machines only, got {len(other.listed())} of another's"
    )
    other.rent("1")
    theirs = other.alive("1")
    must(theirs.id != mine.id, "a ticket of another owner must give another machine, got the same")
    other.end(theirs.id)
    other.until(lambda: not other.is_alive("1"), "a machine that was ended must not be listed as alive")
    must(one.is_alive("1"), "an owner's machine must outlive another's of the same ticket, got it ended")


def check_another_controller(one: ProviderTrial) -> None:
    """A provider that is made anew finds what is there, and its tickets give no second machine."""
    one.rent("1")
    before = one.alive("1")
    one.renew()
    must(one.alive("1").id == before.id, "a provider made anew must list what its owner has")
    one.rent("1")
    one.settle()
    found = [machine.id for machine in one.listed() if machine.alive]
    must(found == [before.id], f"a provider made anew must know its tickets, got {len(found)} machines")
    one.end(before.id)
    one.until(lambda: not one.is_alive("1"), "a provider made anew must end what an earlier one rented")


def check_refusal(one: ProviderTrial) -> None:
    """What cannot be had is refused in words that say so, and leaves no machine."""
    nowhere = one.spec._replace(pool="no-such-zone/no-such-machine")
    try:
        one.request("1", nowhere)
    except (NoCapacity, Refused):
        one.settle()
        must(not one.is_alive("1"), "a ticket that was refused must have no machine, got one")


def check_survey(one: ProviderTrial) -> None:
    """A provider that finds every owner's machines names them by owner, and leaves out what is gone."""
    provider = one.provider
    if isinstance(provider, Surveying):
        one.rent("1")
        machine = one.alive("1")
        one.until(lambda: machine.id in one.surveyed(provider), "a survey must have every owner's machines")
        one.end(machine.id)
        one.until(lambda: machine.id not in one.surveyed(provider), "a survey must leave out what is gone")


PROVIDER_CHECKS: tuple[ProviderCheck, ...] = (
    check_renting, check_asking_again, check_two, check_ending, check_owners, check_another_controller,
    check_refusal, check_survey,
)  # fmt: skip
