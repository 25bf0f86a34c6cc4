"""The set-up of a job succeeds once, before its first worker begins."""

from __future__ import annotations

from .conftest import Stage

FOREVER = "while :; do sleep 0.01; done"


def test_it_runs_once_and_first(stage: Stage) -> None:
    stage.register("echo run >> story; exit 0", setup="echo setup $SLACKTIDE_JOB_ID >> story; echo hello")
    stage.hold(1, ["spot"])
    assert stage.until_phase("exited", 1).setup_exit == 0
    stage.hold(2, ["spot"])
    stage.until_phase("exited", 2)
    stage.restart({"job": 2})
    stage.register("echo run >> story; exit 0", setup="echo setup $SLACKTIDE_JOB_ID >> story; echo hello")
    stage.hold(3, ["spot"])
    stage.until_phase("exited", 3)
    assert (stage.folder / "story").read_text().split("\n") == ["setup job", "run", "run", "run", ""]
    assert stage.processes.logs("job")[0].path.read_text() == "hello\n"


def test_its_failure_is_shown_and_another_attempt_tries_again(stage: Stage) -> None:
    stage.register("true", setup="[ -e ready ] || exit 9")
    stage.hold(1, ["spot", "spot"])
    seen = stage.until_phase("exited")
    assert (seen.attempt, seen.setup_exit, seen.exit_codes) == (1, 9, (None, None))
    stage.ticks()
    assert stage.look().setup_exit == 9
    (stage.folder / "ready").touch()
    stage.hold(2, ["spot"])
    seen = stage.until_phase("exited", 2)
    stage.until(lambda: stage.look().exit_codes == (0,))
    assert stage.look().setup_exit == 0


def test_it_ends_when_nothing_is_wanted_any_more(stage: Stage) -> None:
    stage.register("true", setup=f"echo > begun; {FOREVER}")
    stage.hold(1, ["spot"])
    stage.until_file("begun")
    assert (stage.look().phase, stage.look().spot_gpus) == ("setting-up", 0)
    stage.hold(2, [])
    stage.until_phase("none")
    assert not stage.marked()


def test_a_later_order_does_not_begin_it_again(stage: Stage) -> None:
    stage.register("true", setup="echo begun >> begun; until [ -e go ]; do sleep 0.01; done")
    stage.hold(1, ["spot"])
    stage.until_file("begun")
    stage.hold(2, ["spot"])
    stage.ticks()
    (stage.folder / "go").touch()
    stage.until_phase("exited", 2)
    assert (stage.folder / "begun").read_text() == "begun\n"


def test_it_outlives_a_controller(stage: Stage) -> None:
    text = "echo begun >> begun; until [ -e go ]; do sleep 0.01; done"
    stage.register("true", setup=text)
    stage.hold(1, ["spot"])
    stage.until_file("begun")
    stage.restart({"job": 1})
    stage.register("true", setup=text)
    stage.hold(1, ["spot"])
    stage.ticks()
    assert stage.look().phase == "setting-up"
    (stage.folder / "go").touch()
    stage.until(lambda: stage.look().exit_codes == (0,))
    assert (stage.folder / "begun").read_text() == "begun\n"


def test_one_that_nobody_wants_is_swept_away(stage: Stage) -> None:
    stage.register("true", setup=f"echo > begun; {FOREVER}")
    stage.hold(1, ["spot"])
    stage.until_file("begun")
    stage.restart({})
    stage.until(lambda: not stage.strays())
    assert not stage.marked()
