"""Machines that are lost, cut off or silent: the job goes on elsewhere, and never in two places at once."""

from __future__ import annotations

import http.server
import json
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slacktide.backends.base import BackendStatus, LaunchSpec
from slacktide.backends.machines.agent.messages import AgentMessage
from slacktide.core.types import Order

from .conftest import wait_for
from .parts_of_machines import LONG_S, STAYS, TWO, Site

LEASE_S = 2.0


def ends_badly(when: Path, code: int) -> str:
    """Return a command whose rank 0 exits with a code once there is a file; the others stay."""
    return f'[ "$RANK" = 0 ] || exec sleep 600; while [ ! -e {when} ]; do sleep 0.05; done; exit {code}'


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[float], Site]]:
    made: list[Site] = []

    def one(lease_s: float = LEASE_S) -> Site:
        made.append(Site(tmp_path, lease_s))
        return made[-1]

    yield one
    for site in made:
        site.clear()


def test_a_lost_machine_is_a_loss_at_once_and_the_job_goes_on_elsewhere(make: Callable[..., Site]) -> None:
    site = make()
    site.run()
    first, second = site.carriers()
    site.kill(second)
    site.link.lose(second)
    facts = site.until(lambda facts: facts.taken_spot_gpus)
    assert (facts.taken_spot_gpus, facts.failure, facts.finished) == (1, None, False)
    assert facts.stopped
    facts = site.hold(TWO._replace(attempt=2))
    assert facts.newest_attempt == 2
    assert site.carriers() == sorted({"a", "b", "c"} - {second})
    assert first in site.carriers()
    assert site.most <= 2


def test_all_machines_are_lost(make: Callable[..., Site]) -> None:
    site = make()
    site.run()
    for host in site.carriers():
        site.kill(host)
        site.link.lose(host)
    assert site.until(lambda facts: facts.gone).taken_spot_gpus == 2
    site.hold(Order("job", 2, "here", 1, 0))
    assert len(site.carriers()) == 1


@pytest.mark.parametrize("way", ["both", "answers", "words"])
def test_a_machine_that_is_cut_off_for_longer_than_its_lease_ends_its_workers_first(
    make: Callable[..., Site], way: str
) -> None:
    site = make()
    site.run()
    cut = site.carriers()[1]
    site.link.deaf = frozenset({cut} if way in ("both", "words") else ())
    site.link.mute = frozenset({cut} if way in ("both", "answers") else ())
    facts = site.until(lambda facts: facts.taken_spot_gpus)
    assert not site.living(cut), "its workers have ended before anybody counts on it"
    assert facts.failure is None
    site.hold(TWO._replace(attempt=2))
    site.link.deaf = site.link.mute = frozenset()
    for _ in range(30):
        site.look()
    assert site.most <= 2, "at no time did more workers live than one set has"
    assert cut not in site.carriers(), "what it was told before does not begin again"


def test_a_cut_that_is_shorter_than_the_lease_is_nothing(make: Callable[..., Site]) -> None:
    site = make(LONG_S)
    site.run()
    site.until(lambda _: len(site.supervisors()) == 2)
    before = site.supervisors()
    cut = site.carriers()[1]
    site.link.deaf = site.link.mute = frozenset({cut})
    os.kill(site.link.agents[cut].process.pid, signal.SIGSTOP)
    for _ in range(50):
        assert not site.look().stopped
    os.kill(site.link.agents[cut].process.pid, signal.SIGCONT)
    site.link.deaf = site.link.mute = frozenset()
    number = site.backend.machine_workers.machines.get(cut)
    assert number is not None
    heard = number.answered
    site.until(lambda facts: number.answered > heard)
    assert not site.look().stopped
    assert site.supervisors() == before


def test_a_killed_agent_is_followed_by_one_that_finds_the_workers(make: Callable[..., Site]) -> None:
    site = make(LONG_S)
    site.run()
    site.until(lambda _: len(site.supervisors()) == 2)
    before = site.supervisors()
    host = site.carriers()[0]
    site.link.agents[host].process.kill()
    site.link.agents[host].process.wait()
    machine = site.backend.machine_workers.machines.get(host)
    assert machine is not None
    heard = machine.answered
    site.until(lambda facts: machine.answered > heard)
    facts = site.look()
    assert (facts.spot_gpus, facts.stopped, facts.failure) == (2, False, None)
    assert site.supervisors() == before


def test_a_machine_that_is_lost_between_reserve_and_start(make: Callable[..., Site]) -> None:
    site = make()

    def lose_it(host: str, say: AgentMessage) -> None:
        if say.reserve and host not in site.link.deaf:
            site.link.lose(host)
            site.link.deaf |= {host}

    site.link.on_say = lose_it
    site.backend.enter(LaunchSpec(job="job", run=STAYS, workdir=str(site.folder), grace_s=1.0))
    site.backend.hold(TWO)
    facts = site.until(lambda facts: facts.taken_spot_gpus)
    assert (facts.taken_spot_gpus, facts.gone, facts.spot_gpus) == (1, True, 0)
    site.link.on_say = lambda host, say: None
    site.hold(TWO._replace(attempt=2))
    assert len(site.carriers()) == 2


def test_survivors_that_fail_because_a_machine_was_lost_do_not_blame_the_job(
    make: Callable[..., Site],
) -> None:
    site = make()
    site.run(
        f'[ "$RANK" = 0 ] || exec sleep 600; while [ ! -e {site.folder}/lost ]; do sleep 0.05; done; exit 1'
    )
    site.kill(site.host_of(1))
    (site.folder / "lost").touch()
    told: list[BackendStatus] = []

    def lost(facts: BackendStatus) -> bool:
        told.append(facts)
        return facts.taken_spot_gpus > 0

    site.until(lost)
    assert all(facts.failure is None for facts in told)


def test_a_failure_is_the_job_s_own_when_every_machine_has_answered_after_it(
    make: Callable[..., Site],
) -> None:
    site = make(LONG_S)
    site.run(
        f'[ "$RANK" = 0 ] || exec sleep 600; while [ ! -e {site.folder}/fail ]; do sleep 0.05; done; exit 7'
    )
    site.link.mute = frozenset({site.host_of(1)})
    (site.folder / "fail").touch()
    site.until(lambda facts: facts.spot_gpus == 1)
    assert site.look().failure is None, "the other machine has not answered since"
    site.link.mute = frozenset()
    facts = site.until(lambda facts: facts.failure)
    assert facts.failure is not None
    assert facts.failure[:2] == (0, 7)


def test_a_disk_that_is_full_here_is_told_and_passes(
    make: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make(LONG_S)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    site.backend.enter(LaunchSpec(job="job", run=STAYS, workdir=str(site.folder), grace_s=1.0))
    with monkeypatch.context() as patch:
        patch.setattr("slacktide.backends.workers.job_folder.write_durably", full)
        site.backend.hold(TWO)
        facts = site.until(lambda facts: facts.trouble)
        assert "No space left on device" in facts.trouble
        assert not site.living(), "nobody was told of what could not be written down"
    facts = site.until(lambda facts: facts.spot_gpus == 2)
    assert not facts.trouble


def test_spot_that_is_not_to_be_had_is_lost_and_what_is_there_goes_on(
    make: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slacktide.backends.machines.machine_workers.WAIT_S", 0.1)
    site = make(LONG_S)
    site.backend.enter(LaunchSpec(job="job", run=STAYS, workdir=str(site.folder), grace_s=1.0))
    assert site.backend.room("here") == (math.inf, math.inf), "nobody knows before a machine has answered"
    site.backend.hold(Order("job", 1, "here", 5, 0))
    facts = site.until(lambda facts: facts.taken_spot_gpus == 2)
    assert (facts.pending_gpus, facts.gone, facts.stopped, facts.failure) == (0, True, True, None)
    assert site.backend.room("here") == (3, 3)
    site.hold(Order("job", 2, "here", 3, 0))


def test_what_waits_for_machines_says_so(make: Callable[..., Site], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slacktide.backends.machines.machine_workers.WAIT_S", 0.1)
    site = make(LONG_S)
    site.backend.enter(LaunchSpec(job="job", run=STAYS, workdir=str(site.folder), grace_s=1.0))
    site.backend.hold(Order("job", 1, "here", 0, 5))
    facts = site.until(lambda facts: "3 machines can be reached" in facts.trouble)
    assert "job waits for 2 on-demand GPUs in pool here" in facts.trouble
    assert facts.pending_gpus == 5
    site.hold(TWO._replace(attempt=2))
    assert not site.look().trouble


def test_a_machine_with_a_notice_saves_and_is_a_loss(
    make: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    noticed = threading.Event()

    class Metadata(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.answer(b"token")

        def do_GET(self) -> None:
            end = datetime.now(UTC) + timedelta(seconds=120)
            self.answer(json.dumps({"action": "terminate", "time": end.isoformat()}).encode())

        def answer(self, body: bytes) -> None:
            self.send_response(200 if noticed.is_set() else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with monkeypatch.context() as patch:
            patch.setenv("SLACKTIDE_METADATA", f"http://127.0.0.1:{server.server_port}")
            site = make(LONG_S)
        saves = f"trap 'touch {site.folder}/saved-$RANK; exit 0' TERM; while :; do sleep 600 & wait; done"
        site.run(saves, TWO)
        assert site.look().notice_hours is None
        noticed.set()
        told = site.until(lambda facts: facts.notice_hours is not None or facts.gone).notice_hours
        facts = site.until(lambda facts: facts.gone)
        server.shutdown()
    assert (facts.failure, facts.finished) == (None, False)
    assert facts.taken_spot_gpus in (1, 2), "a machine may hear of it when its workers have ended already"
    assert {path.name for path in site.folder.glob("saved-*")} == {"saved-0", "saved-1"}
    assert site.backend.room("here") == (3, 3)
    assert told is not None, "a machine that was told that it will end says when"
    assert 0.0 <= told <= 121.0 * site.backend.place.speed / 3600.0
    assert facts.notice_hours is None


def test_another_controller_knows_at_once_what_was_reported(make: Callable[..., Site]) -> None:
    site = make(LONG_S)
    line = '{"done": 0.25, "checkpointed": 0.125}'
    says = f"""[ "$RANK" = 0 ] && echo '{line}' >> $SLACKTIDE_PROGRESS; sleep 600"""
    site.run(says)
    site.until(lambda facts: facts.progress and (site.folder / "runs" / "job" / "said.json").exists())
    site.backend.close()
    site.begin()
    site.backend.enter(LaunchSpec(job="job", run=says, workdir=str(site.folder), grace_s=1.0))
    site.backend.sweep([TWO])
    site.backend.hold(TWO)
    facts = site.look()
    assert facts.progress is not None
    assert facts.progress[:2] == (0.25, 0.125)
    assert math.isfinite(facts.progress.at_hours), "it was this attempt that said so"
    assert (facts.attempt, facts.spot_gpus, facts.stopped) == (1, 2, False)


def test_two_jobs_share_no_gpu(make: Callable[..., Site]) -> None:
    site = make(LONG_S)
    site.run()
    site.backend.enter(LaunchSpec(job="other", run=STAYS, workdir=str(site.folder), grace_s=1.0))
    site.backend.hold(Order("other", 1, "here", 2, 0))
    for _ in range(20):
        assert site.backend.look(["other"])["other"].spot_gpus == 0
    site.backend.hold(TWO._replace(ending=True))
    wait_for(lambda: site.backend.look(["job", "other"])["other"].spot_gpus == 2)


def test_checkpoints_in_a_store_are_found_on_another_machine(make: Callable[..., Site]) -> None:
    site = make()
    store, found = site.folder / "store", site.folder / "found"
    store.mkdir()
    saves = (
        f'c=$SLACKTIDE_CHECKPOINT_DIR/step; [ -e $c ] && cp $c {found}; echo "$SLACKTIDE_ATTEMPT" > $c; '
        'echo \'{"done": 0.5, "checkpointed": 0.5}\' >> $SLACKTIDE_PROGRESS; exec sleep 600'
    )
    launch = LaunchSpec(
        job="job", run=saves, workdir=str(site.folder), grace_s=1.0, checkpoints=True,
        checkpoint_url=f"file://{store}",
    )  # fmt: skip
    site.backend.enter(launch)
    site.hold(Order("job", 1, "here", 1, 0))
    site.until(lambda facts: facts.progress and facts.progress.checkpointed_share > 0.0)
    (lost,) = site.carriers()
    site.kill(lost)
    site.link.lose(lost)
    site.until(lambda facts: facts.taken_spot_gpus)
    site.hold(Order("job", 2, "here", 1, 0))
    wait_for(found.exists, site.look)
    assert found.read_text() == "1\n"
    assert lost not in site.carriers()


def test_a_machine_that_had_a_copy_when_others_saved_gets_what_they_saved(make: Callable[..., Site]) -> None:
    site = make()
    (site.folder / "store").mkdir()
    saves = (
        '[ "$RANK" = 0 ] || exec sleep 600; c=$SLACKTIDE_CHECKPOINT_DIR/step; n=$SLACKTIDE_ATTEMPT; '
        f"[ -e $c ] && cp $c {site.folder}/found-$n; echo $n > $c; "
        'echo "{\\"done\\": 0.$n, \\"checkpointed\\": 0.$n}" >> $SLACKTIDE_PROGRESS; exec sleep 600'
    )
    launch = LaunchSpec(
        job="job", run=saves, workdir=str(site.folder), grace_s=1.0, checkpoint_url=f"file://{site.folder}/store",
    )  # fmt: skip
    site.backend.enter(launch)
    for attempt in (1, 2):
        site.hold(TWO._replace(attempt=attempt))
        site.until(
            lambda facts: facts.progress and facts.progress.checkpointed_share == attempt / 10  # noqa: B023
        )
    first, second = site.host_of(0), site.host_of(1)
    site.kill(first)
    site.link.lose(first)
    site.until(lambda facts: facts.taken_spot_gpus)
    site.hold(Order("job", 3, "here", 1, 0))
    assert site.host_of(0) == second
    wait_for((site.folder / "found-3").exists, site.look)
    assert (site.folder / "found-3").read_text() == "2\n"


def test_what_a_controller_did_not_come_to_send_is_sent_by_the_next(make: Callable[..., Site]) -> None:
    site = make(LONG_S)
    launch = LaunchSpec(job="job", run=STAYS, workdir=str(site.folder), grace_s=1.0)
    site.backend.enter(launch)
    site.link.loses_packs = True
    told: list[AgentMessage] = []
    site.link.on_say = lambda host, say: told.append(say)
    site.backend.hold(TWO)
    site.until(lambda facts: any(say.packs for say in told))
    site.backend.close()
    site.begin()
    site.backend.enter(launch)
    site.backend.sweep([TWO])
    site.hold(TWO)
    wait_for(lambda: len(site.carriers()) == 2, site.look)
