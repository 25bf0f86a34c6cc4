"""Workers on machines that can go on in another set keep their processes when only their number changes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from slacktide.backends.base import BackendStatus, LaunchSpec
from slacktide.backends.machines.agent.messages import AgentMessage, AgentTask
from slacktide.backends.machines.machine_set import MachineSet
from slacktide.core.types import Order

from .parts_of_machines import LONG_S, Site

LEASE_S = 3.0
SCRIPT = """
import os, sys, time
from slacktide import worker
worker.stopping.heed()
able = os.environ["RANK"] not in os.environ.get("UNABLE", "")
goes_on = able and worker.ready()
while goes_on or not (able or worker.stopping):
    print(f"{worker.rank} of {worker.world_size} at {os.environ['MASTER_PORT']}", flush=True)
    if worker.rank == 0 and "SAVES" in os.environ:
        worker.save("state", b"", done=worker.attempt / 10)
    while not worker.stopping and not worker.resizing:
        worker.progress(worker.attempt / 10)
        if os.path.exists(os.environ["HERE"] + "/done"):
            worker.progress(1.0)
            sys.exit(0)
        time.sleep(0.01)
    goes_on = worker.reform()
print("ends", flush=True)
"""


class Resized(Site):
    """Two machines with two GPUs each, and a job whose width changes."""

    lost: set[str]
    """Machines that were not told something."""

    def enter(
        self, run: str = "exec $SLACKTIDE_PYTHON script.py", url: str | None = None, **env: str
    ) -> None:
        """Make the job known; its folder travels."""
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        (work / "script.py").write_text(SCRIPT)
        given = {"HERE": str(self.folder), **env}
        self.backend.enter(
            LaunchSpec(job="job", run=run, workdir=str(work), grace_s=5.0, env=given, checkpoint_url=url)
        )

    def look(self) -> BackendStatus:
        """Look, but not all the time: machines are asked a few times a second."""
        time.sleep(0.03)
        return super().look()

    def order(self, attempt: int, spot: int, on_demand: int = 0) -> Order:
        """Order workers and return what was ordered."""
        order = Order("job", attempt, "here", spot, on_demand)
        self.backend.hold(order)
        return order

    def resize(self, attempt: int, width: int) -> BackendStatus:
        """Order workers, and look until all of them work."""
        self.order(attempt, width)
        return self.until(lambda facts: self.is_working(facts, attempt, width))

    def is_working(self, facts: BackendStatus, attempt: int, width: int) -> bool:
        """Say whether all workers of an attempt have said who they are, and nobody else is there."""
        said = (f"{rank} of {width} at" in self.log(attempt, rank) for rank in range(width))
        settled = facts.reform_hours < float("inf") and facts.spot_gpus + facts.on_demand_gpus == width
        return facts.attempt == attempt and settled and all(said)

    def log(self, attempt: int, rank: int) -> str:
        """Return what the controller has of what a worker printed."""
        path = self.folder / "runs" / "job" / f"attempt-{attempt:04d}" / f"rank-{rank}.log"
        return path.read_text() if path.exists() else ""

    def form(self, attempt: int) -> dict[str, object]:
        """Return what was written down of a set."""
        path = self.folder / "runs" / "job" / f"attempt-{attempt:04d}" / "set.json"
        found: dict[str, object] = json.loads(path.read_text())
        return found

    def abandon(self, *orders: Order) -> None:
        """Forget the controller, not the agents; the next one recovers as an engine does."""
        loop = self.backend.machine_workers.machines.loop
        loop._closed.set()
        if loop._thread is not None:
            loop._thread.join()
        self.hear_again()
        self.connect()
        self.enter()
        self.backend.sweep(orders)
        for order in orders:
            self.backend.hold(order)

    def lose_says(self, is_lost: Callable[[str, AgentTask], bool]) -> None:
        """From now on lose the messages in which a machine is told something of this kind."""

        def cut(host: str, say: AgentMessage) -> None:
            lost = any(is_lost(host, task) for task in say.tasks)
            self.link.deaf = self.link.deaf | {host} if lost else self.link.deaf - {host}
            self.lost |= {host} if lost else set()

        self.lost = set()
        self.link.on_say = cut

    def wait_before(self, attempt: int, width: int, *hosts: str) -> Order:
        """Order workers, and let some machines, or all, not hear that all are ready."""
        self.lost = set()

        def alter(host: str, say: AgentMessage) -> AgentMessage:
            going = any(task.attempt == attempt and task.part.go for task in say.tasks)
            if not going or (hosts and host not in hosts):
                return say
            self.lost.add(host)
            tasks = (task._replace(part=task.part._replace(go=False)) for task in say.tasks)
            return say._replace(tasks=tuple(tasks))

        self.link.alter = alter
        order = self.order(attempt, width)
        self.until(lambda _: self.lost)
        return order

    def hear_again(self, *deaf: str) -> None:
        """Lose nothing any more, but messages to machines that have gone."""
        self.link.alter = lambda host, say: say
        self.link.on_say, self.link.deaf = lambda host, say: None, frozenset(deaf)

    @property
    def free_gpus(self) -> int:
        """How many GPUs others could have."""
        workers = self.backend.machine_workers
        return sum(map(len, workers._free(self.backend.now_s()).values()))

    def attempts(self) -> set[int]:
        """Return the attempts as whose workers those who live were started."""
        return {int(str(seen.marker).split("/")[2]) for seen in self.living()}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Resized]:
    one = Resized(tmp_path, LONG_S, "ab", gpus=2)
    yield one
    one.clear()


@pytest.fixture
def brief(tmp_path: Path) -> Iterator[Resized]:
    """Machines whose workers end soon when nothing is heard of their controller."""
    one = Resized(tmp_path, LEASE_S, "ab", gpus=2)
    yield one
    one.clear()


def begin(site: Resized, width: int, **env: str) -> set[int]:
    """Begin a job, and return the processes of its workers."""
    site.enter(**env)
    site.resize(1, width)
    site.until(lambda _: len(site.supervisors()) == width)
    return site.supervisors()


def test_who_stays_keeps_its_process_when_others_come_and_go(site: Resized) -> None:
    first = begin(site, 2)
    assert len(site.carriers()) == 1
    facts = site.resize(2, 3)
    assert len(site.carriers()) == 2
    assert first < site.supervisors()
    assert (facts.stopped, facts.failure, facts.taken_spot_gpus) == (False, None, 0)
    assert facts.reform_hours > -float("inf")
    assert site.form(1)["port"] != site.form(2)["port"]
    site.resize(3, 4)
    second = site.supervisors()
    site.wait_before(4, 1)
    assert (site.look().spot_gpus, site.free_gpus) == (4, 0), "who leaves has not gone"
    site.hear_again()
    facts = site.until(lambda facts: site.is_working(facts, 4, 1))
    assert site.free_gpus == 3
    site.until(lambda _: len(site.supervisors()) == 1)
    assert site.supervisors() < first < second
    assert facts.progress is not None
    site.until(lambda facts: facts.progress is not None and facts.progress.done_share == 0.4)
    assert "ends" in site.log(3, 3), "what was printed last by who left is here"
    assert "ends" not in site.log(1, 0) + site.log(4, 0)
    site.order(4, 0)
    site.backend.hold(Order("job", 4, "here", 1, 0, ending=True))
    site.until(lambda facts: facts.gone)
    assert "ends" in site.log(4, 0)
    assert not site.living()


class Died(BaseException):
    """A controller that dies at some place."""


def die_writing(monkeypatch: pytest.MonkeyPatch, attempt: int, *, after: bool) -> None:
    """Let a controller die before or after it writes down what a set is to be."""
    real = MachineSet.write

    def write(spread: MachineSet) -> None:
        if spread.attempt == attempt and not after:
            raise Died
        real(spread)
        if spread.attempt == attempt:
            raise Died

    monkeypatch.setattr(MachineSet, "write", write)


def test_the_next_controller_goes_on_with_it(site: Resized, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written down and nobody knows; or all wait for the word; or some have it; or some are to end."""
    stayed = begin(site, 2)
    first = site.carriers()[0]
    with monkeypatch.context() as patch:
        die_writing(patch, 2, after=True)
        grown = site.order(2, 3)
        with pytest.raises(Died):
            site.until(lambda _: False)
    site.abandon(grown)
    site.until(lambda facts: site.is_working(facts, 2, 3))
    assert stayed < site.supervisors()
    site.lose_says(lambda host, task: task.attempt == 2 and not task.kinds)
    shrunk = site.order(3, 2)
    site.until(lambda _: site.lost)
    site.abandon(shrunk)
    site.until(lambda facts: site.is_working(facts, 3, 2))
    site.until(lambda _: site.supervisors() == stayed)
    for attempt, hosts in ((4, ()), (6, (first,))):
        grown = site.wait_before(attempt, 3, *hosts)
        assert site.look().reform_hours == float("inf")
        site.abandon(grown)
        site.until(lambda facts: site.is_working(facts, attempt, 3))  # noqa: B023
        assert stayed < site.supervisors()
        site.resize(attempt + 1, 2)
        site.until(lambda _: site.supervisors() == stayed)


def test_what_was_not_written_down_begins_anew(site: Resized, monkeypatch: pytest.MonkeyPatch) -> None:
    before = begin(site, 2)
    with monkeypatch.context() as patch:
        die_writing(patch, 2, after=False)
        grown = site.order(2, 3)
        with pytest.raises(Died):
            site.until(lambda _: False)
    site.abandon(grown)
    site.until(lambda facts: site.is_working(facts, 2, 3))
    assert not before & site.supervisors()
    assert site.attempts() == {2}


def test_a_killed_agent_is_followed_by_one_that_goes_on_with_it(site: Resized) -> None:
    stayed = begin(site, 2)
    first = site.carriers()[0]
    site.wait_before(2, 3)
    for host in site.carriers():
        site.link.agents[host].process.kill()
        site.link.agents[host].process.wait()
    site.hear_again()
    site.until(lambda facts: site.is_working(facts, 2, 3))
    assert stayed < site.supervisors()
    assert first in site.carriers()


@pytest.mark.parametrize("how", ["added", "kept", "cut off"])
def test_a_machine_that_is_lost_on_the_way_ends_all(brief: Resized, how: str) -> None:
    """One that is added, or that of workers that stay, or it is only cut off: then these end by its lease."""
    site = brief
    begin(site, 2)
    (first,) = site.carriers()
    site.wait_before(2, 3)
    added = next(host for host in site.carriers() if host != first)
    lost = added if how == "added" else first
    site.hear_again(lost)
    if how == "cut off":
        site.link.mute = frozenset({lost})
    else:
        site.kill(lost)
        site.link.lose(lost)
    facts = site.until(lambda facts: facts.gone)
    assert facts.taken_spot_gpus == (1 if how == "added" else 2)
    assert (facts.attempt, facts.stopped, facts.failure) == (2, True, None)
    assert not site.living()
    site.link.mute = frozenset()
    site.resize(3, 2)
    assert site.attempts() == {3}


def test_who_leaves_and_is_lost_before_all_were_told_ends_all(brief: Resized) -> None:
    site = brief
    begin(site, 3)
    site.wait_before(2, 2)
    host = site.host_of(2)
    site.kill(host)
    site.link.lose(host)
    facts = site.until(lambda facts: facts.attempt == 2 and facts.stopped)
    assert (facts.failure, facts.finished) == (None, False)
    site.hear_again(host)
    site.until(lambda facts: facts.gone)
    assert not site.living()
    site.resize(3, 2)
    assert site.attempts() == {3}


def test_who_has_done_all_before_the_others_could_join_lets_nobody_wait(site: Resized) -> None:
    begin(site, 2)
    site.wait_before(2, 3)
    (site.folder / "done").touch()
    facts = site.until(lambda facts: facts.stopped)
    assert (facts.attempt, facts.finished, facts.failure, facts.taken_spot_gpus) == (2, False, None, 0)
    site.hear_again()
    facts = site.until(lambda facts: facts.gone)
    assert (facts.stopped, facts.finished, facts.failure) == (True, False, None)


def test_a_store_has_what_each_attempt_saved(site: Resized) -> None:
    store = site.folder / "store"
    store.mkdir()
    site.enter(url=f"file://{store}", SAVES="1")
    for attempt, width in ((1, 1), (2, 3)):
        site.resize(attempt, width)
        site.until(
            lambda facts: facts.progress and facts.progress.checkpointed_share == attempt / 10  # noqa: B023
        )
        assert list(store.rglob(f"manifests/*{attempt}-*.json"))
    assert site.look().reform_hours > -float("inf")
    assert site.attempts() == {1, 2}


def test_all_are_started_anew_where_not_all_can_stay(site: Resized) -> None:
    """Nothing but the attempt changes; one goes and one comes; rank 0 would be another."""
    before = begin(site, 2)
    for attempt, spot, on_demand in ((2, 2, 0), (3, 1, 1), (4, 1, 2)):
        site.order(attempt, spot, on_demand)
        site.until(lambda facts: site.is_working(facts, attempt, spot + on_demand))  # noqa: B023
        site.until(lambda _: len(site.supervisors()) == spot + on_demand)  # noqa: B023
        assert not before & site.supervisors() or attempt == 4
        assert site.look().reform_hours == -float("inf") or attempt == 4
        before = site.supervisors()


def test_a_job_that_cannot_re_form_is_started_anew(site: Resized) -> None:
    before = begin(site, 2, UNABLE="1")
    site.resize(2, 3)
    assert not before & site.supervisors()
    assert "ends" in site.log(1, 0)


def test_the_numpy_job_ends_where_one_ends_that_was_never_resized(site: Resized) -> None:
    train = "-m slacktide.demo.train --steps 300"
    site.enter(f"exec $SLACKTIDE_PYTHON {train} --step-seconds 0.02")
    for attempt, width in ((1, 2), (2, 3), (3, 1)):
        site.order(attempt, width)
        facts = site.until(
            lambda facts: (
                facts.attempt == attempt  # noqa: B023
                and facts.reform_hours < float("inf")
                and facts.progress is not None
                and facts.progress.at_hours > -float("inf")
            )
        )
        assert (facts.reform_hours > -float("inf")) == (attempt > 1)
    facts = site.until(lambda facts: facts.finished)
    assert (facts.attempt, facts.failure) == (3, None)
    alone = site.folder / "alone"
    alone.mkdir()
    subprocess.run([sys.executable, *train.split()], cwd=alone, check=True, capture_output=True)
    places = (site.folder / "runs" / "job" / "checkpoints", alone / "checkpoints")
    resized, whole = (last_state(place / "step-000000300.ckpt") for place in places)
    assert np.allclose(resized, whole, rtol=1e-9)


def last_state(path: Path) -> NDArray[np.float64]:
    """Return what the NumPy job saved."""
    with np.load(io.BytesIO(path.read_bytes()[32:])) as found:
        state: NDArray[np.float64] = found["state"]
        return state
