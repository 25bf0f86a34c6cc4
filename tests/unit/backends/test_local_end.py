"""The true end: when the last worker had gone, though nobody was there (rows 5 and 6 of "Nothing false").

An hour of the market is a second of the wall here, and the market's clock stands at hour 100 while the tests
look.
"""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

import pytest

from slacktide.backends.local import local_job
from slacktide.backends.workers import worker
from slacktide.core import machine_clock as boot
from slacktide.core.types import Order

from .conftest import Site, wait_for

FOREVER = "while :; do sleep 0.01; done"
READY = "echo > ready-$RANK"
ENDS = f"{READY}; until [ -e go ]; do sleep 0.01; done"
TICK_S = 0.02
"""The clock in a note moves in steps of 10 ms."""
SLOW_S = 60.0
"""What a slow machine may take between writing a file and looking at its age."""
OTHER_BOOT = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def uptime_s(monkeypatch: pytest.MonkeyPatch) -> float:
    """A machine that has been up for this long and stays so while the test looks."""
    up_s = 50_000.0
    monkeypatch.setattr(boot, "seconds", lambda: up_s)
    monkeypatch.setattr(worker, "_uptime_s", lambda: up_s)
    return up_s


def age(path: Path, seconds: float) -> None:
    """Let a file have been written so long ago, also one that nobody has come to write."""
    path.touch()
    then = time.time() - seconds
    os.utime(path, (then, then))


def ended(site: Site, run: str = ENDS, workers: int = 1) -> None:
    """Let a job run to its end while no controller looks."""
    site.begin(run, spot=workers)
    (site.folder / "go").touch()
    wait_for(lambda: not site.living())


def found(site: Site, spot: int = 1) -> float:
    """Let the next controller find the attempt, and return when it says that it ended."""
    site.restart("true", Order("job", 1, "here", spot, 0))
    return site.until(lambda facts: facts.gone).until_hours


def test_row_5_the_end_is_when_the_worker_ended(site: Site) -> None:
    site.begin(ENDS)
    assert site.look().until_hours == math.inf
    before_s = boot.seconds()
    (site.folder / "go").touch()
    wait_for((site.home() / "rank-0.exit").exists)
    wait_for(lambda: not site.living())
    after_s = boot.seconds()
    for _ in range(2):
        looked_s = boot.seconds()
        until_hours = site.until(lambda facts: facts.gone).until_hours
        assert until_hours == site.look().until_hours
        done_s = boot.seconds()
        assert 100.0 - (done_s - before_s) - TICK_S <= until_hours <= 100.0 - (looked_s - after_s) + TICK_S
        site.restart("true", Order("job", 1, "here", 1, 0))


def test_row_5_a_job_that_ended_long_ago_ended_then(site: Site, uptime_s: float) -> None:
    ended(site, workers=2)
    for rank, ago_s in ((0, 70.0), (1, 40.0)):
        note = site.home() / f"rank-{rank}.exit"
        note.write_text(f"0 0 {uptime_s - ago_s} {boot.boot_id()}\n")
        age(note, 5000.0)  # the wall clock was set meanwhile
    assert found(site, 2) == pytest.approx(60.0)
    assert site.look().finished


def test_row_5_an_end_never_lies_in_the_future(site: Site, uptime_s: float) -> None:
    ended(site)
    (site.home() / "rank-0.exit").write_text(f"0 0 {uptime_s + 70} {boot.boot_id()}\n")
    assert found(site) == pytest.approx(100.0)


@pytest.mark.parametrize("words", ["0", "0 0  ", "0 0 what? ever"])
def test_a_note_without_a_time_ended_when_it_was_written(site: Site, uptime_s: float, words: str) -> None:
    ended(site)
    note = site.home() / "rank-0.exit"
    note.write_text(f"{words}\n")
    age(note, 300.0)
    assert found(site) == pytest.approx(-200.0, abs=SLOW_S)


def test_row_5_an_end_before_this_boot_was_before_it(site: Site, uptime_s: float) -> None:
    ended(site)
    note = site.home() / "rank-0.exit"
    note.write_text(f"0 0 7.5 {OTHER_BOOT}\n")
    age(note, 20.0)  # a wall clock that was wrong cannot move it into this boot
    assert found(site) == pytest.approx(100.0 - uptime_s)
    age(note, uptime_s + 300.0)
    assert found(site) == pytest.approx(100.0 - uptime_s - 300.0, abs=SLOW_S)


def test_row_5_what_outlived_a_worker_was_held_until_it_had_gone(site: Site) -> None:
    stays = "trap '' TERM; until [ -e away ]; do sleep 0.01; done"
    site.begin(f"(trap '' TERM; echo > ready-$RANK; {stays}) & until [ -e go ]; do sleep 0.01; done")
    (site.folder / "go").touch()
    wait_for((site.home() / "rank-0.exit").exists)
    site.restart("true", Order("job", 1, "here", 1, 0))
    seen = site.look()
    assert (seen.spot_gpus, seen.until_hours, seen.finished) == (1, math.inf, False)
    before_s = boot.seconds()
    (site.folder / "away").touch()
    seen = site.until(lambda facts: facts.gone)
    assert seen.finished
    assert seen.until_hours >= 100.0 - (boot.seconds() - before_s)


@pytest.mark.parametrize("sign", ["rank-0.pid", "rank-0.log", "seen", "../progress.jsonl"])
def test_row_6_a_lost_worker_lived_until_the_last_sign_of_it(site: Site, uptime_s: float, sign: str) -> None:
    """As after a power cut, or when workers are killed while no controller is there."""
    site.begin(f'{READY}; echo >> "$SLACKTIDE_PROGRESS"; {FOREVER}')
    site.until(lambda _: (site.root / "job" / "progress.jsonl").exists())
    os.killpg(site.supervisor(), signal.SIGKILL)
    wait_for(lambda: not site.living())
    for name in ("rank-0.pid", "rank-0.log", "seen", "../progress.jsonl"):
        age(site.home() / name, 300.0 if name == sign else 3000.0)
    assert found(site) == pytest.approx(-200.0, abs=SLOW_S)
    seen = site.look()
    assert (seen.taken_spot_gpus, seen.stopped) == (1, True)
    assert found(site) == pytest.approx(-200.0, abs=SLOW_S)  # whoever looks later says the same


def test_row_6_a_lost_worker_of_another_boot_had_gone_before_this_one(site: Site, uptime_s: float) -> None:
    site.begin(f"{READY}; {FOREVER}")
    pid, ticks, _ = (site.home() / "rank-0.pid").read_text().split()
    os.killpg(site.supervisor(), signal.SIGKILL)
    wait_for(lambda: not site.living())
    (site.home() / "rank-0.pid").write_text(f"{pid} {ticks} {OTHER_BOOT}\n")
    assert found(site) == pytest.approx(100.0 - uptime_s)


def test_row_6_a_worker_that_we_saw_lived_when_we_saw_it(site: Site) -> None:
    site.begin(f"{READY}; {FOREVER}")
    seen_s = boot.seconds()
    assert site.look().spot_gpus == 1
    for name in ("rank-0.pid", "rank-0.log", "seen"):
        age(site.home() / name, 3000.0)
    os.killpg(site.supervisor(), signal.SIGKILL)
    killed_s = boot.seconds()
    seen = site.until(lambda facts: facts.gone)
    assert 100.0 - (boot.seconds() - seen_s) <= seen.until_hours <= 100.0
    assert seen.until_hours >= 100.0 - (boot.seconds() - killed_s) - (killed_s - seen_s)


def test_the_end_of_the_attempt_before_is_known_to_the_next_controller(site: Site, uptime_s: float) -> None:
    site.begin(f"{READY}; {FOREVER}", spot=1)
    site.hold(attempt=2)
    site.until_held(2)
    before = site.root / "job" / "attempt-0001"
    for path in before.iterdir():
        age(path, 30.0)
    note = before / "rank-0.exit"
    note.write_text(f"143 1 {uptime_s - 20.0} {boot.boot_id()}\n", encoding="ascii")
    site.restart(FOREVER, Order("job", 2, "here", 1, 0))
    facts = site.until(lambda facts: facts.attempt == 2)
    assert facts.before_until_hours == pytest.approx(80.0, abs=TICK_S)
    note.unlink()  # a set that left no word lived until the last sign of it
    site.restart(FOREVER, Order("job", 2, "here", 1, 0))
    facts = site.until(lambda facts: facts.attempt == 2)
    assert 70.0 - SLOW_S < facts.before_until_hours <= 70.0 + TICK_S


def test_the_end_of_the_attempt_before_is_known_where_the_next_never_began(site: Site) -> None:
    ended(site)
    site.restart("true", Order("job", 2, "here", 1, 0, delay_s=1_000.0))
    facts = site.until(lambda facts: facts.attempt == 2)
    assert facts.before_until_hours < 100.0
    site.restart(f"{READY}; {FOREVER}", Order("job", 1, "here", 1, 0))
    assert site.until(lambda facts: facts.attempt == 1).before_until_hours == math.inf


def test_row_6_a_controller_leaves_a_sign_now_and_then(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_job, "SIGN_S", 1e6)
    site.begin(f"{READY}; {FOREVER}")
    sign = site.home() / "seen"
    site.until(lambda _: sign.exists())
    age(sign, 3000.0)
    old_ns = sign.stat().st_mtime_ns
    site.look()
    assert sign.stat().st_mtime_ns == old_ns  # not at every look
    monkeypatch.setattr(local_job, "SIGN_S", 0.0)
    site.restart("true", Order("job", 1, "here", 1, 0))
    site.look()
    assert sign.stat().st_mtime_ns > old_ns


def test_row_6_what_was_let_go_ended_when_it_had_gone(site: Site, uptime_s: float) -> None:
    """Workers were let go on trouble, and the controller died without a word in the journal."""
    run = f"trap 'exit 0' TERM; {READY}; {FOREVER}"
    order = Order("job", 1, "here", 1, 0)
    site.begin(run)
    site.local.hold(order._replace(ending=True))
    site.until(lambda facts: facts.gone)
    note = site.home() / "rank-0.exit"
    status, told, *_ = note.read_text().split()
    written = note.stat()
    note.write_text(f"{status} {told} {uptime_s - 33} {boot.boot_id()}\n")
    os.utime(note, ns=(written.st_atime_ns, written.st_mtime_ns))
    assert found(site) == pytest.approx(67.0)
    assert site.look().stopped


def test_an_attempt_that_has_not_begun_has_no_end(site: Site) -> None:
    site.enter("true")
    site.hold(spot=0)
    seen = site.look()
    assert (seen.gone, seen.until_hours) == (True, math.inf)
