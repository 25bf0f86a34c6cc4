"""A new controller finds what the last one left: it keeps what is wanted and ends the rest."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slacktide.backends.process_table import alive
from slacktide.backends.workers import job_folder as folder
from slacktide.backends.workers import worker

from .conftest import Stage, wait_for

FOREVER = "while :; do sleep 0.01; done"
WAITING = "echo begun >> begun-$SLACKTIDE_ATTEMPT-$RANK; until [ -e go ]; do sleep 0.01; done; exit 6"


def begin(stage: Stage, run: str, width: int, attempt: int = 1) -> None:
    stage.register(run)
    stage.hold(attempt, ["spot"] * width)
    stage.until_phase("running", attempt)


def test_kept_workers_go_on_and_their_end_is_seen(stage: Stage) -> None:
    begin(stage, WAITING, 2)
    before = {seen.process for seen in stage.marked() if seen.process.pid == seen.session}
    stage.restart({"job": 1})
    seen = stage.look()
    assert (seen.phase, seen.attempt, seen.spot_gpus) == ("running", 1, 2)
    assert stage.strays() == []
    stage.register(WAITING)
    stage.hold(1, ["spot"] * 2)
    stage.ticks()
    assert {seen.process for seen in stage.marked() if seen.process.pid == seen.session} == before
    (stage.folder / "go").touch()
    seen = stage.until_phase("exited")
    assert seen.exit_codes == (6, 6)
    assert seen.failed_rank in {0, 1}


def test_an_end_that_nobody_watched_is_seen(stage: Stage) -> None:
    begin(stage, WAITING, 2)
    (stage.folder / "go").touch()
    wait_for(lambda: not stage.marked())
    stage.restart({"job": 1})
    assert stage.until_phase("exited").exit_codes == (6, 6)


def test_kept_workers_can_be_replaced(stage: Stage) -> None:
    begin(stage, WAITING, 2)
    stage.restart({"job": 1})
    stage.register(WAITING)
    stage.hold(2, ["on-demand"])
    assert stage.until_phase("running", 2).on_demand_gpus == 1


def test_all_else_is_ended_and_the_next_set_waits_for_that(stage: Stage) -> None:
    stubborn = f"trap '' TERM; echo > ready; {FOREVER}"
    begin(stage, stubborn, 1)
    stage.until_file("ready")
    stage.restart({"job": 2})
    (stray,) = stage.strays()
    assert stray == ("job", 1, 0)
    stage.register(stubborn)
    stage.hold(2, ["spot"])
    stage.ticks()
    assert (stage.look().phase, stage.look().attempt) == ("starting", 2)
    stage.time_s += 3601
    stage.until(lambda: not stage.strays())
    stage.until_phase("running", 2)


def test_sweeping_again_gives_nobody_a_second_word(stage: Stage) -> None:
    begin(stage, f"trap 'echo told >> told' TERM; echo > ready; {FOREVER}", 1)
    stage.until_file("ready")
    stage.restart({})
    stage.until_file("told")
    stage.processes.sweep({})
    stage.ticks()
    assert len(stage.strays()) == 1
    assert (stage.folder / "told").read_text() == "told\n"


def test_jobs_without_a_folder_are_found_in_memory(stage: Stage) -> None:
    begin(stage, FOREVER, 2)
    shutil.rmtree(stage.folder / "root" / "job")
    stage.restart({"job": 1})
    assert set(stage.strays()) == {("job", 1, 0), ("job", 1, 1)}
    stage.until(lambda: not stage.strays())
    assert not stage.marked()


def test_what_outlived_its_supervisor_is_ended(stage: Stage) -> None:
    begin(stage, f"echo > ready; {FOREVER}", 1)
    stage.until_file("ready")
    process = folder.read_process(stage.folder / "root" / "job" / "attempt-0001" / "rank-0")
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    stage.restart({"job": 1})
    stage.until(lambda: stage.look().exit_codes == (-9,))
    seen = stage.until_phase("exited")
    assert (seen.failed_rank, seen.lost_spot_gpus, seen.stopped) == (None, 1, True)
    assert not stage.marked()


def test_workers_told_to_end_by_the_last_controller_do_end(stage: Stage) -> None:
    stubborn = f"trap '' TERM; echo > ready; {FOREVER}"
    begin(stage, stubborn, 1)
    stage.until_file("ready")
    stage.processes.take("job", 0, 3600.0)
    stage.restart({"job": 1})
    assert stage.look().phase == "stopping"
    stage.time_s += 3601
    seen = stage.until_phase("exited")
    assert (seen.exit_codes, seen.failed_rank) == ((-9,), None)


def test_who_failed_before_the_others_were_told_to_end_has_failed(
    stage: Stage,
) -> None:
    begin(stage, f'[ "$RANK" = 1 ] && exit 5; {FOREVER}', 2)
    stage.until(lambda: stage.look().failed_rank == 1)
    time.sleep(0.02)  # the clock of files moves in steps of some milliseconds
    stage.processes.take("job", 0, 3600.0)
    stage.until_phase("exited")
    stage.restart({"job": 1})
    seen = stage.until_phase("exited")
    assert (seen.exit_codes, seen.failed_rank) == ((-15, 5), 1)


def test_who_ended_as_asked_has_not_failed_for_the_next_controller(stage: Stage) -> None:
    begin(stage, FOREVER, 2)
    stage.processes.take("job", 0, 3600.0)
    stage.until_phase("exited")
    time.sleep(0.02)  # the clock of files moves in steps of some milliseconds
    for _ in range(2):
        stage.restart({"job": 1})
        seen = stage.until_phase("exited")
        assert (seen.exit_codes, seen.failed_rank) == ((-15, -15), None)


def test_the_pid_of_another_is_left_alone(stage: Stage) -> None:
    """A note may name a pid that by now is someone else's: only the start time tells."""
    stage.register("exit 0")
    stage.hold(1, ["spot"])
    stage.until_phase("exited")
    other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        home = stage.folder / "root" / "job" / "attempt-0001"
        (home / "rank-0.pid").write_text(f"{other.pid} 12345\n")
        (home / "rank-0.exit").unlink()
        stage.restart({})
        stage.time_s += 1e6
        stage.ticks()
        assert stage.strays() == []
        stage.restart({"job": 1})
        assert stage.until_phase("exited").exit_codes == (-9,)
        stage.register("exit 0")
        stage.hold(2, [])
        stage.until_phase("none")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_another_owners_workers_are_left_alone(stage: Stage) -> None:
    begin(stage, FOREVER, 1)
    other = Stage(stage.folder)
    other.restart({})
    assert other.strays() == []
    stage.ticks()
    assert stage.look().phase == "running"


def test_a_set_that_was_only_half_begun_is_completed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.posix_spawn, []

    def die_at_second(*given: object, **more: object) -> int:
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "posix_spawn", die_at_second)
    stage.register(WAITING)
    stage.hold(1, ["spot"] * 3)
    with pytest.raises(KeyboardInterrupt):
        stage.processes.tick()
    stage.restart({"job": 1})
    stage.ticks()
    assert stage.look().phase == "starting"
    stage.register(WAITING)
    stage.hold(1, ["spot"] * 3)
    assert stage.until_phase("running").spot_gpus == 3
    assert [stage.until_file(f"begun-1-{rank}") for rank in range(3)] == ["begun\n"] * 3


def supervised(stage: Stage, run: str) -> tuple[Path, int]:
    """Start a supervisor by hand, as a controller does that dies right afterwards."""
    home = stage.folder / "root" / "job" / "attempt-0001"
    stem = home / "rank-0"
    environ = {**os.environ, "SLACKTIDE_WORKER": f"{stage.owner}/job/1/0"}
    return stem, worker.spawn(stem, home / "stop", Path(f"{stem}.log"), stage.folder, run, environ)


def test_one_who_comes_after_the_sweep_does_not_begin(stage: Stage) -> None:
    stage.register("true")
    intent = folder.Intent(attempt=1, kinds=("spot",), devices=(), master_port=1, grace_s=5.0)
    folder.write_intent(stage.folder / "root" / "job", intent)
    stage.restart({})
    _, pid = supervised(stage, "touch begun")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 143
    assert not (stage.folder / "begun").exists()


def test_a_rank_is_begun_only_once(stage: Stage) -> None:
    begin(stage, WAITING, 1)
    stage.until_file("begun-1-0")
    _, pid = supervised(stage, "touch begun")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 125
    assert not (stage.folder / "begun").exists()
    (stage.folder / "go").touch()
    assert stage.until_phase("exited").exit_codes == (6,)


def test_one_who_was_begun_by_a_dead_controller_and_comes_late_is_taken_over(stage: Stage) -> None:
    """Two are started for one rank; whoever registers first is watched, the other leaves."""
    stage.register(WAITING)
    intent = folder.Intent(attempt=1, kinds=("spot",), devices=(), master_port=1, grace_s=5.0)
    folder.write_intent(stage.folder / "root" / "job", intent)
    stage.restart({"job": 1})
    stage.register(WAITING)
    stage.hold(1, ["spot"])
    stem, pid = supervised(stage, "until [ -e go ]; do sleep 0.01; done; exit 8")
    stage.processes.tick()
    wait_for(lambda: folder.read_process(stem))
    (stage.folder / "go").touch()
    seen = stage.until_phase("exited")
    os.waitpid(pid, 0)
    first = folder.read_process(stem)
    assert first is not None
    assert seen.exit_codes == ((8,) if first.pid == pid else (6,))


RUN = (
    "trap 'sleep 0.02; exit 0' TERM; setsid sleep 60 & sleep 60 &"
    "until [ -e go-$SLACKTIDE_ATTEMPT ]; do sleep 0.01; done; exit 6"
)
CONTROLLER = """
import random, sys, time
from pathlib import Path
from slacktide.backends.base import LaunchSpec
from slacktide.backends.local import Launch, LocalProcesses

root, owner, run, attempt = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
random.seed(sys.argv[5])
processes = LocalProcesses(root / "root", owner)
spec = LaunchSpec(job="job", run=run, grace_s=0.1)
processes.register(Launch(spec=spec, workdir=root, checkpoint_dir=root / "c"))
while True:
    attempt += 1
    (root / "journal.part").write_text(str(attempt))
    (root / "journal.part").replace(root / "journal")
    kinds = tuple(random.choice(["spot", "on-demand"]) for _ in range(random.randrange(1, 4)))
    processes.hold("job", attempt, kinds)
    for _ in range(random.randrange(1, 12)):
        processes.tick()
        time.sleep(random.random() * 0.01)
    if random.random() < 0.2:
        processes.take("job", random.randrange(2), random.choice([0.0, 0.05]))
"""


def test_a_controller_killed_at_any_moment_leaves_nobody_unexplained(stage: Stage) -> None:
    """After a sweep only the kept attempt lives, one process per rank, and how it ends is seen."""
    chance = random.Random(17)
    journal = stage.folder / "journal"
    journal.write_text("0")
    for seed in range(12):
        _controller_killed(stage, journal, seed, chance.random() * 0.3)
        kept = int(journal.read_text())
        stage.restart({"job": kept})
        wanted = f"{stage.owner}/job/{kept}/"
        stage.until(lambda: all((seen.marker or "").startswith(wanted) for seen in stage.marked()))  # noqa: B023
        stage.until(lambda: not stage.strays())
        _finished(stage, kept)


def _controller_killed(stage: Stage, journal: Path, seed: int, after_s: float) -> None:
    """Run a controller that gives orders at random, and kill it some time after its first."""
    before = int(journal.read_text())
    given = [str(stage.folder), stage.owner, RUN, str(before), str(seed)]
    with subprocess.Popen([sys.executable, "-c", CONTROLLER, *given]) as controller:
        wait_for(lambda: int(journal.read_text()) > before)
        time.sleep(after_s)  # any moment will do: what follows holds for each
        controller.kill()


def _finished(stage: Stage, kept: int) -> None:
    """Hold the kept attempt again, let it end by itself, and see how each of its workers ended."""
    home = stage.folder / "root" / "job"
    intent = folder.read_intent(home, kept)
    stage.register(RUN, checkpoint_dir=stage.folder / "c")
    stage.hold(kept, intent.kinds if intent else ["spot"])
    stage.until(lambda: stage.look().phase in {"running", "exited"})
    begun = [path for path in home.glob(f"attempt-{kept:04d}/rank-*.pid") if path.read_text().endswith("\n")]
    told = (home / f"attempt-{kept:04d}" / "stop").exists()
    assert told or len(begun) == len(stage.look().exit_codes)
    (stage.folder / f"go-{kept}").touch()
    seen = stage.until_phase("exited", kept)
    assert set(seen.exit_codes) <= ({0, 6, -9, -15, None} if told else {6})
    assert not stage.marked()


def test_a_process_is_known_by_its_start_time(stage: Stage) -> None:
    begin(stage, FOREVER, 1)
    process = folder.read_process(stage.folder / "root" / "job" / "attempt-0001" / "rank-0")
    assert process is not None
    assert alive(process)
    assert not alive(process._replace(started="1 x"))
