"""Jobs whose checkpoints are in a store, with real workers: resumed from there, honest when it is down."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from slacktide.backends.base import BackendStatus
from slacktide.backends.checkpoints import stored
from slacktide.backends.checkpoints.objects import Manifest
from slacktide.backends.checkpoints.vault import Vault
from slacktide.core.types import Order
from slacktide.files.store_url import open_store

SCRIPT = """
import os, time
from pathlib import Path
from slacktide import worker

found = worker.saved("step")
start = int(found.read_text()) if found else 0
Path(f"began-{worker.attempt}").write_text(f"{start}")
for step in range(start + 1, 11):
    while not Path(f"step-{step}").exists() and not worker.stopping:
        time.sleep(0.005)
    if worker.stopping:
        if Path("saves-at-the-end").exists():
            worker.save("step", b"9", done=0.9)
        break
    worker.save("step", str(step).encode(), done=step / 10)
"""


class Store:
    """A store in a folder, and a job that takes a step when it is told to."""

    def __init__(self, site: Any, folder: Path) -> None:
        self.site, self.folder, self.store = site, folder, folder / "store"
        self.store.mkdir()
        (folder / "train.py").write_text(SCRIPT)
        self.local = site.root / "job" / "checkpoints"

    def enter(self, **more: Any) -> None:
        given = {"checkpoint_url": f"file://{self.store}", **more}
        self.site.enter(f"{sys.executable} train.py", **given)

    def step(self, *numbers: int) -> None:
        """Let the job take these steps."""
        for number in numbers:
            (self.folder / f"step-{number}").touch()

    def until_safe(self, share: float) -> BackendStatus:
        """Look until this much is checkpointed."""
        found: BackendStatus = self.site.until(
            lambda facts: facts.progress and facts.progress.checkpointed_share == share
        )
        return found

    def until_began(self, attempt: int) -> int:
        """Look until an attempt's worker has begun, and return at which step."""
        path = self.folder / f"began-{attempt}"
        self.site.until(lambda _: path.exists() and path.read_text())
        return int(path.read_text())

    def run_to(self, step: int) -> None:
        """Start the first attempt and let it take some steps."""
        self.enter()
        self.site.hold(1)
        self.step(*range(1, step + 1))
        self.until_safe(step / 10)

    def kill(self, attempt: int = 1) -> None:
        """Take all workers without notice, and wait until they have gone."""
        self.site.local.take("job", 0, 0.0)
        self.site.until(lambda facts: facts.gone and facts.attempt == attempt)

    def newest(self) -> Manifest:
        found = Vault(*open_store(f"file://{self.store}"), self.site.owner, "job").latest()
        assert found is not None
        return found


@pytest.fixture
def job(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A job and its store; whatever fails is tried again soon."""
    monkeypatch.setattr(stored, "RETRY_S", 0.05)
    monkeypatch.setattr(stored, "REST_S", 0.0)
    yield Store(site, tmp_path)
    site.local.close()


def test_a_job_resumes_from_the_store_when_its_folder_is_gone(job: Store) -> None:
    job.run_to(4)
    job.kill()
    shutil.rmtree(job.local)
    job.site.hold(2)
    assert job.until_began(2) == 4
    job.step(5)
    job.until_safe(0.5)
    assert (job.newest().attempt, job.newest().done_share) == (2, 0.5)


def test_a_folder_that_is_there_is_not_replaced(job: Store) -> None:
    job.run_to(2)
    job.kill()
    (job.local / "step").write_text("3")  # newer than the store's
    job.site.hold(2)
    assert job.until_began(2) == 3


def test_another_machine_takes_over_what_one_has_saved(job: Store) -> None:
    job.run_to(3)
    job.kill()
    job.site.local.close()
    shutil.rmtree(job.site.root)
    job.site.local = job.site.controller()
    job.enter(worked=True)
    job.site.hold(2)
    assert job.until_began(2) == 3


def test_with_the_store_down_nothing_more_counts_as_checkpointed(job: Store) -> None:
    job.run_to(2)
    away = job.store.rename(job.store.with_name("away"))
    job.step(3, 4)
    facts = job.site.until(lambda facts: facts.progress.done_share == 0.4 and facts.trouble)
    assert facts.trouble.startswith(f"checkpoints could not be saved to file://{job.store}: ")
    assert facts.trouble.endswith("; retrying")
    assert facts.progress.checkpointed_share == 0.2
    assert facts.spot_gpus == 1
    away.rename(job.store)
    assert not job.until_safe(0.4).trouble


def test_work_that_the_store_did_not_get_is_lost_with_the_folder(
    job: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "LAST_SAVE_S", 0.5)
    job.enter(grace_s=0.0)
    job.site.hold(1)
    job.step(1, 2)
    job.until_safe(0.2)
    away = job.store.rename(job.store.with_name("away"))
    job.step(3)
    job.site.until(lambda facts: facts.progress.done_share == 0.3)
    job.kill()  # nobody waits forever for the last save
    assert job.site.look().progress.checkpointed_share == 0.2
    shutil.rmtree(job.local)
    away.rename(job.store)
    job.site.hold(2)
    assert job.until_began(2) == 2
    job.step(4)
    job.until_safe(0.4)


def test_nothing_starts_from_zero_because_a_store_does_not_answer(job: Store) -> None:
    job.run_to(2)
    job.kill()
    shutil.rmtree(job.local)
    away = job.store.rename(job.store.with_name("away"))
    job.site.hold(2)
    facts = job.site.until(lambda facts: facts.trouble)
    assert "could not be loaded from" in facts.trouble
    for _ in range(50):
        assert job.site.look().spot_gpus == 0
    away.rename(job.store)
    assert job.until_began(2) == 2


def test_a_job_that_has_worked_is_not_started_on_an_empty_store(job: Store) -> None:
    job.enter(worked=True)
    job.site.hold(1)
    facts = job.site.until(lambda facts: facts.trouble)
    assert "must hold the checkpoints of a job that has worked, found none" in facts.trouble
    assert not (job.folder / "began-1").exists()
    job.local.mkdir(exist_ok=True)
    (job.local / "step").write_text("7")
    assert job.until_began(1) == 7


def test_what_is_saved_at_a_stop_is_in_the_store_before_the_workers_count_as_gone(
    job: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "REST_S", 3600.0)  # so only the last save can have copied it
    job.run_to(1)
    (job.folder / "saves-at-the-end").touch()
    job.site.hold(1, spot=0)
    facts = job.site.until(lambda facts: facts.gone)
    assert job.newest().done_share == 0.9
    assert facts.progress.checkpointed_share == 0.9
    assert facts.until_hours <= job.site.now_hours


def test_a_job_has_finished_when_the_store_has_its_result(
    job: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "REST_S", 3600.0)
    job.run_to(1)
    job.step(*range(2, 11))
    job.site.until(lambda facts: facts.finished)
    assert job.newest().done_share == 1.0


def test_the_next_controller_knows_what_the_store_has(job: Store) -> None:
    job.run_to(3)
    job.site.local.close()
    job.store.rename(job.store.with_name("away"))
    job.site.local = job.site.controller()
    job.enter()
    order = Order("job", 1, "here", 1, 0)
    job.site.local.sweep([order])
    job.site.local.hold(order)
    assert job.site.look().progress.checkpointed_share == 0.3
    job.step(4)
    facts = job.site.until(lambda facts: facts.progress.done_share == 0.4)
    assert facts.progress.checkpointed_share == 0.3


def test_an_s3_store_that_stops_answering(job: Store) -> None:
    moto = pytest.importorskip("moto.server", reason="moto is not installed: see requirements.lock")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        urlopen(Request(f"http://{host}:{port}/bucket", method="PUT")).close()
        url = f"s3://bucket/ckpt?endpoint_override=http://{host}:{port}"
        keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "hunter2"}
        job.enter(checkpoint_url=url, env=keys)
        job.site.hold(1)
        job.step(1, 2)
        job.until_safe(0.2)
    finally:
        server.stop()
    job.step(3)
    facts = job.site.until(lambda facts: facts.progress.done_share == 0.3 and facts.trouble)
    assert facts.progress.checkpointed_share == 0.2
    assert "could not be saved to s3://bucket/ckpt" in facts.trouble
    assert "hunter2" not in facts.trouble


def test_nobody_copies_for_a_job_that_is_over(job: Store) -> None:
    job.run_to(1)
    job.site.hold(1, spot=0)
    job.site.until(lambda facts: facts.gone)
    job.site.look()
    mine = job.site.local.workers._jobs["job"].stored
    _eventually(job, lambda: mine._mover.pid is None)


def _eventually(job: Store, condition: Callable[[], object]) -> None:
    job.site.until(lambda _: condition())
