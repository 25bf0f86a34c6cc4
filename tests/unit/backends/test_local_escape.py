"""What a worker starts does not escape: seen were children of `env -i setsid`, and nested controllers."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from slacktide.backends.process_table import Process, SeenProcess, as_subreaper, relatives

from .conftest import Stage

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="subreapers and /proc are of Linux")

HIDDEN = "/usr/bin/env -i setsid sh -c 'echo $$ > PID.part; mv PID.part PID; exec sleep 1000' >/dev/null 2>&1"
"""Without the marker, in a session of its own, with nothing of ours open; PID is where it says who it is."""


def hiding(name: str) -> str:
    return HIDDEN.replace("PID", name)


@pytest.fixture
def escaped(stage: Stage) -> Iterator[list[int]]:
    """Who hid from the controller in a test: nobody is left when it is over, whatever it found."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


WAYS = {
    "child": f"{hiding('pid')} & sleep 1000",
    "orphan": f"( {hiding('pid')} & ); sleep 1000",
    "orphan of an orphan": f"( ( {hiding('pid')} & ) & ); sleep 1000",
}


@pytest.mark.parametrize("how", WAYS)
def test_a_child_without_marker_and_session_ends_with_its_worker(
    stage: Stage, escaped: list[int], how: str
) -> None:
    stage.register(WAYS[how], grace_s=0.1)
    stage.hold(1, ["spot"])
    escaped.append(int(stage.until_file("pid")))
    stage.hold(2, [])
    stage.time_s += 1.0
    stage.until(lambda: stage.look().phase == "none")
    assert not lives(escaped[0])


def test_what_a_worker_leaves_behind_when_it_ends_by_itself_is_ended(
    stage: Stage, escaped: list[int]
) -> None:
    stage.register(f"( {hiding('pid')} & ); until [ -e pid ]; do sleep 0.01; done; exit 0", grace_s=0.0)
    stage.hold(1, ["spot"])
    escaped.append(int(stage.until_file("pid")))
    seen = stage.until_phase("exited")
    assert (seen.exit_codes, lives(escaped[0])) == ((0,), False)


@pytest.mark.parametrize("ending", ["sleep 1000", "until [ -e go ]; do sleep 0.01; done"])
def test_a_new_controller_finds_it_whether_its_worker_lives_or_has_ended(
    stage: Stage, escaped: list[int], ending: str
) -> None:
    stage.register(f"( {hiding('pid')} & ); {ending}", grace_s=0.1)
    stage.hold(1, ["spot"])
    escaped.append(int(stage.until_file("pid")))
    supervisor = int((stage.folder / "root/job/attempt-0001/rank-0.pid").read_text().split()[0])
    (stage.folder / "go").touch()
    if "go" in ending:  # it ends while nobody watches
        os.waitpid(supervisor, 0)
    stage.restart({"job": 1})
    stage.register("true", grace_s=0.1)
    stage.hold(1, [])
    stage.until(lambda: stage.look().phase == "stopping" or not lives(escaped[0]))
    stage.time_s += 1.0
    stage.until(lambda: not lives(escaped[0]))


INNER = """
import os, signal, time
from pathlib import Path
from slacktide.backends.base import LaunchSpec
from slacktide.backends.local import Launch, LocalProcesses
inner = LocalProcesses(Path("inner"), "inner-owner")
here = Path(".").absolute()
run = "echo $$ > pid.part; mv pid.part pid; exec sleep 1000"
spec = LaunchSpec(job="job", run=run, grace_s=3600.0)
inner.register(Launch(spec=spec, workdir=here, checkpoint_dir=here / "c"))
inner.hold("job", 1, ("spot",))
while not Path("pid").exists():
    inner.tick()
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_workers_of_a_controller_that_runs_inside_a_job_end_with_it(
    stage: Stage, escaped: list[int]
) -> None:
    (stage.folder / "inner.py").write_text(INNER)
    stage.register(f"{sys.executable} inner.py; sleep 1000", grace_s=0.1)
    stage.hold(1, ["spot"])
    escaped.append(int(stage.until_file("pid")))
    stage.hold(2, [])
    stage.time_s += 1.0
    stage.until(lambda: stage.look().phase == "none")
    assert not lives(escaped[0])


def test_they_are_found_by_the_outer_marker_alone_when_nothing_else_is_left(
    stage: Stage, escaped: list[int]
) -> None:
    inner = "SLACKTIDE_WORKER_OF=$SLACKTIDE_WORKER SLACKTIDE_WORKER=inner/job/1/0 setsid sh -c"
    say = "'echo $$ > pid.part; mv pid.part pid; exec sleep 1000'"
    stage.register(f"( {inner} {say} & ); sleep 1000", grace_s=0.1)
    stage.hold(1, ["spot"])
    escaped.append(int(stage.until_file("pid")))
    supervisor = int((stage.folder / "root/job/attempt-0001/rank-0.pid").read_text().split()[0])
    os.kill(supervisor, signal.SIGKILL)  # nothing leads from it to its children any more
    stage.until(lambda: stage.look().exit_codes == (-signal.SIGKILL,))
    stage.time_s += 1.0
    stage.until(lambda: not lives(escaped[0]))


def test_a_worker_gets_its_variables_and_signals_as_if_nothing_stood_in_between(stage: Stage) -> None:
    show = "env -0 > env.part; grep SigIgn /proc/self/status > signals; mv env.part env"
    stage.register(show, env={"LANG": "C", "ODD": "a\nb=c é"})
    stage.hold(1, ["spot"])
    stage.until((stage.folder / "env").exists)
    names = {entry.split(b"=")[0] for entry in (stage.folder / "env").read_bytes().split(b"\0")}
    assert b"LC_CTYPE" not in names or "LC_CTYPE" in os.environ
    assert b"ODD=a\nb=c \xc3\xa9" in (stage.folder / "env").read_bytes().split(b"\0")
    ignored = int((stage.folder / "signals").read_text().split()[1], 16)
    assert ignored & (1 << 31) - 1 == 0  # those above are the C library's own


def seen(pid: int, parent: int) -> SeenProcess:
    return SeenProcess(Process(pid, str(pid)), pid, pid, None, parent)


def test_kin_are_those_who_are_ours_or_known_and_all_below_them() -> None:
    everyone = [seen(2, 1), seen(3, 2), seen(4, 3), seen(5, 1), seen(6, 5), seen(7, 1)]
    found = relatives(
        everyone, lambda other: other.process.pid == 2, {Process(5, "5"), Process(7, "another start")}
    )
    assert {other.process.pid for other in found} == {2, 3, 4, 5, 6}


def test_where_there_are_no_subreapers_the_command_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert as_subreaper(["/bin/sh", "x"]) == ["/bin/sh", "x"]
