"""The short form of the campaign of machines: simulated ones, rented and lost, under controllers that die."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from campaigns import machines
from campaigns.finding import Finding
from campaigns.machines import life as lives
from campaigns.machines.life import Life
from campaigns.machines.truth import Crew, Truth, Work
from slacktide.journal.events import Returned


@pytest.mark.parametrize("seed", [6, 10, 20])
def test_nothing_is_leaked_doubled_or_billed_wrongly(seed: int) -> None:
    counts = machines.run(6, seed, lambda told: None)
    assert counts["kills"] >= 6
    assert counts["jobs that succeeded"] > 0


def test_the_same_seed_is_the_same_life(tmp_path: Path) -> None:
    counts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        counts.append(Life(tmp_path / name, 14, 4).live())
    assert counts[0] == counts[1]


class Kept(Life):
    """A calm life with one change of controllers, that remembers why machines were given back."""

    causes: set[str]

    def _is_over(self) -> bool:
        over = super()._is_over()
        if over and self.controller is not None:
            events = [record.event for record in self.controller.store.read()]
            self.causes = {event.cause for event in events if isinstance(event, Returned)}
        return over


@pytest.mark.parametrize("seed", [1])
def test_without_faults_machines_are_given_back_only_when_nobody_wants_them(
    tmp_path: Path, seed: int
) -> None:
    life = Kept(tmp_path, seed, 0)
    counts = life.live()
    assert life.causes == {"not-wanted"}
    assert counts["seconds off"] == 0
    assert counts["crews of workers"] > 0


def test_a_killed_controller_costs_no_machine(tmp_path: Path) -> None:
    """Who follows keeps what is rented: only what is ordered decides, and it is not known at once."""
    life = Kept(tmp_path, 5, 0)
    with lives.simulated_clock(life.now):
        life._begin()
        while not life.truth.begun:
            life._step()
        before, attempts = (
            set(life.cloud.instances),
            {job: work.newest for job, work in life.truth.works.items()},
        )
        life._end_controller()
        for _ in range(5):
            life._step()
        alive = {one.id for one in life.cloud.living}
        life._end_controller()
    assert before <= alive
    assert attempts_of(life) == attempts


def attempts_of(life: Life) -> dict[str, int]:
    """Return the last attempt of each job."""
    return {job: work.newest for job, work in life.truth.works.items()}


def test_what_is_forbidden_is_found() -> None:
    truth = Truth(random.Random(1), {"job": Work(10.0)})
    truth.begin(Crew("job", 2, ("spot",), (0,), 1, 0.0))
    with pytest.raises(Finding, match="attempts 2 and 3 of job live at once"):
        truth.begin(Crew("job", 3, ("spot",), (0,), 1, 0.0))
    for crew in truth.crews:
        crew.die(1.0)
    with pytest.raises(Finding, match="attempt 2 of job began after attempt 3"):
        truth.begin(Crew("job", 2, ("spot",), (0,), 1, 1.0))
