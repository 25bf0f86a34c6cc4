"""Values of `envs: {KEY: }` stand in no journal: seen was one with all of them in it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from slacktide import cli
from slacktide.app.jobs.controller import Controller
from slacktide.app.jobs.setup import Setup
from slacktide.app.jobs.submission import Submission
from slacktide.app.journal.journal import open_journal
from slacktide.core.errors import InputError
from slacktide.journal.events import SubmissionAsked
from slacktide.journal.store.env_values import EnvValues, job_values, request_values
from slacktide.journal.store.paths import runs_of
from slacktide.journal.store.sqlite import SqliteStore

from .parts_of_admission import write_job

CANARY = "canary-of-a-value"
TAKES_OVER = "envs: {TAKEN: }\ncheckpoint: {every: 10m, grace: 60s}\n"
SHOW = "'echo got $TAKEN > seen.$RANK; mv seen.$RANK seen'"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A job that takes a variable over from a shell that has it."""
    monkeypatch.setenv("TAKEN", CANARY)
    return write_job(tmp_path, run=SHOW, more=TAKES_OVER)


def setup(tmp_path: Path, backend: str = "local") -> Setup:
    return Setup(backend=backend, speed=3600.0, learned=tmp_path / "learn.json")


def kept(journal: Path) -> list[str]:
    """Return the names of the files of values, after a look at who may read them."""
    folder = runs_of(journal) / ".values"
    files = list(folder.iterdir()) if folder.exists() else []
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} <= {0o600}
    assert not files or stat.S_IMODE(folder.stat().st_mode) == 0o700
    return sorted(path.name for path in files)


def in_the_journal(journal: Path) -> bool:
    """Whether the value stands in the journal or its log."""
    files = [journal, Path(f"{journal}-wal"), Path(f"{journal}-shm")]
    return any(CANARY.encode() in path.read_bytes() for path in files if path.exists())


def test_a_request_waits_for_a_controller_in_another_shell(
    job: str,
    journal: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with open_journal(journal, create=True) as opened:
        opened.submit(Submission.read(job, key="a key/of\nany kind"))
        assert kept(journal) == [f"{request_values('a key/of' + chr(10) + 'any kind')}.json"]
        assert not in_the_journal(journal)
    monkeypatch.delenv("TAKEN")
    with Controller(journal, setup(tmp_path)) as controller:
        controller.answer()
        assert kept(journal) == ["job-job.json"]
        controller.run()
        assert controller.state.jobs["job"].status == "succeeded"
        assert (tmp_path / "seen").read_text() == f"got {CANARY}\n"
        assert kept(journal) == []
        assert not in_the_journal(journal)
    for command in (["events", "-o", "json"], ["events"], ["jobs", "-o", "json"], ["cost", "-o", "json"]):
        assert cli.run([*command, "--journal", str(journal)]) == 0
    assert CANARY not in capsys.readouterr().out


def test_the_next_controller_in_another_shell_finds_the_values(
    job: str, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Controller(journal, setup(tmp_path)) as controller:
        controller.submit(Submission.read(job))
        controller.run(stopping=lambda: True)
        assert kept(journal) == ["job-job.json"]
    monkeypatch.delenv("TAKEN")
    with Controller(journal, setup(tmp_path)) as controller:
        controller.run()
        assert controller.state.jobs["job"].status == "succeeded"
    assert (tmp_path / "seen").read_text() == f"got {CANARY}\n"
    assert kept(journal) == []


def test_values_that_are_gone_are_told_by_name(job: str, journal: Path, tmp_path: Path) -> None:
    with open_journal(journal, create=True) as opened:
        opened.submit(Submission.read(job, key="k"))
        values = EnvValues(runs_of(journal) / ".values")
        values.drop(request_values("k"))
        with Controller(journal, setup(tmp_path)) as controller:
            controller.answer()
        with pytest.raises(
            InputError, match="variable TAKEN must have the value that it had where the job was"
        ):
            opened.wait("k")
    assert kept(journal) == []


def test_values_of_a_refused_request_go(job: str, journal: Path, tmp_path: Path) -> None:
    with open_journal(journal, create=True) as opened:
        opened.submit(Submission.read(job, key="k", policy="no-such-policy"))
        assert kept(journal)
        with Controller(journal, setup(tmp_path)) as controller:
            controller.answer()
    assert kept(journal) == []


def test_what_a_killed_controller_left_is_cleared_away(job: str, journal: Path, tmp_path: Path) -> None:
    values = EnvValues(runs_of(journal) / ".values")
    with Controller(journal, setup(tmp_path, "replay")) as controller:
        controller.submit(Submission.read(job, key="k"))
        for name in (job_values("never-came-to-be"), request_values("k"), request_values("on its way")):
            values.keep(name, {"A": "b"})
    with Controller(journal, setup(tmp_path, "replay")):
        assert kept(journal) == ["job-job.json", f"{request_values('on its way')}.json"]


def test_a_request_of_before_with_values_in_it_is_still_understood(
    job: str,
    journal: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("TAKEN")
    text = Path(job).read_text(encoding="utf-8")
    with SqliteStore(journal) as store:
        store.append([SubmissionAsked(at_hours=0.0, key="k", text=text, path=job, envs={"TAKEN": CANARY})])
    with Controller(journal, setup(tmp_path)) as controller:
        controller.answer()
        controller.run()
    assert (tmp_path / "seen").read_text() == f"got {CANARY}\n"
    assert cli.run(["events", "-o", "json", "--journal", str(journal)]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert next(one["envs"] for one in told if one["kind"] == "SubmissionAsked") == {"TAKEN": None}
    assert CANARY not in json.dumps(told)


def test_a_folder_of_values_that_others_can_write_or_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "values").mkdir()
    (tmp_path / "values").chmod(0o777)
    with pytest.raises(InputError, match="must belong to the user"):
        EnvValues(tmp_path / "values").keep("job-a", {"A": "b"})
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    with pytest.raises(InputError, match="must belong to the user"):
        EnvValues(tmp_path / "link").keep("job-a", {"A": "b"})


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"canary", b"\xff" + CANARY.encode(), b"[" * 100_000])
def test_a_damaged_file_of_values_is_told_without_what_is_in_it(tmp_path: Path, content: bytes) -> None:
    values = EnvValues(tmp_path / "values")
    values.keep("job-a", {"A": "\udcff \n é"})
    assert values.of("job-a") == {"A": "\udcff \n é"}
    (tmp_path / "values" / "job-a.json").write_bytes(content)
    with pytest.raises(InputError, match="must be a file of variables") as caught:
        values.of("job-a")
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
