"""Run folders are one journal's and ours alone, and may be moved with it (rows 3, 11 and 13)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from slacktide.core.errors import InputError
from slacktide.core.types import Order

from .conftest import Site, wait_for

FOREVER = "while :; do sleep 0.01; done"
READY = "echo > ready-$RANK"
ORDER = Order("job", 1, "here", 1, 0)


def test_row_3_the_folder_of_another_journal_is_refused_and_nothing_of_it_adopted(site: Site) -> None:
    """The journal was deleted, and another one is at its place: nothing of the old run is the new one's."""
    site.begin(f"""echo '{{"done": 1}}' >> "$SLACKTIDE_PROGRESS"; {READY}; {FOREVER}""")
    former, site.owner = site.owner, "0123456789abcdef"
    site.local = site.controller()
    with pytest.raises(
        InputError, match=f"must belong to journal 0123456789abcdef, got one of journal {former}"
    ):
        site.enter("true")
    site.local.sweep([ORDER])
    site.local.hold(ORDER)
    seen = site.until(lambda facts: facts.trouble)
    assert (seen.finished, seen.progress, seen.spot_gpus, seen.newest_attempt) == (False, None, 0, 0)
    assert seen.trouble.startswith("the workers cannot be started: the folder of job job must belong")
    os.kill(site.supervisor(), 0)  # nobody touched the other journal's worker
    site.owner = former


def test_row_3_a_folder_of_which_nobody_can_tell_whose_it_is_is_refused(site: Site) -> None:
    (site.root / "job" / "attempt-0001").mkdir(parents=True)
    site.root.chmod(0o700)
    with pytest.raises(InputError, match="one of unknown owner"):
        site.enter("true")


def _link(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))


def _group_writes(folder: Path) -> None:
    folder.chmod(0o770)


def _others_write(folder: Path) -> None:
    folder.chmod(0o707)


def _another_users(folder: Path) -> None:
    os.chown(folder, 12345, 12345)


UNSAFE: dict[str, Callable[[Path], None]] = {
    "a symbolic link": _link,
    "others may write to": _group_writes,
    "mode 0707": _others_write,
    "one of user 12345": _another_users,
}


@pytest.mark.parametrize("which", ["runs", "job"])
@pytest.mark.parametrize("how", UNSAFE)
def test_row_13_a_folder_that_is_not_ours_alone_is_refused(site: Site, how: str, which: str) -> None:
    if "user" in how and os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    site.enter("true")
    UNSAFE[how](site.root if which == "runs" else site.root / "job")
    with pytest.raises(InputError, match=rf"must be a folder of user {os.geteuid()} alone, got .*{how}"):
        site.enter("true")
    site.local = site.controller()
    with pytest.raises(InputError, match=how):
        site.enter("true")
    site.local.sweep([ORDER])
    site.local.hold(ORDER)
    seen = site.until(lambda facts: facts.trouble)
    assert seen.trouble.startswith("the workers cannot be started: a folder for runs")


def test_row_13_folders_of_earlier_versions_are_closed_to_others(site: Site) -> None:
    site.enter("true")
    (site.root / "job").chmod(0o755)
    site.enter("true")
    assert (site.root / "job").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "name", ["rank-0.log", "rank-0.pid", "rank-0.exit", "seen", "attempt.json", ".attempt.json.{pid}"]
)
def test_row_13_no_link_is_followed_when_we_write(site: Site, name: str) -> None:
    victim = site.folder / "victim"
    victim.write_text("precious\n")
    before = victim.stat()
    site.enter(f"echo printed; {READY}; until [ -e go ]; do sleep 0.01; done")
    site.home().mkdir(mode=0o700)
    (site.home() / name.format(pid=os.getpid())).symlink_to(victim)
    site.hold()
    site.until(lambda facts: facts.trouble or facts.gone or (site.folder / "ready-0").exists())
    (site.folder / "go").touch()
    site.until(lambda facts: facts.trouble or facts.gone)
    after = victim.stat()
    assert victim.read_text() == "precious\n"
    assert (after.st_mtime_ns, after.st_mode) == (before.st_mtime_ns, before.st_mode)


def test_row_13_an_attempt_is_not_begun_in_a_folder_behind_a_link(site: Site) -> None:
    site.enter("true")
    (site.folder / "elsewhere").mkdir(mode=0o700)
    site.home(2).symlink_to(site.folder / "elsewhere")
    site.local.hold(ORDER._replace(attempt=2))
    seen = site.look()
    assert seen.stopped or "symbolic link" in seen.trouble
    assert not list((site.folder / "elsewhere").iterdir())


def test_row_11_a_journal_can_be_moved_with_its_folder(site: Site) -> None:
    """Workers write to paths that are gone: they are ended, and the job goes on at the new place."""
    run = (
        'echo x >> "$SLACKTIDE_CHECKPOINT_DIR/saved"; '
        f"trap 'exit 0' TERM; echo $SLACKTIDE_ATTEMPT > ready-$RANK; {FOREVER}"
    )
    site.begin(run)
    moved = site.folder / "moved" / "journal.runs"
    moved.parent.mkdir()
    site.root.rename(moved)
    site.root = moved
    site.restart(run, ORDER)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.finished, seen.stopped, seen.failure, seen.newest_attempt) == (False, True, None, 1)
    assert seen.taken_spot_gpus == 0
    assert seen.until_hours == pytest.approx(100.0, abs=60.0)
    assert (moved / "job" / "attempt-0001" / "rank-0.exit").read_text().startswith("0 1 ")
    site.hold(2)
    site.until(lambda _: (site.folder / "ready-0").read_text() == "2\n")
    assert (moved / "job" / "checkpoints" / "saved").read_text() == "x\nx\n"
    assert json.loads((site.home(2) / "attempt.json").read_text())["home"] == str(moved / "job")


def test_row_11_workers_that_fail_because_their_folder_was_moved_did_not_fail(site: Site) -> None:
    writes = 'touch "$SLACKTIDE_CHECKPOINT_DIR/saved" 2>/dev/null'
    run = f"{writes}; echo $SLACKTIDE_ATTEMPT > ready-$RANK; while {writes}; do sleep 0.01; done; exit 1"
    site.begin(run)
    site.root = site.root.rename(site.folder / "moved.runs")
    wait_for((site.home(1) / "rank-0.exit").exists)
    site.restart(run, ORDER)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.finished, seen.stopped, seen.failure) == (False, True, None)


def test_row_11_a_job_that_ended_before_the_move_has_ended(site: Site) -> None:
    site.begin(f"{READY}; until [ -e go ]; do sleep 0.01; done")
    (site.folder / "go").touch()
    wait_for(lambda: not site.living())
    site.root = site.root.rename(site.folder / "moved.runs")
    site.restart("true", ORDER)
    assert site.until(lambda facts: facts.gone).finished


def test_row_11_another_path_to_the_same_folder_changes_nothing(site: Site) -> None:
    run = f"{READY}; {FOREVER}"
    site.begin(run)
    (site.folder / "link").symlink_to(site.folder)
    site.root = site.folder / "link" / "journal.runs"
    site.restart(run, ORDER)
    seen = site.look()
    assert (seen.spot_gpus, seen.stopped) == (1, False)
