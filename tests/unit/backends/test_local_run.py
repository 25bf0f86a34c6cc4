"""Workers run as ordered: their variables, their ends, and the way from one set to the next."""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from slacktide.backends.base import LaunchSpec
from slacktide.backends.local import Launch
from slacktide.backends.workers import job_folder
from slacktide.backends.workers import job_folder as folder
from slacktide.core.errors import InputError

from .conftest import Stage

FOREVER = "while :; do sleep 0.01; done"


def test_a_job_runs_to_its_end(stage: Stage) -> None:
    stage.register('echo "rank $RANK says"; echo loudly >&2')
    stage.hold(1, ["spot", "on-demand"])
    seen = stage.until_phase("exited")
    assert seen.exit_codes == (0, 0)
    assert (seen.attempt, seen.failed_rank, seen.spot_gpus, seen.on_demand_gpus) == (1, None, 0, 0)
    assert [stage.log(rank) for rank in (0, 1)] == ["rank 0 says\nloudly\n", "rank 1 says\nloudly\n"]


def test_nothing_is_held_before_the_first_order(stage: Stage) -> None:
    stage.register("true")
    stage.ticks()
    seen = stage.look()
    assert (seen.attempt, seen.phase, seen.exit_codes, seen.silent_s) == (0, "none", (), 0.0)


def test_workers_are_counted_by_kind_while_they_live(stage: Stage) -> None:
    stage.register(FOREVER)
    stage.hold(1, ["spot", "on-demand", "spot"])
    seen = stage.until_phase("running")
    assert (seen.spot_gpus, seen.on_demand_gpus, seen.exit_codes) == (2, 1, (None, None, None))


def test_a_worker_is_told_who_it_is(stage: Stage) -> None:
    stage.register("env -0 > env-$RANK.part && mv env-$RANK.part env-$RANK", env={"COLOUR": "red"})
    stage.hold(1, ["spot", "on-demand"])
    stage.until_phase("exited")
    first, second = (_variables(stage.folder / f"env-{rank}") for rank in (0, 1))
    home = stage.folder / "root" / "job"
    for rank, kind, variables in ((0, "spot", first), (1, "on-demand", second)):
        expected = {
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": "127.0.0.1",
            "SLACKTIDE_JOB_ID": "job",
            "SLACKTIDE_ATTEMPT": "1",
            "SLACKTIDE_CHECKPOINT_DIR": str(stage.folder / "checkpoints"),
            "SLACKTIDE_PROGRESS": str(home / "progress.jsonl"),
            "SLACKTIDE_GRACE_SECONDS": "3600",
            "SLACKTIDE_CAPACITY_TYPE": kind,
            "SLACKTIDE_WORKER": f"{stage.owner}/job/1/{rank}",
            "SKYPILOT_NODE_RANK": str(rank),
            "SKYPILOT_NUM_NODES": "2",
            "SKYPILOT_NUM_GPUS_PER_NODE": "1",
            "SKYPILOT_NODE_IPS": "127.0.0.1\n127.0.0.1",
            "SKYPILOT_TASK_ID": "job",
            "PYTHONUNBUFFERED": "1",
            "COLOUR": "red",
        }
        assert {name: variables.get(name) for name in expected} == expected
    assert first["MASTER_PORT"] == second["MASTER_PORT"]
    assert int(first["MASTER_PORT"]) > 0


def test_a_worker_reads_nothing_and_has_no_file_of_ours_open(stage: Stage) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        stage.register("cat; ls -l /proc/self/fd > fds.part; mv fds.part fds")
        stage.hold(1, ["spot"])
        assert stage.until_phase("exited").exit_codes == (0,)
    finally:
        os.close(reading)
        os.close(writing)
    assert "pipe:" not in (stage.folder / "fds").read_text()


def test_a_job_works_in_its_folder(stage: Stage) -> None:
    place = stage.folder / 'it\'s a "place" $(touch x)'
    place.mkdir()
    stage.register("pwd", workdir=place)
    stage.hold(1, ["spot"])
    stage.until_phase("exited")
    assert stage.log() == f"{place}\n"


def test_a_folder_removed_meanwhile_is_the_failure_of_the_worker(stage: Stage) -> None:
    place = stage.folder / "gone"
    place.mkdir()
    stage.register("pwd", workdir=place)
    place.rmdir()
    stage.hold(1, ["spot"])
    assert stage.until_phase("exited").exit_codes == (126,)
    assert "gone" in stage.log()


@pytest.mark.parametrize(
    ("run", "code"),
    [
        ("no-such-command", 127),
        ("exit 3", 3),
        ("kill -SEGV $$", -11),
        ("sh -c 'kill -9 $$'", -9),
        ("exit 255", 255),
    ],
)
def test_a_failure_is_named(stage: Stage, run: str, code: int) -> None:
    stage.register(f'if [ "$RANK" = 1 ]; then {run}; else {FOREVER}; fi')
    stage.hold(1, ["spot"] * 3)
    stage.until(lambda: stage.look().failed_rank is not None and stage.look().phase == "running")
    seen = stage.look()
    assert (seen.failed_rank, seen.exit_codes) == (1, (None, code, None))
    assert (seen.phase, seen.spot_gpus) == ("running", 2)


def test_the_first_failure_is_the_one_named(stage: Stage) -> None:
    """A worker that dies takes its peers with it; what matters is who was first."""
    stage.register(
        '[ "$RANK" = 2 ] && { touch dead; exit 7; }; until [ -e dead ]; do :; done; sleep 0.05; exit 1'
    )
    stage.hold(1, ["spot"] * 3)
    stage.processes.tick()
    root = stage.folder / "root" / "job" / "attempt-0001"
    stage.until(lambda: len(list(root.glob("*.exit"))) == 3)
    seen = stage.until_phase("exited")
    assert (seen.failed_rank, seen.exit_codes) == (2, (1, 1, 7))


def test_the_same_attempt_again_changes_nothing(stage: Stage) -> None:
    stage.register(FOREVER)
    stage.hold(1, ["spot"])
    stage.until_phase("running")
    before = {seen.process for seen in stage.marked() if seen.process.pid == seen.session}
    stage.hold(1, ["spot"])
    stage.hold(1, ["on-demand"] * 2)
    stage.ticks()
    assert {seen.process for seen in stage.marked() if seen.process.pid == seen.session} == before


def test_a_new_set_begins_when_the_old_one_is_gone(stage: Stage) -> None:
    stage.register(
        "trap 'sleep 0.05; echo end $SLACKTIDE_ATTEMPT >> story; exit 0' TERM;"
        f"echo begin $SLACKTIDE_ATTEMPT >> story; {FOREVER}"
    )
    for attempt, width in ((1, 2), (2, 3), (3, 1)):
        stage.hold(attempt, ["spot"] * width)
        stage.until_phase("running", attempt)
        story = stage.folder / "story"
        stage.until(lambda: story.exists() and _count(story, f"begin {attempt}") == width)  # noqa: B023
    expected = ["begin 1"] * 2 + ["end 1"] * 2 + ["begin 2"] * 3 + ["end 2"] * 3 + ["begin 3"]
    assert (stage.folder / "story").read_text().splitlines() == expected


def test_of_quick_orders_the_last_one_counts(stage: Stage) -> None:
    stage.register(f"trap 'until [ -e go ]; do sleep 0.01; done; exit 0' TERM; echo > ready-$RANK; {FOREVER}")
    for attempt in (1, 2, 3):
        stage.hold(attempt, ["spot"] * attempt)
    for rank in range(3):
        stage.until_file(f"ready-{rank}")
    for attempt in (4, 5, 6):
        stage.hold(attempt, ["on-demand"])
        stage.processes.tick()
    (stage.folder / "go").touch()
    stage.until_phase("running", 6)
    assert folder.attempts(stage.folder / "root" / "job") == [3, 6]


def test_a_start_can_be_put_off(stage: Stage) -> None:
    stage.register(FOREVER)
    stage.hold(1, ["spot"], not_before=stage.time_s + 60)
    stage.ticks()
    seen = stage.look()
    assert (seen.phase, seen.attempt, seen.spot_gpus, seen.exit_codes) == ("starting", 1, 0, (None,))
    stage.time_s += 60
    assert stage.until_phase("running").spot_gpus == 1


def test_no_workers_means_none(stage: Stage) -> None:
    stage.register(FOREVER)
    stage.hold(1, ["spot"] * 2)
    stage.until_phase("running")
    stage.hold(1, [])
    stage.until_phase("none")
    assert not stage.marked()
    stage.hold(2, ["spot"])
    stage.until_phase("running", 2)


def test_jobs_do_not_disturb_each_other(stage: Stage) -> None:
    stage.register(FOREVER)
    stage.register("exit 5", job_id="other")
    stage.hold(1, ["spot"])
    stage.processes.hold("other", 1, ("spot",))
    stage.until(lambda: stage.processes.look("other").phase == "exited")
    assert stage.processes.look("other").exit_codes == (5,)
    assert stage.until_phase("running").failed_rank is None


def test_silence_is_counted_from_the_first_word_on(stage: Stage) -> None:
    says = """echo '{"done": 0.1}' >> "$SLACKTIDE_PROGRESS\""""
    stage.register(f"until [ -e speak ]; do :; done; {says}; {FOREVER}")
    stage.hold(1, ["spot"])
    stage.until_phase("running")
    stage.time_s += 5000
    assert stage.look().silent_s == 0, "who never reports cannot fall silent"
    (stage.folder / "speak").touch()
    stage.until(lambda: stage.look().reported_s is not None)
    stage.time_s += 7
    assert stage.look().silent_s == 7


def test_progress_is_read_from_what_the_job_prints(stage: Stage) -> None:
    text = "echo 'epoch 1 step 5/10'; until [ -e go ]; do :; done; printf 'step 9/10\\rstep 10/1'"
    stage.register(text, progress_log=r"step (\d+)/(\d+)")
    stage.hold(1, ["spot"])
    stage.time_s += 600  # a line that was there before it was first read is dated by its file, in real time
    stage.until(lambda: stage.look().done_share == 0.5)
    seen = stage.look()
    assert (seen.own_report, seen.saved, seen.checkpointed_share) == (True, "unknown", 0.0)
    (stage.folder / "go").touch()
    seen = stage.until_phase("exited")
    assert (seen.done_share, seen.finished) == (0.9, True), "what is printed need not reach its end"


def test_what_a_job_says_is_seen(stage: Stage) -> None:
    stage.register(
        """echo '{"done": 0.42, "checkpointed": 0.4, "metrics": {"loss": 1.9}}' >> "$SLACKTIDE_PROGRESS" """
    )
    stage.hold(1, ["spot"])
    stage.until(lambda: stage.look().done_share > 0)
    seen = stage.look()
    assert (seen.done_share, seen.checkpointed_share, seen.metrics) == (0.42, 0.40, {"loss": 1.9})


def test_workers_that_cannot_be_started_are_started_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.posix_spawn, []

    def refuse_second(*given: object, **more: object) -> int:
        calls.append(given)
        if len(calls) == 2:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return real(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "posix_spawn", refuse_second)
    stage.register(FOREVER, secrets={"TOKEN": "hush-hush"})
    stage.hold(1, ["spot"] * 3)
    for _ in range(3):  # it is told until it is tried again
        stage.processes.tick()
        assert re.search(r"attempt 1 of job job .* temporarily unavailable", stage.look().trouble)
        assert "hush" not in stage.look().trouble
    stage.ticks()
    seen = stage.look()
    assert (seen.phase, seen.spot_gpus, seen.pending_gpus) == ("starting", 1, 2)
    stage.time_s += 2
    seen = stage.until_phase("running")
    assert (seen.spot_gpus, seen.pending_gpus, seen.trouble) == (3, 0, "")
    assert len(calls) == 4


def test_a_full_disk_starts_nobody_and_stops_no_other_job(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.register("true")
    stage.register("true", job_id="other")
    stage.hold(1, ["spot"])
    stage.processes.hold("other", 1, ("spot",))
    real = job_folder.write_durably

    def full(path: Path, text: str) -> None:
        if path.parent.parent.name == "job":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, text)

    monkeypatch.setattr(job_folder, "write_durably", full)
    stage.until(lambda: stage.processes.look("other").phase == "exited")
    assert stage.look().phase == "starting"
    assert "No space left" in stage.look().trouble
    assert stage.processes.look("other").trouble == ""
    monkeypatch.setattr(job_folder, "write_durably", real)
    stage.time_s += 2
    seen = stage.until_phase("exited")
    assert (seen.exit_codes, seen.trouble) == ((0,), "")


def test_secrets_reach_the_worker_and_nothing_else(stage: Stage) -> None:
    stage.register(
        '[ "$TOKEN" = hush-hush ]', secrets={"TOKEN": "hush-hush"}, setup='[ "$TOKEN" = hush-hush ]'
    )
    stage.hold(1, ["spot"])
    assert stage.until_phase("exited").exit_codes == (0,)
    files = [path for path in (stage.folder / "root").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"hush-hush" in path.read_bytes()]
    spec, secrets = LaunchSpec(job="x", run="true", grace_s=1), {"TOKEN": "hush-hush"}
    launch = Launch(spec=spec, workdir=Path(), checkpoint_dir=Path(), secrets=secrets)
    assert "hush-hush" not in repr(launch)


ODD = [
    "a b",
    "it's",
    'say "x"',
    "$(touch bad)",
    "`touch bad`",
    "; touch bad #",
    "two\nlines",
    "\\n%s",
    "-rf",
    "é☃",
    "",
]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_odd_texts_arrive_as_they_are(stage: Stage, text: str) -> None:
    place = stage.folder / f"dir {text}".replace("/", "")
    place.mkdir()
    stage.register(
        'printf %s "$ODD" > out', env={"ODD": text}, workdir=place, checkpoint_dir=place / text / "c"
    )
    stage.hold(1, ["spot"])
    assert stage.until_phase("exited").exit_codes == (0,)
    assert (place / "out").read_text() == text
    assert not list(stage.folder.rglob("bad"))


def test_run_may_be_many_lines_with_any_signs(stage: Stage) -> None:
    stage.register("cat <<'END'\n'\"$HOME`$(x)\nEND\necho more\n")
    stage.hold(1, ["spot"])
    stage.until_phase("exited")
    assert stage.log() == "'\"$HOME`$(x)\nmore\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_run_is_bash_where_there_is_one(stage: Stage) -> None:
    stage.register("[[ a == a ]]")
    stage.hold(1, ["spot"])
    assert stage.until_phase("exited").exit_codes == (0,)


def test_a_users_path_does_not_keep_us_from_taking_notes(stage: Stage) -> None:
    stage.register("exit 4", env={"PATH": "/nowhere", "IFS": "/", "ENV": "/nowhere"})
    stage.hold(1, ["spot"])
    assert stage.until_phase("exited").exit_codes == (4,)


@pytest.mark.parametrize("job_id", ["", ".", "..", "a/b", "a b", "x" * 81, "a\n", "$(x)", "ü"])
def test_a_job_id_that_could_leave_its_folder_is_refused(stage: Stage, job_id: str) -> None:
    with pytest.raises(InputError, match="job id must be"):
        stage.register("true", job_id=job_id)


def test_what_cannot_run_is_refused_at_the_door(stage: Stage) -> None:
    (stage.folder / "file").touch()
    refused: dict[str, dict[str, Any]] = {
        "workdir must be a folder": {"workdir": stage.folder / "missing"},
        "checkpoint folder must be writable": {"checkpoint_dir": stage.folder / "file" / "c"},
        "grace_s must be": {"grace_s": float("nan")},
        "zero byte": {"env": {"A": "x\0y"}},
        "variable's name": {"env": {"A-B": "x"}},
        "at most": {"secrets": {"BIG": "x" * 200_000}},
    }
    for words, given in refused.items():
        with pytest.raises(InputError, match=words):
            stage.register("true", **given)
    with pytest.raises(InputError, match="zero byte"):
        stage.register("echo \0")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_rights_is_refused(stage: Stage) -> None:
    (stage.folder / "checkpoints").mkdir(mode=0o500)
    with pytest.raises(InputError, match="checkpoint folder must be writable"):
        stage.register("true")


def test_the_folder_of_another_owner_is_refused(stage: Stage) -> None:
    stage.register("true")
    stage.owner = "another"
    stage.processes = stage.controller()
    with pytest.raises(
        InputError, match="must belong to journal another, got one of journal test-"
    ) as caught:
        stage.register("true")
    assert "another name" in str(caught.value)
    assert "remove" not in str(caught.value)  # there may be checkpoints in it


def test_orders_are_checked(stage: Stage) -> None:
    with pytest.raises(InputError, match="job id must be"):
        stage.processes.hold("..", 1, ("spot",))
    stage.register("true")
    with pytest.raises(InputError, match=">= 1"):
        stage.hold(0, ["spot"])
    stage.hold(4, ["spot"])
    with pytest.raises(InputError, match=">= 4"):
        stage.hold(3, ["spot"])
    with pytest.raises(InputError, match="notice_s must be >= 0"):
        stage.processes.take("job", 0, -1)


def _variables(path: Path) -> dict[str, str]:
    entries = path.read_text().rstrip("\0").split("\0")
    return dict(entry.split("=", 1) for entry in entries)


def _count(path: Path, line: str) -> int:
    return path.read_text().splitlines().count(line)
