"""Losses are not failures, and what is held is told as it is (row 12 of "Nothing false")."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator

import pytest

from slacktide.backends.process_table import dying
from slacktide.backends.workers.worker import Worker
from slacktide.backends.workers.worker_set import WorkerSet
from slacktide.core.types import Order

from .conftest import Site, Stage, wait_for

FOREVER = "while :; do sleep 0.01; done"
READY = "echo > ready-$RANK"
ORDER = Order("job", 1, "here", 1, 2)


def test_row_12_a_lost_worker_is_a_loss_and_its_set_is_ended(site: Site) -> None:
    site.begin(f"trap 'echo >> saved; exit 3' TERM; {READY}; {FOREVER}", spot=1, on_demand=2)
    os.killpg(site.supervisor(2), signal.SIGKILL)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.taken_spot_gpus, seen.lost_on_demand_gpus) == (1, 0)
    assert (seen.finished, seen.stopped, seen.failure) == (False, True, None)
    assert (site.folder / "saved").read_text() == "\n\n"


def test_row_12_on_demand_machines_can_be_lost_too(site: Site) -> None:
    site.begin(f"{READY}; {FOREVER}", spot=1, on_demand=2)
    for rank in (0, 1):
        os.killpg(site.supervisor(rank), signal.SIGKILL)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.taken_spot_gpus, seen.lost_on_demand_gpus, seen.failure) == (0, 2, None)


def test_row_12_survivors_that_die_of_a_loss_have_not_failed(site: Site) -> None:
    """Peers notice before any controller does, and exit with an error of their own."""
    peer = "until [ -e lost ]; do sleep 0.01; done; exit 1"
    site.begin(f'{READY}; [ "$RANK" = 0 ] && {{ {FOREVER}; }}; {peer}', spot=3)
    os.killpg(site.supervisor(0), signal.SIGKILL)
    (site.folder / "lost").touch()
    for rank in (1, 2):
        wait_for((site.home() / f"rank-{rank}.exit").exists)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.taken_spot_gpus, seen.stopped, seen.failure) == (1, True, None)


def test_row_12_no_failure_is_told_whichever_is_seen_first(site: Site) -> None:
    """One machine is lost, and the other worker fails of that while the controller looks."""
    os.mkfifo(site.folder / "pipe")
    site.enter(
        'if [ "$RANK" = 0 ]; then read line < pipe; exit 1; fi; exec 3> pipe;'
        f"echo > ready-$SLACKTIDE_ATTEMPT; {FOREVER}"
    )
    for attempt in range(1, 11):
        site.hold(attempt, spot=2)
        site.until_files(f"ready-{attempt}")
        os.killpg(site.supervisor(1, attempt), signal.SIGKILL)
        seen = site.until(lambda facts: facts.gone or facts.failure)
        assert (seen.failure, seen.taken_spot_gpus, seen.stopped) == (None, 1, True)


def test_row_12_a_failure_is_told_only_when_the_others_have_answered_after_it(stage: Stage) -> None:
    """A peer that was alive when it was last asked may be what the failure was about."""
    stage.register(f'echo > ready-$RANK; [ "$RANK" = 0 ] && {{ {FOREVER}; }}; exit 5')
    stage.hold(1, ["spot", "spot"])
    stage.until_file("ready-0")
    home = stage.folder / "root" / "job" / "attempt-0001"
    workers = [Worker(rank, "spot", f"{stage.owner}/job/1/{rank}", home / f"rank-{rank}") for rank in (0, 1)]
    wait_for((home / "rank-1.exit").exists)
    worker_set = WorkerSet(1, workers, home / "stop", 30.0)  # asked rank 0 before it saw rank 1 fail
    real = Worker.poll
    killed: list[int] = []

    def poll(self: Worker) -> None:
        if self.rank == 1 and not killed:
            killed.append(int((home / "rank-0.pid").read_text().split()[0]))
            os.killpg(killed[0], signal.SIGKILL)
        real(self)

    patch = pytest.MonkeyPatch()
    patch.setattr(Worker, "poll", poll)
    try:
        worker_set.poll(0.0)
        assert worker_set.failed_rank is None
    finally:
        patch.undo()
    wait_for(lambda: worker_set.gone, lambda: worker_set.poll(0.0))
    assert (worker_set.failed_rank, [worker.lost for worker in workers]) == (None, [True, False])


def test_a_process_that_was_killed_is_known_to_be_dying() -> None:
    pid = os.posix_spawn("/bin/sleep", ["sleep", "60"], os.environ)
    try:
        assert not dying(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
    assert dying(pid)
    os.waitpid(pid, 0)
    assert not dying(pid)


def test_a_command_that_is_killed_while_its_machine_lives_has_failed(site: Site) -> None:
    """As by the system when memory runs out."""
    site.enter(f'[ "$RANK" = 1 ] && kill -9 $$; {FOREVER}')
    site.hold(spot=2)
    seen = site.until(lambda facts: facts.failure)
    assert seen.failure is not None
    assert (seen.failure.rank, seen.failure.exit_code) == (1, -9)
    assert (seen.stopped, seen.taken_spot_gpus) == (False, 0)


def test_row_12_all_that_were_killed_are_lost_though_one_is_seen_dead_before_the_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.begin(f"{READY}; {FOREVER}", spot=1, on_demand=2)
    slow, looks = site.supervisor(1), iter(range(5))
    monkeypatch.setattr(Worker, "dying", property(lambda worker: worker.alive and worker.pid == slow))
    monkeypatch.setattr(Worker, "poll", _late(Worker.poll, slow, looks))
    for rank in (0, 1, 2):
        os.killpg(site.supervisor(rank), signal.SIGKILL)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.taken_spot_gpus, seen.lost_on_demand_gpus) == (1, 2)


@pytest.mark.parametrize("notice_s", [0.0, 60.0])
def test_what_the_market_takes_is_neither_lost_nor_failed(site: Site, notice_s: float) -> None:
    run = f"{READY}; {FOREVER}"
    site.begin(run, spot=2, on_demand=1)
    site.local.take("job", 1, notice_s)
    for _ in range(2):
        seen = site.until(lambda facts: facts.gone)
        assert (seen.taken_spot_gpus, seen.lost_on_demand_gpus, seen.failure) == (0, 0, None)
        assert (seen.finished, seen.stopped) == (False, True)
        site.restart(run, Order("job", 1, "here", 2, 1))


def test_a_notice_is_told_while_it_runs(site: Site) -> None:
    site.begin(f"trap '' TERM; {READY}; {FOREVER}", spot=2, on_demand=1)
    assert site.look().notice_hours is None
    site.local.take("job", 1, 600.0)
    told = site.look().notice_hours
    assert told is not None
    assert 0.0 < told <= 600.0 * site.local.place.speed / 3600.0
    site.local.take("job", 1, 0.0)
    assert site.until(lambda facts: facts.gone).notice_hours is None


def test_an_end_that_is_asked_for_is_no_notice(site: Site) -> None:
    site.begin(f"trap '' TERM; {READY}; {FOREVER}", spot=1)
    site.local.hold(Order("job", 1, "here", 1, 0, ending=True))
    assert site.look().notice_hours is None


def test_row_12_a_loss_is_still_known_after_a_restart(site: Site) -> None:
    run = f"{READY}; {FOREVER}"
    site.begin(run, spot=1, on_demand=2)
    os.killpg(site.supervisor(0), signal.SIGKILL)
    for _ in range(3):
        seen = site.until(lambda facts: facts.gone)
        assert (seen.taken_spot_gpus, seen.lost_on_demand_gpus, seen.stopped) == (0, 1, True)
        site.restart(run, ORDER)


def test_row_12_all_workers_of_another_boot_are_lost(site: Site) -> None:
    run = f"{READY}; {FOREVER}"
    site.begin(run, spot=1, on_demand=2)
    _reboot(site, 3)
    site.restart(run, ORDER)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.taken_spot_gpus, seen.lost_on_demand_gpus) == (1, 2)
    assert (seen.finished, seen.stopped, seen.failure) == (False, True, None)


def test_row_12_workers_of_whichever_attempt_are_held_while_they_live(site: Site) -> None:
    stubborn = f"trap '' TERM; {READY}; {FOREVER}"
    site.begin(stubborn, spot=1, on_demand=1)
    site.restart(stubborn, Order("job", 2, "here", 3, 0))  # the journal ordered more before it died
    seen = site.until(lambda facts: facts.attempt == 2)
    assert (seen.spot_gpus, seen.on_demand_gpus, seen.pending_gpus, seen.gone) == (1, 1, 3, False)
    assert seen.newest_attempt == 1


def test_row_12_workers_without_a_folder_are_held_as_what_they_are(site: Site) -> None:
    stubborn = f"trap '' TERM; {READY}; {FOREVER}"
    site.begin(stubborn, spot=1, on_demand=1)
    shutil.rmtree(site.root / "job")
    site.restart(stubborn, Order("job", 1, "here", 1, 1))
    seen = site.look()
    assert (seen.spot_gpus, seen.on_demand_gpus, seen.newest_attempt) == (1, 1, 1)
    assert (seen.stopped, seen.pending_gpus, seen.gone) == (True, 0, False)


def test_what_has_ended_is_not_pending(site: Site) -> None:
    site.enter("true")
    site.hold(spot=2)
    seen = site.until(lambda facts: facts.finished)
    assert (seen.spot_gpus, seen.pending_gpus) == (0, 0)


def test_row_12_a_number_that_was_used_before_begins_nothing(site: Site) -> None:
    """The journal is an old copy: what it orders next was begun before, by orders it knows nothing of."""
    run = f"echo $SLACKTIDE_ATTEMPT >> begun; {READY}; echo > begun-$SLACKTIDE_ATTEMPT; {FOREVER}"
    site.begin(run)
    for attempt in (2, 3):
        site.hold(attempt)
        site.until_files(f"begun-{attempt}")
    site.restart(run, Order("job", 1, "here", 1, 0))
    for attempt in (1, 2, 3):
        site.hold(attempt)
        seen = site.until(lambda facts: facts.gone)
        assert seen.attempt == attempt
        assert (seen.stopped, seen.finished, seen.failure, seen.newest_attempt) == (True, False, None, 3)
    site.hold(4)
    site.until(lambda facts: facts.attempt == 4 and facts.spot_gpus == 1)
    wait_for(lambda: (site.folder / "begun").read_text() == "1\n2\n3\n4\n")


def test_row_12_another_set_of_the_same_number_is_not_the_orders_own(site: Site) -> None:
    run = f"{READY}; {FOREVER}"
    site.begin(run, spot=1)
    site.restart(run, Order("job", 1, "here", 0, 2))
    seen = site.until(lambda facts: facts.gone)
    assert (seen.stopped, seen.finished, seen.failure) == (True, False, None)


def test_an_attempt_of_which_only_the_folder_was_made_is_begun(site: Site) -> None:
    site.enter("true")
    site.home().mkdir()
    site.restart("true", Order("job", 1, "here", 1, 0))
    assert site.until(lambda facts: facts.gone).finished


def _late(real: Callable[[Worker], None], slow: int, looks: Iterator[int]) -> Callable[[Worker], None]:
    """Let one worker be seen dead only after some polls, as when the system is slow to end it."""

    def poll(worker: Worker) -> None:
        if worker.pid != slow or next(looks, None) is None:
            real(worker)

    return poll


def _reboot(site: Site, workers: int) -> None:
    """End all workers as a loss of power does, and let their notes be of another boot."""
    for rank in range(workers):
        os.killpg(site.supervisor(rank), signal.SIGKILL)
        note = site.home() / f"rank-{rank}.pid"
        pid, ticks, _ = note.read_text().split()
        state = note.stat()
        note.write_text(f"{pid} {ticks} 00000000-0000-0000-0000-000000000000\n")
        os.utime(note, ns=(state.st_atime_ns, state.st_mtime_ns))
    wait_for(lambda: not site.living())


def test_what_an_attempt_was_to_be_is_on_disk_for_us_alone(site: Site) -> None:
    site.begin(f"{READY}; {FOREVER}")
    intent = json.loads((site.home() / "attempt.json").read_text())
    assert intent["home"] == os.path.realpath(site.root / "job")
    for path in (site.root, *site.root.rglob("*")):
        if "checkpoints" not in path.parts:
            assert path.stat().st_mode & 0o077 == 0, path
