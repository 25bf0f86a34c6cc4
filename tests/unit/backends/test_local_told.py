"""Told to stop is a stop, whoever told; success needs the job's own word (rows 1, 2 of "Nothing false")."""

from __future__ import annotations

import os
import signal

import pytest

from slacktide.core.types import Order

from .conftest import Site, wait_for

FOREVER = "while :; do sleep 0.01; done"
READY = "echo > ready-$RANK"
SAVES = f"trap 'exit 0' TERM INT HUP; {READY}; {FOREVER}"
"""A job that checkpoints when it is told to stop, and exits with 0."""
SAYS = """echo '{{"done": {}}}' >> "$SLACKTIDE_PROGRESS" """
ORDER = Order("job", 1, "here", 1, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_row_1_a_job_told_to_stop_from_outside_has_not_succeeded(site: Site, number: signal.Signals) -> None:
    """As at a reboot, a logout or `systemctl stop`: all processes are told, and save, and exit with 0."""
    site.begin(SAVES, spot=2)
    for rank in (0, 1):
        os.killpg(site.supervisor(rank), number)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.finished, seen.stopped, seen.failure) == (False, True, None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_row_1_a_signal_to_the_training_process_alone_is_a_stop_too(
    site: Site, number: signal.Signals
) -> None:
    site.begin(f"echo $$ > pid; {READY}; while :; do sleep 0.01; done")
    os.kill(int((site.folder / "pid").read_text()), number)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.finished, seen.stopped, seen.failure) == (False, True, None)


def test_row_1_also_when_nobody_was_there_to_see_it(site: Site) -> None:
    site.begin(SAVES)
    os.killpg(site.supervisor(), signal.SIGTERM)
    wait_for(lambda: not site.living())
    site.restart(SAVES, ORDER)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.finished, seen.stopped, seen.failure) == (False, True, None)


def test_row_1_one_worker_that_was_told_stops_the_set_and_nobody_is_blamed(site: Site) -> None:
    dies = f"trap 'exit 9' TERM; {READY}; {FOREVER}"
    site.begin(dies, spot=1, on_demand=2)
    os.killpg(site.supervisor(1), signal.SIGTERM)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.finished, seen.stopped, seen.failure) == (False, True, None)
    assert (seen.taken_spot_gpus, seen.lost_on_demand_gpus) == (0, 0)


def test_row_1_success_needs_the_jobs_own_word(site: Site) -> None:
    site.enter(SAYS.format(0.087))
    site.hold()
    seen = site.until(lambda facts: facts.failure)
    assert (seen.finished, seen.stopped) == (False, False)
    assert seen.failure is not None
    assert (seen.failure.rank, seen.failure.exit_code, seen.failure.hopeless) == (0, 0, False)
    words = "exited with 0 before its work was done: it last reported 0.087 done; report 1 at the end"
    assert seen.failure.what == words


def test_row_1_the_word_of_an_earlier_attempt_counts(site: Site) -> None:
    site.enter(f'[ "$SLACKTIDE_ATTEMPT" = 2 ] || {{ {SAYS.format(0.5)}; exit 3; }}')
    site.hold(1)
    site.until(lambda facts: facts.failure)
    site.hold(2)
    seen = site.until(lambda facts: facts.attempt == 2 and facts.failure)
    assert seen.failure is not None
    assert "0.5 done" in seen.failure.what


@pytest.mark.parametrize("done", ["1", "1.0", "0.9999995"])
def test_a_job_that_says_that_all_is_done_has_succeeded(site: Site, done: str) -> None:
    site.enter(f"{SAYS.format(0.3)}; {SAYS.format(done)}")
    site.hold(spot=2)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.finished, seen.stopped, seen.failure) == (True, False, None)


def test_a_job_that_never_says_anything_has_succeeded_with_0(site: Site) -> None:
    site.enter("true")
    site.hold()
    assert site.until(lambda facts: facts.gone).finished


def test_no_word_is_overlooked_though_the_end_comes_right_after_it(site: Site) -> None:
    """The last word is read after the exit is seen, however much was said before it."""
    much = "for i in 1 2 3 4 5 6 7; do head -c 1000000 /dev/zero | tr '\\0' ' '; echo; done"
    site.enter(f'{SAYS.format(0.3)}; {much} >> "$SLACKTIDE_PROGRESS"; {SAYS.format(1)}')
    site.hold()
    seen = site.until(lambda facts: facts.finished or facts.failure)
    assert (seen.finished, seen.failure) == (True, None)


@pytest.mark.parametrize("code", [0, 143, 7])
def test_row_2_an_attempt_that_was_told_to_stop_is_never_adopted_as_running(site: Site, code: int) -> None:
    """As after an exception or 30 s of trouble: workers were let go, and the journal says that they run."""
    run = f"trap 'exit {code}' TERM; echo >> begun; {READY}; {FOREVER}"
    site.begin(run)
    site.local.hold(ORDER._replace(ending=True))
    site.until(lambda facts: facts.gone)
    site.restart(run, ORDER)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.attempt, seen.finished, seen.stopped, seen.failure) == (1, False, True, None)
    assert (seen.pending_gpus, seen.newest_attempt) == (0, 1)
    site.hold(2)
    site.until(lambda facts: facts.attempt == 2 and facts.spot_gpus == 1)
    wait_for(lambda: (site.folder / "begun").read_text() == "\n\n")


def test_row_2_workers_of_a_told_attempt_that_still_live_are_ended_and_none_is_started(site: Site) -> None:
    slow = f"trap 'until [ -e go ]; do sleep 0.01; done; exit 0' TERM; echo >> begun; {READY}; {FOREVER}"
    site.begin(slow)
    site.local.hold(ORDER._replace(ending=True))
    site.look()
    site.restart(slow, ORDER)
    seen = site.look()
    assert (seen.stopped, seen.spot_gpus, seen.pending_gpus, seen.gone) == (True, 1, 0, False)
    (site.folder / "go").touch()
    seen = site.until(lambda facts: facts.gone)
    assert (seen.finished, seen.stopped) == (False, True)
    assert (site.folder / "begun").read_text() == "\n"


def test_an_end_before_the_word_to_stop_is_a_success(site: Site) -> None:
    """The controller lets go on trouble without having seen that the job was done."""
    site.begin(f"{READY}; until [ -e go ]; do sleep 0.01; done; {SAYS.format(1)}")
    (site.folder / "go").touch()
    wait_for((site.home() / "rank-0.exit").exists)
    wait_for(lambda: not site.living())
    stop = site.home() / "stop"
    stop.touch()
    ended_ns = (site.home() / "rank-0.exit").stat().st_mtime_ns
    os.utime(stop, ns=(ended_ns + 10**9, ended_ns + 10**9))
    site.restart("true", ORDER)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.finished, seen.stopped) == (True, False)


def test_notes_of_earlier_versions_are_read(site: Site) -> None:
    site.begin(f"{READY}; {FOREVER}", spot=2)
    for rank in (0, 1):
        os.killpg(site.supervisor(rank), signal.SIGKILL)
        (site.home() / f"rank-{rank}.exit").write_text(f"{rank * 5}\n")
    site.restart("true", ORDER._replace(spot_gpus=2))
    seen = site.until(lambda facts: facts.failure)
    assert seen.failure is not None
    assert (seen.failure.rank, seen.failure.exit_code) == (1, 5)


def test_a_set_up_that_was_told_to_stop_has_neither_succeeded_nor_failed(site: Site) -> None:
    setup = f"trap 'exit 0' TERM; echo >> set-up; [ -e go ] && exit 0; {FOREVER}"
    site.enter("echo > begun", setup=setup)
    site.hold()
    site.until(lambda _: (site.folder / "set-up").exists())
    os.killpg(int((site.root / "job" / "setup.pid").read_text().split()[0]), signal.SIGTERM)
    seen = site.until(lambda facts: facts.stopped)
    assert (seen.finished, seen.failure, seen.pending_gpus) == (False, None, 0)
    assert not (site.folder / "begun").exists()
    (site.folder / "go").touch()
    site.hold(2)
    seen = site.until(lambda facts: facts.finished)
    assert seen.attempt == 2
    assert (site.folder / "set-up").read_text() == "\n\n"


def test_a_job_keeps_its_own_variables_whatever_their_names(site: Site) -> None:
    names = (
        "run",
        "shell",
        "stem",
        "stop",
        "workdir",
        "line",
        "boot",
        "started",
        "status",
        "stopped",
        "home",
    )
    site.enter(
        f"set | grep -E '^({'|'.join(names)})=' > seen; umask >> seen", env=dict.fromkeys(names, "mine")
    )
    site.hold()
    site.until(lambda facts: facts.finished)
    mask = os.umask(0o22)
    os.umask(mask)
    assert sorted((site.folder / "seen").read_text().split()) == sorted(
        [*(f"{name}=mine" for name in names), f"{mask:04o}"]
    )


def test_who_was_killed_after_the_word_to_stop_was_not_lost_though_the_clock_was_set_back(site: Site) -> None:
    stubborn = f"trap '' TERM; {READY}; {FOREVER}"
    site.begin(stubborn)
    site.local.hold(ORDER._replace(ending=True))
    site.look()
    os.killpg(site.supervisor(), signal.SIGKILL)
    wait_for(lambda: not site.living())
    later_ns = (site.home() / "stop").stat().st_mtime_ns + 3600 * 10**9
    os.utime(site.home() / "stop", ns=(later_ns, later_ns))
    site.restart(stubborn, ORDER)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.stopped, seen.taken_spot_gpus, seen.failure) == (True, 0, None)
