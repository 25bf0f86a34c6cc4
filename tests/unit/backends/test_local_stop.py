"""Workers end when told to: politely first, then for certain, and with all that they started."""

from __future__ import annotations

import signal

import pytest

from slacktide.backends.process_table import scan

from .conftest import Stage, wait_for

FOREVER = "while :; do sleep 0.01; done"
STUBBORN = f"trap '' TERM; echo > ready-$RANK; {FOREVER}"
POLITE = f"trap 'echo $RANK >> told; exit 0' TERM; echo > ready-$RANK; {FOREVER}"


def begin(stage: Stage, run: str, kinds: str, grace_s: float = 30.0, ready: str = "ready-{}") -> None:
    """Start workers (s: spot, o: on demand) and wait until each has written its file."""
    stage.register(run, grace_s=grace_s)
    stage.hold(1, ["spot" if kind == "s" else "on-demand" for kind in kinds])
    for rank in range(len(kinds)):
        stage.until_file(ready.format(rank))


def test_a_stubborn_worker_is_killed_when_grace_is_over_and_not_before(stage: Stage) -> None:
    begin(stage, STUBBORN, "ss")
    stage.hold(2, [])
    stage.ticks()
    stage.time_s += 29.9
    stage.ticks()
    seen = stage.look()
    assert (seen.phase, seen.attempt, seen.spot_gpus) == ("stopping", 1, 2)
    stage.time_s += 0.2
    stage.until_phase("none")
    assert not stage.marked()


def test_a_new_set_waits_for_a_stubborn_one(stage: Stage) -> None:
    begin(stage, STUBBORN, "s")
    stage.hold(2, ["on-demand"])
    stage.ticks()
    assert (stage.look().phase, stage.look().attempt) == ("stopping", 1)
    stage.time_s += 31
    assert stage.until_phase("running", 2).on_demand_gpus == 1


def test_workers_that_end_as_asked_have_not_failed(stage: Stage) -> None:
    begin(stage, f"echo > ready-$RANK; {FOREVER}", "so")
    stage.processes.take("job", 0, 120.0)
    seen = stage.until_phase("exited")
    assert (seen.exit_codes, seen.failed_rank) == ((-15, -15), None)


def test_without_notice_there_is_no_sigterm(stage: Stage) -> None:
    begin(stage, POLITE, "sos")
    stage.processes.take("job", 1, 0.0)
    seen = stage.until_phase("exited")
    assert seen.exit_codes == (0, 0, -9)
    assert sorted((stage.folder / "told").read_text().split()) == ["0", "1"]


def test_with_notice_there_is_sigterm_for_all(stage: Stage) -> None:
    begin(stage, POLITE, "sos")
    stage.processes.take("job", 1, 120.0)
    assert stage.until_phase("exited").exit_codes == (0, 0, 0)
    assert sorted((stage.folder / "told").read_text().split()) == ["0", "1", "2"]


def test_notice_and_grace_run_out_each_in_its_time(stage: Stage) -> None:
    begin(stage, STUBBORN, "sos", grace_s=30.0)
    stage.processes.take("job", 1, 5.0)
    stage.time_s += 4.9
    stage.ticks()
    assert stage.look().exit_codes == (None, None, None)
    stage.time_s += 0.2
    stage.until(lambda: stage.look().exit_codes == (None, None, -9))
    stage.time_s += 24.0
    stage.ticks()
    assert stage.look().exit_codes == (None, None, -9)
    stage.time_s += 1.0
    assert stage.until_phase("exited").exit_codes == (-9, -9, -9)


def test_taking_again_gives_nobody_more_time_or_a_second_word(stage: Stage) -> None:
    begin(stage, f"trap 'echo told >> told-$RANK' TERM; echo > ready-$RANK; {FOREVER}", "ss")
    stage.processes.take("job", 1, 5.0)
    stage.time_s += 4.0
    stage.processes.take("job", 1, 5.0)
    stage.hold(2, ["spot"])
    stage.processes.tick()
    stage.until_file("told-0")
    stage.time_s += 1.1
    stage.until(lambda: stage.look().exit_codes == (None, -9))
    stage.time_s += 25.0
    stage.until_phase("running", 2)
    assert (stage.folder / "told-0").read_text() == "told\n"


def test_nothing_starts_after_a_taking_until_a_new_attempt_is_ordered(stage: Stage) -> None:
    begin(stage, f"echo > ready-$RANK; {FOREVER}", "so")
    stage.processes.take("job", 0, 0.0)
    stage.until_phase("exited")
    stage.hold(1, ["spot", "on-demand"])
    stage.ticks()
    assert stage.look().phase == "exited"
    stage.hold(2, ["on-demand"])
    assert stage.until_phase("running", 2).on_demand_gpus == 1


def test_a_taking_that_leaves_enough_takes_nothing(stage: Stage) -> None:
    begin(stage, f"echo > ready-$RANK; {FOREVER}", "so")
    stage.processes.take("job", 1, 0.0)
    stage.ticks()
    seen = stage.look()
    assert (seen.phase, seen.spot_gpus, seen.on_demand_gpus) == ("running", 1, 1)


def test_workers_taken_before_they_began_never_begin(stage: Stage) -> None:
    stage.register("touch begun")
    stage.hold(1, ["spot", "on-demand"], not_before=stage.time_s + 10)
    stage.processes.take("job", 0, 0.0)
    stage.time_s += 20
    stage.hold(1, ["spot", "on-demand"])
    stage.ticks()
    seen = stage.look()
    assert (seen.phase, seen.attempt, seen.exit_codes) == ("exited", 1, (None, None))
    assert not (stage.folder / "begun").exists()
    stage.hold(2, ["on-demand"])
    assert stage.until_phase("exited", 2).exit_codes == (0,)


def test_the_old_set_goes_though_the_market_took_the_new_one_before_it_began(stage: Stage) -> None:
    begin(stage, f"echo > ready-$RANK; {FOREVER}", "o")
    stage.hold(2, ["spot", "spot"])
    stage.processes.take("job", 0, 0.0)
    seen = stage.until_phase("exited", 2)
    assert seen.exit_codes == (None, None)
    assert not stage.marked()


HIDDEN = {
    "in the background": f"sh -c '{FOREVER}' &",
    "stubborn": f"sh -c 'trap \"\" TERM; {FOREVER}' &",
    "in its own session": f"setsid sh -c 'trap \"\" TERM; {FOREVER}' &",
    "without variables": f"env -i sh -c 'trap \"\" TERM; {FOREVER}' &",
    "nested": f"sh -c \"setsid sh -c '{FOREVER}' & sh -c '{FOREVER}' & wait\" &",
}


@pytest.mark.parametrize("how", HIDDEN)
def test_what_a_worker_started_goes_with_it(stage: Stage, how: str) -> None:
    begin(stage, f"{HIDDEN[how]} echo $! > ready-$RANK; wait; {FOREVER}", "s")
    hidden = int((stage.folder / "ready-0").read_text())
    assert _lives(hidden)
    stage.hold(2, [])
    stage.ticks()
    stage.time_s += 31
    stage.until_phase("none")
    wait_for(lambda: not _lives(hidden))
    assert not stage.marked()


@pytest.mark.parametrize("how", HIDDEN)
def test_what_outlives_a_finished_worker_is_ended(stage: Stage, how: str) -> None:
    stage.register(f"{HIDDEN[how]} echo $! > ready-$RANK; exit 0", grace_s=30.0)
    stage.hold(1, ["spot"])
    stage.processes.tick()
    wait_for((stage.folder / "root" / "job" / "attempt-0001" / "rank-0.exit").exists)
    hidden = int((stage.folder / "ready-0").read_text())
    stage.until(lambda: stage.look().exit_codes == (0,))
    stage.ticks()
    stage.time_s += 31
    stage.until_phase("exited")
    assert not _lives(hidden)


def test_training_may_save_though_the_shell_above_it_died(stage: Stage) -> None:
    """A shell with more lines to run dies of SIGTERM at once; what it was running still has its grace."""
    training = (
        f"trap 'echo told >> told; until [ -e saved ]; do :; done; exit 0' TERM; echo > ready-0; {FOREVER}"
    )
    begin(stage, f'sh -c "{training}"\necho never', "s")
    stage.hold(2, ["spot"])
    stage.until_file("told")
    stage.until(lambda: stage.look().exit_codes == (-15,))
    stage.time_s += 29
    stage.ticks()
    seen = stage.look()
    assert (seen.phase, seen.attempt, seen.spot_gpus) == ("stopping", 1, 1)
    (stage.folder / "saved").touch()
    stage.until_phase("running", 2)
    assert (stage.folder / "told").read_text() == "told\n"


def test_a_notice_ends_training_though_the_shell_above_it_died(stage: Stage) -> None:
    training = f"trap 'echo > told-$RANK' TERM; echo > ready-$RANK; {FOREVER}"
    begin(stage, f'sh -c "{training}"\necho never', "ss", grace_s=30.0)
    stage.processes.take("job", 1, 5.0)
    for rank in (0, 1):
        stage.until_file(f"told-{rank}")
    stage.until(lambda: stage.look().exit_codes == (-15, -15))
    stage.time_s += 5.1
    stage.until(lambda: stage.look().spot_gpus == 1)
    stage.time_s += 25
    stage.until_phase("exited")


def test_signals_that_a_controller_ignores_still_reach_its_workers(stage: Stage) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        begin(stage, POLITE, "s")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGTERM, before)
    stage.processes.take("job", 0, 120.0)
    assert stage.until_phase("exited").exit_codes == (0,)


def test_no_word_is_lost_on_a_worker_that_is_just_beginning(stage: Stage) -> None:
    """With an hour of grace and a clock that stands still, a lost SIGTERM would never end."""
    stage.register(f"sleep 3600; {FOREVER}")
    for attempt in range(1, 60):
        stage.hold(attempt, ["spot"] * 2)
        for _ in range(attempt % 4):
            stage.processes.tick()
    stage.hold(60, [])
    stage.until_phase("none")
    assert not stage.marked()


def _lives(pid: int) -> bool:
    return any(seen.process.pid == pid for seen in scan())
