"""Workers that can go on in another set keep their processes when only the number of workers changes."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slacktide.backends.checkpoints.folder import read_stamp
from slacktide.backends.workers import job_folder
from slacktide.backends.workers import job_folder as folder
from slacktide.journal.events import Capacity

from .conftest import Stage, wait_for

SPOT: Capacity = "spot"
ON_DEMAND: Capacity = "on-demand"
SCRIPT = """
import os, sys, time
from slacktide import worker
worker.stopping.heed()
goes_on = os.environ["RANK"] not in os.environ.get("UNABLE", "") and worker.ready()
while goes_on or not worker.stopping and "UNABLE" in os.environ:
    if worker.rank == 0 and "SAVES" in os.environ:
        worker.save("state", b"", done=worker.attempt / 10)
    print(f"{worker.rank} of {worker.world_size}", flush=True)
    while not worker.stopping and (not worker.resizing or os.path.exists("deaf")):
        if os.path.exists(f"end-{worker.attempt}-{worker.rank}"):
            sys.exit(5)
        time.sleep(0.003)
    goes_on = worker.reform()
print("ends", flush=True)
sys.exit(0)
"""
RUN = f"exec $SLACKTIDE_PYTHON -c '{SCRIPT}'"


def begin(stage: Stage, *kinds: Capacity, **more: Any) -> None:
    """Begin the first attempt, and wait until every worker works."""
    stage.register(RUN, **more)
    stage.hold(1, kinds)
    until_working(stage, 1, len(kinds))


def is_working(stage: Stage, attempt: int, width: int) -> bool:
    """Say whether every worker of an attempt has said who it is."""
    logs = {log.rank: log.path for log in stage.processes.logs("job") if log.attempt == attempt}
    said = (rank in logs and f"{rank} of {width}\n" in logs[rank].read_text() for rank in range(width))
    return all(said) and stage.look().attempt == attempt and not stage.look().reforming


def until_working(stage: Stage, attempt: int, width: int) -> None:
    stage.until(lambda: is_working(stage, attempt, width))


def resize(stage: Stage, attempt: int, *kinds: Capacity) -> None:
    stage.hold(attempt, kinds)
    until_working(stage, attempt, len(kinds))


def leaders(stage: Stage) -> list[int]:
    """Return the pids of all supervisors that live."""
    return sorted(seen.process.pid for seen in stage.marked() if seen.process.pid == seen.session)


def pids(stage: Stage) -> list[int | None]:
    """Return the supervisors of the set, by rank."""
    worker_set = stage.processes._jobs["job"].current
    return [worker.pid for worker in worker_set.workers] if worker_set else []


def test_who_stays_keeps_its_process_and_gets_its_new_rank(stage: Stage) -> None:
    begin(stage, SPOT, SPOT, SPOT)
    first, second, _ = pids(stage)
    resize(stage, 2, SPOT, SPOT)
    assert pids(stage) == [first, second]
    stage.until(lambda: len(leaders(stage)) == 2)
    assert "ends" in stage.log(2, 1)
    resize(stage, 3, ON_DEMAND, SPOT, SPOT)
    new, *stayed = pids(stage)
    assert stayed == [first, second]
    assert new not in stayed
    resize(stage, 4, ON_DEMAND)
    assert pids(stage) == [new]
    seen = stage.look()
    assert (seen.attempt, seen.phase, seen.exit_codes) == (4, "running", (None,))
    assert (seen.lost_spot_gpus, seen.failed_rank, seen.stopped) == (0, None, False)
    stage.until(lambda: leaders(stage) == [new])


def test_what_is_told_of_the_new_attempt_is_by_its_ranks(stage: Stage) -> None:
    begin(stage, ON_DEMAND, SPOT)
    resize(stage, 2, ON_DEMAND, ON_DEMAND, SPOT)
    (stage.folder / "end-2-2").touch()
    stage.until(lambda: stage.look().failed_rank == 2)
    assert stage.look().failed_code == 5
    stage.hold(3, [ON_DEMAND])
    until_working(stage, 3, 1)


def test_others_work_on_until_those_who_are_added_are_ready(stage: Stage) -> None:
    """A worker that is added waits; the others are told only when it can begin."""
    begin(stage, SPOT)
    stage.hold(2, [SPOT, SPOT])
    stage.processes.tick()
    seen = stage.look()
    assert (seen.attempt, seen.reforming, seen.places_sent_s, seen.pending_gpus) == (2, True, None, 0)
    assert seen.spot_gpus == 2
    until_working(stage, 2, 2)
    assert stage.look().places_sent_s is not None
    assert stage.log(0, 1) == "0 of 1\n"


@pytest.mark.parametrize(
    ("kinds", "pool", "unable"),
    [
        ([SPOT, SPOT], "", ""),  # nothing but the attempt changes: the workers may hang
        ([ON_DEMAND, SPOT], "", ""),  # one goes and one comes
        ([SPOT], "elsewhere", ""),
        ([SPOT], "", "1"),  # one has not said that it can
    ],
)
def test_all_are_started_anew_where_not_all_can_stay(
    stage: Stage, kinds: list[Capacity], pool: str, unable: str
) -> None:
    stage.register(RUN, env={"UNABLE": unable} if unable else {})
    stage.hold(1, [SPOT, SPOT])
    until_working(stage, 1, 2)
    before = pids(stage)
    stage.hold(2, kinds, pool=pool)
    until_working(stage, 2, len(kinds))
    assert not set(pids(stage)) & set(before)
    assert "ends" in stage.log(0, 1)


def test_another_command_is_for_new_processes(stage: Stage) -> None:
    begin(stage, SPOT, SPOT)
    before = pids(stage)
    stage.register(f"true; {RUN}")
    resize(stage, 2, SPOT)
    assert not set(pids(stage)) & set(before)


def test_who_does_not_take_its_place_in_time_ends_the_set(stage: Stage) -> None:
    begin(stage, SPOT, SPOT)
    (stage.folder / "deaf").touch()
    stage.hold(2, [SPOT])
    stage.until(lambda: stage.look().places_sent_s is not None)
    stage.ticks()
    assert not stage.look().stopped
    stage.time_s += 3600 + 21
    seen = stage.until_phase("exited", 2)
    assert (seen.stopped, seen.failed_rank, seen.lost_spot_gpus) == (True, None, 0)
    assert "must take their places within 3620 s" in seen.trouble
    (stage.folder / "deaf").unlink()
    resize(stage, 3, SPOT)
    assert not stage.look().trouble


def test_who_vanishes_on_the_way_is_lost_to_the_new_attempt(stage: Stage) -> None:
    begin(stage, SPOT, SPOT)
    (stage.folder / "deaf").touch()
    stage.hold(2, [SPOT, SPOT, SPOT])
    stage.processes.tick()
    pid = pids(stage)[1]
    assert pid is not None
    os.killpg(pid, signal.SIGKILL)
    seen = stage.until_phase("exited", 2)
    assert (seen.lost_spot_gpus, seen.stopped, seen.failed_rank) == (1, True, None)


def test_those_whom_the_market_leaves_go_on(stage: Stage) -> None:
    begin(stage, ON_DEMAND, SPOT, SPOT)
    before = pids(stage)
    stage.processes.take("job", 1, 0.0)
    resize(stage, 2, ON_DEMAND, SPOT)
    assert pids(stage) == before[:2]


def test_those_whom_the_market_leaves_end_if_nobody_wants_them(stage: Stage) -> None:
    begin(stage, ON_DEMAND, SPOT)
    stage.processes.take("job", 0, 0.0)
    seen = stage.until_phase("exited", 1)
    assert (seen.stopped, seen.failed_rank, seen.exit_codes) == (True, None, (0, -9))


def test_a_store_has_what_each_attempt_saved(stage: Stage) -> None:
    """What is saved after a change is saved by the new attempt, which also is the one in the folder."""
    store = stage.folder / "store"
    store.mkdir()

    def step() -> None:
        stage.time_s += 0.01
        stage.processes.tick()

    stage.register(RUN, checkpoint_url=f"file://{store}", env={"SAVES": "1"})
    before: list[int | None] = []
    for attempt, width in ((1, 2), (2, 1)):
        stage.hold(attempt, [SPOT] * width)
        wait_for(lambda: is_working(stage, attempt, width), step)  # noqa: B023
        wait_for(lambda: stage.look().checkpointed_share == attempt / 10, step)  # noqa: B023
        assert pids(stage)[:1] == (before or pids(stage)[:1])
        before = pids(stage)[:1]
        stamp = read_stamp(stage.folder / "checkpoints")
        assert stamp is not None
        assert stamp.attempt == attempt
        assert list(store.rglob(f"manifests/*{attempt}-*.json"))
    stage.processes.close()


class Died(BaseException):
    """A controller that dies at some place."""


def die_at(monkeypatch: pytest.MonkeyPatch, ending: str, count: int) -> None:
    """Let a controller die before it writes such a note for this time."""
    real, left = job_folder.write_durably, [count]

    def write(path: Path, text: str) -> None:
        if path.name.endswith(ending):
            left[0] -= 1
            if not left[0]:
                raise Died
        real(path, text)

    monkeypatch.setattr(job_folder, "write_durably", write)


@pytest.mark.parametrize("place", [1, 2])
def test_the_next_controller_goes_on_with_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """The order is written down, and nobody, or one of two, was told."""
    begin(stage, SPOT, SPOT, SPOT)
    before = pids(stage)
    with monkeypatch.context() as patch:
        die_at(patch, ".place", place)
        stage.hold(2, [SPOT, SPOT])
        with pytest.raises(Died):
            stage.processes.tick()
    stage.restart({"job": 2})
    assert set(stage.strays()) <= {("job", 1, 2)}  # which may have ended by now
    stage.register(RUN)
    resize(stage, 2, SPOT, SPOT)
    assert pids(stage) == before[:2]
    stage.until(lambda: len(leaders(stage)) == 2)
    (stage.folder / "root" / "job" / "attempt-0001" / "attempt.json").unlink()  # only markers tell of it now
    stage.restart({"job": 2})
    assert not stage.look().reforming
    assert not stage.strays()
    stage.register(RUN)
    resize(stage, 3, SPOT)
    assert pids(stage) == before[:1]


@pytest.mark.parametrize(("keep", "ending"), [({}, ".place"), ({"job": 1}, ".place"), ({"job": 2}, ".json")])
def test_the_next_controller_ends_who_is_not_wanted_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, keep: dict[str, int], ending: str
) -> None:
    """Nothing is kept, or what an old journal knows, or an attempt that was never written down."""
    begin(stage, SPOT, SPOT)
    with monkeypatch.context() as patch:
        die_at(patch, ending, 1)
        stage.hold(2, [SPOT])
        with pytest.raises(Died):
            stage.processes.tick()
    stage.restart(keep)
    if keep == {"job": 1}:
        stage.hold(1, [SPOT, SPOT])
    wait_for(lambda: not stage.marked(), stage.processes.tick)
    assert [stage.log(rank).count("ends") for rank in (0, 1)] == [1, 1]
    assert not stage.look().finished


CONTROLLER = """
import random, sys, time
from pathlib import Path
from slacktide.backends.base import LaunchSpec
from slacktide.backends.local import Launch, LocalProcesses

root, owner, run, attempt = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
random.seed(sys.argv[5])
processes = LocalProcesses(root / "root", owner)
spec = LaunchSpec(job="job", run=run, grace_s=5.0)
processes.register(Launch(spec=spec, workdir=root, checkpoint_dir=root / "c"))
processes.sweep({"job": attempt} if attempt else {})
width = 1

def works():
    logs = [log for log in processes.logs("job") if log.attempt == attempt and log.rank < width]
    return sum(f" of {width}\\n" in log.path.read_text() for log in logs) == width

while True:
    attempt, width = attempt + 1, 3 - width
    (root / "journal.part").write_text(str(attempt))
    (root / "journal.part").replace(root / "journal")
    processes.hold("job", attempt, ("spot",) * width)
    until = time.monotonic() + random.choice([0.05, 20.0])
    while time.monotonic() < until and not works():
        processes.tick()
        time.sleep(random.random() * 0.01)
    if random.random() < 0.2:
        processes.take("job", 1, 0.0)
"""


def test_a_controller_killed_at_any_moment_leaves_one_process_a_rank(stage: Stage) -> None:
    """After a sweep nobody lives but the workers of the kept attempt, in whichever they began."""
    chance, journal = random.Random(5), stage.folder / "journal"
    journal.write_text("0")
    for seed in range(5):
        before = int(journal.read_text())
        given = [str(stage.folder), stage.owner, RUN, str(before), str(seed)]
        orders = chance.randint(1, 4)
        with subprocess.Popen([sys.executable, "-c", CONTROLLER, *given]) as controller:
            wait_for(lambda: int(journal.read_text()) >= before + orders)  # noqa: B023
            time.sleep(chance.random() * 0.3)  # any moment will do: what follows holds for each
            controller.kill()
        kept = int(journal.read_text())
        stage.restart({"job": kept})
        stage.until(lambda: not stage.strays())
        intent = folder.read_intent(stage.folder / "root" / "job", kept)
        stage.register(RUN, checkpoint_dir=stage.folder / "c", grace_s=5.0)
        stage.hold(kept, intent.kinds if intent else [SPOT])
        stage.until(lambda: stage.look().phase in {"running", "exited"} and not stage.look().reforming)
        # One whose controller died between its fork and its first note may come late, and leaves by itself.
        stage.until(lambda: set(leaders(stage)) <= set(pids(stage)))
    assert folder.taken_over(stage.folder / "root" / "job"), "no worker went on in another set"


def test_the_numpy_job_ends_where_one_ends_that_was_never_resized(stage: Stage) -> None:
    train = "-m slacktide.demo.train --steps 400"
    stage.register(f"exec $SLACKTIDE_PYTHON {train} --step-seconds 0.01")
    for attempt, width in ((1, 2), (2, 1), (3, 3)):
        stage.hold(attempt, [SPOT] * width)
        stage.until(lambda: stage.look().attempt == attempt and not stage.look().reforming)  # noqa: B023
        assert (stage.look().places_sent_s is not None) == (attempt > 1)
        done = stage.look().done_share
        stage.until(lambda: stage.look().done_share > done)  # noqa: B023
    seen = stage.until_phase("exited", 3)
    assert (seen.finished, seen.exit_codes) == (True, (0, 0, 0))
    alone = stage.folder / "alone"
    alone.mkdir()
    subprocess.run([sys.executable, *train.split()], cwd=alone, check=True, capture_output=True)
    resized, whole = (last_state(place / "checkpoints") for place in (stage.folder, alone))
    assert np.allclose(resized, whole, rtol=1e-9)


def last_state(place: Path) -> NDArray[np.float64]:
    """Return what the NumPy job saved last."""
    with np.load(io.BytesIO((place / "step-000000400.ckpt").read_bytes()[32:])) as found:
        state: NDArray[np.float64] = found["state"]
        return state
