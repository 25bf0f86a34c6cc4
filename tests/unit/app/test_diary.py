"""A controller's back end rents by the controller's journal, and the next controller knows of it."""

from __future__ import annotations

from pathlib import Path

from slacktide.app.jobs.controller import Controller
from slacktide.app.jobs.setup import Setup
from slacktide.app.journal.journal import open_journal
from slacktide.backends.base import BackendPlace
from slacktide.backends.replay import Replay
from slacktide.journal.events import Joined, Rented
from slacktide.journal.state.tickets import MachineKind, MachineLog
from slacktide.providers.base import Renter, Rules
from slacktide.providers.reconciler import Reconciler
from slacktide.testing.fake_provider import Cloud, Fake

SPOT = MachineKind("spot", "zone/big", 8)
DRY = Setup(backend="replay")


def diary_of(controller: Controller) -> MachineLog:
    backend = controller.engine.backend
    assert isinstance(backend, Replay)
    return backend.place.diary


def test_what_a_back_end_rents_is_in_the_journal_and_known_to_the_next_controller(tmp_path: Path) -> None:
    journal, cloud = tmp_path / "journal.db", Cloud(lambda: 0.0)
    for _ in range(2):  # the second one finds the ticket open and its machine there
        with Controller(journal, DRY) as controller:
            fake = Fake(Renter(owner=controller.journal_id), cloud=cloud)
            keeper = Reconciler(fake, diary_of(controller), Rules())
            for _ in range(2):
                keeper.step({SPOT: 1}, controller.clock.hours())
            assert len(controller.state.tickets.open) == 1
    assert len(cloud.instances) == 1
    with open_journal(journal) as told:
        kinds = [record.event for record in told.store.read() if isinstance(record.event, Rented | Joined)]
    assert [type(event).__name__ for event in kinds] == ["Rented", "Joined"]


def test_a_back_end_on_its_own_has_a_diary_in_memory() -> None:
    first, second = BackendPlace(), BackendPlace()
    first.diary.note(Rented(at_hours=0.0, ticket="1", capacity="spot", pool="a", gpus=1, usd_per_hour=1.0))
    assert (list(first.diary.tickets().open), list(second.diary.tickets().open)) == (["1"], [])
