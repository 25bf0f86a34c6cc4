"""`slacktide serve` as a real process: jobs from the command line, streams that resume, kills under load."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from slacktide.cli import run
from slacktide.client.http import Client
from slacktide.client.remote import RemoteJournal
from slacktide.journal.events import SubmissionAsked, Submitted
from slacktide.journal.store.sqlite import SqliteStore

from .parts_of_runs import state_of, wait_until
from .parts_of_servers import Server, Submitter

KILLS = int(os.environ.get("SLACKTIDE_KILLS", "4"))


@pytest.fixture
def server(journal: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of the test's journal, which is not up yet; the command line means it."""
    made = Server(journal, "--speed", "3600", "--start", "0")
    monkeypatch.delenv("SLACKTIDE_JOURNAL")
    monkeypatch.setenv("SLACKTIDE_TOKEN", made.token)
    yield made
    made.stop()


def job_file(folder: Path) -> str:
    """Write a job that needs a file, a variable and a secret of its user's machine."""
    folder.mkdir()
    (folder / "greet.sh").write_text('echo "hello $COLOR $TOKEN"\n', encoding="utf-8")
    path = folder / "greeting.yaml"
    path.write_text(
        "name: greeting\nrun: sh greet.sh\nresources: {accelerators: 'H100:1'}\nwork: 1 gpu-hours\n"
        "deadline: 100h\nenvs: {COLOR: }\nsecrets: {TOKEN: }\npolicy: on-demand\n",
        encoding="utf-8",
    )
    return str(path)


def test_a_job_goes_from_the_client_to_its_end(
    server: Server, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    server.start()
    monkeypatch.setenv("SLACKTIDE_SERVER", server.url)
    path = job_file(tmp_path / "mine")
    assert run(["submit", path]) == 2, "a variable is missing here, and nobody asks the server for it"
    monkeypatch.setenv("COLOR", "red")
    monkeypatch.setenv("TOKEN", "hush-hush")
    assert run(["submit", path, "--key", "k"]) == 0
    assert run(["submit", path, "--key", "k", "-o", "json"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "greeting"
    assert json.loads("".join(out[1:])) == {"key": "k", "job": "greeting"}
    assert run(["logs", "-f", "greeting"]) == 0
    assert capsys.readouterr().out == "1/0   | hello red hush-hush\n"
    assert run(["events", "-f", "greeting"]) == 0
    assert "the job succeeded" in capsys.readouterr().out.splitlines()[-1]

    same = [
        ["jobs"],
        ["jobs", "-o", "json"],
        ["events"],
        ["events", "greeting", "-o", "json"],
        ["why", "greeting"],
        ["logs", "greeting"],
        ["cost"],
        ["cost", "-o", "json"],
        ["cost", "--by", "owner,month", "-o", "csv"],
        ["jobs", "--state", "succeeded", "--since", "1d", "--limit", "5"],
    ]
    for command in same:
        far = run(command), capsys.readouterr().out
        assert far == (run([*command, "--journal", str(journal)]), capsys.readouterr().out), command
    codes = {("cancel", "greeting"): 2, ("cancel", "nobody"): 102, ("why", "nobody"): 102, ("machines",): 0}
    assert {command: run(list(command)) for command in codes} == codes
    assert server.stop() == 0
    assert b"hush-hush" not in journal.read_bytes()
    assert run(["--help"]) == 0


def test_a_stream_goes_on_after_a_restart(server: Server, journal: Path) -> None:
    server.start()
    far = RemoteJournal(Client(server.url, server.token))
    told = far.events(follow=True)
    first = [next(told).record.seq for _ in range(3)]
    server.kill()
    server.start()  # writes that it was opened
    more = [next(told).record.seq for _ in range(3)]
    assert [*first, *more] == list(range(1, 7))


def test_no_submission_is_lost_or_doubled_by_kills(journal: Path) -> None:
    server = Server(journal, "--backend", "replay", "--speed", "600", "--start", "0")
    draw, clients = random.Random(3), [Submitter(server, f"client{number}") for number in range(3)]
    try:
        _kill_under_load(server, clients, draw)
        wait_until(lambda: not state_of(journal).requests.waiting)
    finally:
        ended = server.stop()
    accepted = {key: job for client in clients for key, job in client.accepted.items()}
    assert ended == 0
    with SqliteStore(journal, create=False) as store:
        events = [record.event for record in store.read()]
    jobs = {event.key: event.job for event in events if isinstance(event, Submitted)}
    assert len(jobs) == sum(isinstance(event, Submitted) for event in events), "none is doubled"
    asked = {event.key for event in events if isinstance(event, SubmissionAsked)}
    assert set(accepted) <= asked
    assert set(accepted) <= set(jobs), "none that was accepted is lost"
    assert all(job in (None, jobs[key]) for key, job in accepted.items())


def _kill_under_load(server: Server, clients: list[Submitter], draw: random.Random) -> None:
    server.start()
    for client in clients:
        client.start()
    try:
        for _ in range(KILLS):
            enough = _accepted(clients) + draw.randrange(1, 6)
            _wait_for(clients, enough)
            server.kill()
            server.start()
    finally:
        for client in clients:
            client.enough()
        for client in clients:
            client.join()


def _accepted(clients: list[Submitter]) -> int:
    return sum(len(one.accepted) for one in clients)


def _wait_for(clients: list[Submitter], enough: int) -> None:
    wait_until(lambda: _accepted(clients) >= enough)
