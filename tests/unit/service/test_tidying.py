"""Files that came with jobs: kept while a job needs them and for a while after its end, then removed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from slacktide.service.uploads.uploads import KEPT_DAYS, KEPT_S

from .parts_of_api import JOB, House

DAY_S = 24 * 3600.0


def folders(house: House) -> list[str]:
    return house.journal_reader.uploads.folders()


def later(house: House, days: float) -> None:
    house.journal_reader.tidy(time.time() + days * DAY_S)


def test_a_job_has_its_files_until_some_days_after_its_end(house: House) -> None:
    job = house.run_a_job()
    (folder,) = folders(house)
    later(house, 1000)
    assert folders(house) == [folder], "the job has not ended"
    house.ask("POST", f"/api/v1/jobs/{job}/cancel")
    house.live(0.1)
    house.live(0.1)
    assert house.ask("GET", f"/api/v1/jobs/{job}").json["status"] == "cancelled"
    later(house, KEPT_DAYS - 0.1)
    assert folders(house) == [folder]
    later(house, KEPT_DAYS + 0.1)
    assert folders(house) == []
    assert house.ask("GET", f"/api/v1/jobs/{job}/cost").status == 200, "its story does not need them"


def test_a_submission_that_waits_has_its_files(house: House) -> None:
    assert house.ask("POST", "/api/v1/jobs?wait=0", {"text": JOB}, key="k").status == 202
    later(house, 1000)
    assert len(folders(house)) == 1


def test_files_that_no_job_has_are_removed_after_a_day(house: House) -> None:
    uploads = house.journal_reader.uploads
    orphan = uploads.folder / ("0" * 24)
    for name in (orphan, uploads.folder / ".gone-half", uploads.folder / f".{'1' * 24}-draft"):
        name.mkdir(parents=True)
        (name / "file").write_text("x", encoding="utf-8")
    house.journal_reader.tidy()
    assert folders(house) == [orphan.name], "it may be on its way into the journal"
    assert not (uploads.folder / ".gone-half").exists()
    uploads.remove(orphan.name, KEPT_S, time.time())
    assert orphan.exists(), "somebody asked for it just now"
    later(house, 2)
    assert [one.name for one in uploads.folder.iterdir()] == []


def test_a_kill_in_the_middle_of_removing_leaves_nothing_behind(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan = house.journal_reader.uploads.folder / ("0" * 24)
    orphan.mkdir(parents=True)
    real = shutil.rmtree

    def killed(path: Path, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        later(house, 2)
    monkeypatch.setattr(shutil, "rmtree", real)
    assert folders(house) == []
    assert len(os.listdir(house.journal_reader.uploads.folder)) == 1
    house.journal_reader.tidy()
    assert os.listdir(house.journal_reader.uploads.folder) == []
