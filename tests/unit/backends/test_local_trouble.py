"""Trouble of one job is that job's: it is told, others go on, and it can be ended (row 7)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from slacktide.core.errors import BackendError, InputError
from slacktide.core.types import Order

from .conftest import Site, wait_for

FOREVER = "while :; do sleep 0.01; done"
READY = "echo > ready-$RANK"
RUN = f"trap 'exit 0' TERM; {READY}; {FOREVER}"
ORDER = Order("job", 1, "here", 1, 0)


def recover(site: Site, *orders: Order) -> list[str]:
    """Recover as an engine does that leaves nobody waiting for another; return what could not be entered."""
    site.local, refused = site.controller(), []
    for order in orders:
        try:
            site.enter(RUN, job=order.job, secrets=("TOKEN",))
        except (InputError, BackendError) as error:
            refused.append(str(error))
    site.local.sweep(orders)
    for order in orders:
        site.local.hold(order)
    return refused


def test_a_job_that_worked_is_not_begun_anew_where_its_checkpoints_are_gone(site: Site) -> None:
    with pytest.raises(InputError, match=r"journal.runs/job: the folder with the checkpoints of job 'job'"):
        site.enter("true", worked=True)
    (site.root / "job").mkdir(parents=True, mode=0o700)
    site.enter("true", worked=True)
    site.enter("true", job="other", worked=True, checkpoint_dir=str(site.folder / "elsewhere"))
    site.enter("true", job="new")


def test_row_7_a_job_without_its_secret_is_adopted_watched_and_ended(site: Site) -> None:
    site.begin(RUN, secrets=("TOKEN",))
    site.secrets = _Missing()
    assert recover(site, ORDER) == ["secret TOKEN must be set"]
    seen = site.until(lambda facts: facts.spot_gpus == 1)
    assert (seen.attempt, seen.stopped, seen.trouble) == (1, False, "")
    assert site.local.stop_hours("job") > 0
    site.local.hold(ORDER._replace(ending=True))
    assert site.until(lambda facts: facts.gone).stopped


def test_row_7_what_cannot_be_started_says_why_until_it_can(site: Site) -> None:
    site.secrets = _Missing()
    assert recover(site, ORDER) == ["secret TOKEN must be set"]
    seen = site.until(lambda facts: facts.trouble)
    assert seen.trouble == "the workers cannot be started: secret TOKEN must be set"
    assert (seen.spot_gpus, seen.pending_gpus) == (0, 1)
    site.secrets = {"TOKEN": "hush"}
    site.enter(RUN, secrets=("TOKEN",))
    seen = site.until(lambda facts: facts.spot_gpus == 1)
    assert site.until(lambda facts: not facts.trouble).spot_gpus == 1


def test_row_7_a_job_of_which_nobody_knows_anything_can_be_let_go(site: Site) -> None:
    site.local.hold(ORDER)
    assert site.look().trouble == "the workers cannot be started: the command of the job is not known yet"
    site.local.hold(ORDER._replace(ending=True))
    seen = site.until(lambda facts: facts.gone)
    assert (seen.trouble, seen.pending_gpus, seen.finished) == ("", 0, False)


def _a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("not a folder")


def _a_loop(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to(folder)


def _nobodys(folder: Path) -> None:
    (folder / "job.json").write_text("{")


BROKEN: dict[str, Callable[[Path], None]] = {
    "a file": _a_file,
    "a loop": _a_loop,
    "nobody's": _nobodys,
    "missing": shutil.rmtree,
}


@pytest.mark.parametrize("how", BROKEN)
def test_row_7_a_broken_run_folder_is_trouble_of_its_job_alone(site: Site, how: str) -> None:
    site.begin(RUN)
    site.enter(RUN, job="other")
    site.hold(job="other")
    site.until(lambda facts: facts.spot_gpus == 1, job="other")
    BROKEN[how](site.root / "job")
    other = ORDER._replace(job="other")
    refused = recover(site, ORDER, other)
    seen = site.until(lambda facts: facts.stopped and facts.gone)  # it was found by its marker
    assert (seen.finished, seen.failure, seen.newest_attempt) == (False, None, 1)
    site.hold(2)
    if refused:
        assert site.until(lambda facts: facts.trouble).trouble.startswith("the workers cannot be started: ")
        assert site.look().pending_gpus == 1
    else:  # a folder that is missing is made anew
        site.until(lambda facts: facts.attempt == 2 and facts.spot_gpus == 1)
    assert site.until(lambda facts: facts.spot_gpus == 1, job="other").trouble == ""
    for order in (ORDER._replace(attempt=2, ending=True), other._replace(ending=True)):
        site.local.hold(order)
        site.until(lambda facts: facts.gone, job=order.job)


@pytest.mark.parametrize("words", ["", "{", "[]", "null", '{"kinds": "spot"}', "\x00", "9" * 5000])
def test_row_7_a_damaged_note_of_an_attempt_is_trouble_and_ends_it(site: Site, words: str) -> None:
    site.begin(RUN)
    (site.home() / "attempt.json").write_text(words)
    site.restart(RUN, ORDER)
    seen = site.until(lambda facts: facts.gone)
    assert (seen.stopped, seen.finished, seen.failure, seen.newest_attempt) == (True, False, None, 1)
    assert "attempt 1 of job job" in seen.trouble
    assert not site.living()
    site.hold(2)
    assert site.until(lambda facts: facts.attempt == 2 and facts.spot_gpus == 1).trouble == ""


def test_row_7_a_folder_that_breaks_while_a_job_runs_ends_nobody_else(site: Site) -> None:
    site.begin(f"{READY}; until [ -e go ]; do sleep 0.01; done")
    site.enter(RUN, job="other")
    site.hold(job="other")
    shutil.rmtree(site.root / "job")
    (site.root / "job").write_text("not a folder")
    (site.folder / "go").touch()
    seen = site.until(lambda facts: facts.gone)
    assert (seen.finished, seen.stopped) == (True, False)  # by the exit code of our own child
    assert site.until(lambda facts: facts.spot_gpus == 1, job="other").trouble == ""
    site.hold(2)
    assert "must be" in site.until(lambda facts: facts.trouble).trouble


def test_a_job_that_recovers_needs_nobody(site: Site) -> None:
    """The folder was away for a while, as with a file server."""
    site.begin(RUN)
    (site.root / "job").rename(site.root / ".away")
    (site.root / "job").write_text("not a folder")
    refused = recover(site, ORDER)
    assert "must be" in refused[0]
    wait_for(lambda: not site.living(), site.look)
    (site.root / "job").unlink()
    (site.root / ".away").rename(site.root / "job")
    site.enter(RUN)
    site.hold(2)
    seen = site.until(lambda facts: facts.attempt == 2 and facts.spot_gpus == 1)
    assert (seen.trouble, seen.newest_attempt) == ("", 2)


class _Missing(dict[str, str]):
    """No secret has a value."""

    def __getitem__(self, name: str) -> str:
        raise InputError(f"secret {name} must be set")
