"""The agent of a machine: it holds what it is told, survives its own death, and ends all without word."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slacktide.backends import process_table
from slacktide.backends.base import LaunchSpec
from slacktide.backends.machines.agent import lease
from slacktide.backends.machines.agent.messages import (
    SHARED,
    AgentAnswer,
    AgentMessage,
    AgentTask,
    LaunchPack,
    read_frame,
    write_frame,
)
from slacktide.backends.machines.agent.serve import LOG_BYTES
from slacktide.backends.workers.launch import Launch, SetPart
from slacktide.backends.workers.worker_backend import failure_of
from slacktide.journal.events import Capacity
from tests.parts_of_files import pids_below

from .conftest import wait_for

SPOT: Capacity = "spot"
LONG_S = 600.0
SLEEPS = 'echo "rank $RANK of $WORLD_SIZE meets at $MASTER_ADDR:$MASTER_PORT"; cat greeting; sleep 600'


def files(**texts: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    return made.getvalue()


class Machine:
    """A machine with an agent in a process of its own, and a controller that speaks to it."""

    def __init__(self, folder: Path, lease_s: float) -> None:
        self.folder, self.lease_s = folder, lease_s
        self.owner = f"test-{uuid.uuid4().hex[:12]}"
        self.number, self.heard = 0, ""
        self.packs: dict[str, LaunchPack] = {}
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "slacktide.backends.machines.agent.serve"]
        self.agent = subprocess.Popen(
            [*command, str(self.folder / "agent"), self.owner, str(self.lease_s)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def kill(self) -> None:
        self.agent.kill()
        self.agent.communicate()

    def knows(self, run: str, key: str = "v1") -> None:
        launch = Launch(
            spec=LaunchSpec(job="job", run=run, grace_s=5.0), workdir=Path("/nowhere"),
            checkpoint_dir=self.folder / "checkpoints", secrets={"TOKEN": "s3cret"},
        )  # fmt: skip
        self.packs[key] = LaunchPack(launch, files(greeting="hello\n"))

    def tell(self, *tasks: AgentTask, **more: Any) -> AgentAnswer:
        """Say what is wanted, and what the agent lacks if it says so."""
        answer = self.ask(AgentMessage(0, tasks=tasks, **more))
        if not answer.accepted:
            answer = self.ask(AgentMessage(0, tasks=tasks, **more))
        if not answer.lacking:
            return answer
        packs = {key: self.packs[key] for key in answer.lacking}
        return self.ask(AgentMessage(0, tasks=tasks, packs=packs, **more))

    def ask(self, say: AgentMessage) -> AgentAnswer:
        self.number += 1
        assert self.agent.stdin
        assert self.agent.stdout
        write_frame(
            self.agent.stdin, say._replace(number=self.number, last_token=say.last_token or self.heard)
        )
        answer = read_frame(self.agent.stdout)
        assert isinstance(answer, AgentAnswer)
        assert answer.number == self.number
        self.heard = answer.token
        return answer

    def until(self, phase: str, *tasks: AgentTask) -> AgentAnswer:
        answers: list[AgentAnswer] = []
        wait_for(lambda: answers and answers[-1].jobs["job"].phase == phase,
                 lambda: answers.append(self.tell(*tasks)))  # fmt: skip
        return answers[-1]

    @property
    def living(self) -> list[int]:
        mine = [seen for seen in process_table.scan() if (seen.marker or "").startswith(f"{self.owner}/")]
        return [seen.process.pid for seen in mine]

    @property
    def supervisors(self) -> set[int]:
        """Those of the living who registered as workers: what they start comes and goes."""
        return pids_below(self.folder, "rank-*.pid") & set(self.living)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    one = Machine(tmp_path, LONG_S)
    yield one
    clear(one)


def clear(one: Machine) -> None:
    one.kill()
    subprocess.run(["pkill", "-f", one.owner], check=False)
    lease.end_all(one.owner)


def task(attempt: int = 1, ranks: tuple[int, ...] = (2, 3), key: str = "v1") -> AgentTask:
    part = SetPart(ranks, ("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"), 4711)
    return AgentTask("job", attempt, (SPOT,) * len(ranks), part, key)


def test_it_holds_its_part_of_a_set_and_tells_what_it_prints(machine: Machine) -> None:
    machine.knows(SLEEPS)
    answer = machine.until("running", task())
    assert answer.jobs["job"].spot_gpus == 2
    name = ("job", 1, 3)
    wait_for(lambda: b"hello" in machine.tell(task(), read={name: 0}).logs.get(name, (0, b""))[1])
    said = machine.tell(task(), read={name: 0}).logs[name]
    assert said == (0, b"rank 3 of 4 meets at 10.0.0.1:4711\nhello\n")
    assert machine.tell(task(), read={name: 5}).logs[name] == (5, said.text[5:])
    assert machine.tell(task(), read={name: len(said.text)}).logs == {}
    kept = b"".join(path.read_bytes() for path in machine.folder.rglob("*") if path.is_file())
    assert b"s3cret" not in kept, "secrets are on no disk"


def test_what_is_no_longer_named_ends(machine: Machine) -> None:
    machine.knows(SLEEPS)
    machine.until("running", task())
    wait_for(lambda: not machine.living, machine.tell)
    wait_for(lambda: machine.tell().jobs == {})


def test_an_older_attempt_comes_too_late(machine: Machine) -> None:
    machine.knows(SLEEPS)
    machine.until("running", task(attempt=3))
    before = machine.supervisors
    late = machine.tell(task(attempt=2))
    assert late.jobs["job"].attempt == 3
    assert machine.supervisors == before


def test_a_failure_says_its_rank_in_the_whole_set(machine: Machine) -> None:
    machine.knows("[ $RANK = 3 ] && exit 7; sleep 600")
    answers: list[AgentAnswer] = []
    wait_for(lambda: answers and failure_of(answers[-1].jobs["job"]),
             lambda: answers.append(machine.tell(task())))  # fmt: skip
    failure = failure_of(answers[-1].jobs["job"])
    assert failure is not None
    assert (failure.rank, failure.exit_code) == (3, 7)


def test_it_offers_a_port_to_meet_at(machine: Machine) -> None:
    first = machine.tell(reserve=("job",)).ports["job"]
    assert 1024 < first < 65536
    assert machine.tell(reserve=("job",)).ports["job"] == first, "asked again it is the same"


def test_workers_outlive_their_agent_and_the_next_one_finds_them(machine: Machine) -> None:
    machine.knows(SLEEPS)
    machine.until("running", task())
    before = machine.supervisors
    assert len(before) == 2
    machine.kill()
    machine.start()
    answer = machine.until("running", task())
    assert machine.supervisors == before
    assert answer.jobs["job"].spot_gpus == 2


def test_what_an_agent_before_left_and_nobody_wants_ends(machine: Machine) -> None:
    machine.knows(SLEEPS)
    machine.until("running", task())
    machine.kill()
    machine.start()
    wait_for(lambda: not machine.living, machine.tell)


def test_without_word_for_the_length_of_its_lease_it_ends_its_workers(tmp_path: Path) -> None:
    one = Machine(tmp_path, lease_s=1.0)
    try:
        one.knows("trap '' TERM; sleep 600 & wait")
        one.until("running", task())
        wait_for(lambda: not one.living)  # nobody says anything
        answer = one.until("exited", task())
        assert answer.jobs["job"].stopped
        assert not one.living, "the same attempt does not begin again"
        one.until("running", task(attempt=2))
    finally:
        clear(one)


def test_word_from_who_has_not_heard_it_lately_starts_nothing(tmp_path: Path) -> None:
    one = Machine(tmp_path, lease_s=1.0)
    try:
        one.knows(SLEEPS)
        old = one.ask(AgentMessage(0)).token
        time.sleep(1.1)  # what is measured: this message was on its way for longer than the lease
        late = one.ask(AgentMessage(0, last_token=old, tasks=(task(),), packs=one.packs))
        assert not late.accepted
        assert not one.ask(
            AgentMessage(0, last_token="from-another-life", tasks=(task(),), packs=one.packs)
        ).accepted
        assert not one.living
    finally:
        clear(one)


def test_a_message_that_was_overtaken_or_is_of_an_earlier_controller_is_not_heeded(machine: Machine) -> None:
    machine.knows(SLEEPS)
    token = machine.ask(AgentMessage(0, life="first")).token
    assert machine.ask(AgentMessage(0, life="first", last_token=token)).accepted
    machine.number -= 2
    assert not machine.ask(
        AgentMessage(0, life="first", last_token=token, tasks=(task(),), packs=machine.packs)
    ).accepted
    machine.number += 1
    assert machine.ask(AgentMessage(0, life="second", last_token=token)).accepted
    late = machine.ask(AgentMessage(0, life="first", last_token=token, tasks=(task(),), packs=machine.packs))
    assert not late.accepted, "another controller has come after it"
    assert machine.ask(AgentMessage(0, life="second", last_token=token)).accepted
    assert not machine.living


def test_a_way_on_which_only_answers_are_lost_ends_the_lease_too(tmp_path: Path) -> None:
    one = Machine(tmp_path, lease_s=1.0)
    try:
        one.knows(SLEEPS)
        one.until("running", task())
        heard = one.heard
        wait_for(lambda: not one.living, lambda: one.ask(AgentMessage(0, last_token=heard, tasks=(task(),))))
    finally:
        clear(one)


def test_a_job_whose_checkpoints_would_be_there_alone_is_refused(machine: Machine) -> None:
    machine.knows(SLEEPS)
    pack = machine.packs["v1"]
    machine.packs["v1"] = pack._replace(shared="token")
    answers: list[AgentAnswer] = []
    wait_for(lambda: answers and answers[-1].jobs["job"].trouble,
             lambda: answers.append(machine.tell(task())))  # fmt: skip
    assert "must be the same on all machines" in answers[-1].jobs["job"].trouble
    (machine.folder / "checkpoints").mkdir()
    (machine.folder / "checkpoints" / SHARED).write_text("token")
    machine.packs["v2"] = machine.packs["v1"]
    machine.until("running", task(attempt=2, key="v2"))


def test_the_market_takes_workers_with_so_much_notice(machine: Machine) -> None:
    machine.knows("trap '' TERM; sleep 600 & wait")
    machine.until("running", task())
    taken = task()._replace(kinds=(), spot_left=0, notice_s=0.0)
    wait_for(lambda: not machine.living, lambda: machine.tell(taken))
    assert machine.tell(taken).jobs["job"].stopped


def test_a_flood_of_output_is_told_from_near_its_end(machine: Machine) -> None:
    machine.knows("head -c 20000000 /dev/zero; echo end; sleep 600")
    machine.until("running", task())
    name, told = ("job", 1, 3), [0]

    def read() -> None:
        part = machine.tell(task(), read={name: told[-1]}).logs.get(name)
        if part is not None:
            assert len(part.text) <= LOG_BYTES
            told.append(part.after + len(part.text))

    wait_for(lambda: told[-1] == 20_000_004, read)
    assert len(told) < 2 + 20_000_004 // LOG_BYTES


def test_a_dead_agent_s_workers_end_when_the_lease_runs_out(tmp_path: Path) -> None:
    one = Machine(tmp_path, lease_s=1.0)
    try:
        one.knows(SLEEPS)
        one.until("running", task())
        one.kill()
        assert one.living
        wait_for(lambda: not one.living)
    finally:
        clear(one)


def test_a_stopped_agent_s_workers_end_too(tmp_path: Path) -> None:
    one = Machine(tmp_path, lease_s=1.0)
    try:
        one.knows(SLEEPS)
        one.until("running", task())
        os.kill(one.agent.pid, signal.SIGSTOP)
        wait_for(lambda: not one.living)
    finally:
        os.kill(one.agent.pid, signal.SIGCONT)
        clear(one)


def test_a_lease_holds_while_it_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease.AgentLease, "_see_guarded", lambda one: None)
    assert lease.overdue_s(tmp_path, 5.0) == float("inf")
    (tmp_path / "lease").write_text("12 another-boot\n", encoding="ascii")
    assert lease.overdue_s(tmp_path, 5.0) == float("inf")
    one = lease.AgentLease(tmp_path, f"test-{uuid.uuid4().hex[:12]}", 5.0)
    one.renew()
    assert lease.overdue_s(tmp_path, 5.0) < 0.0
    assert lease.overdue_s(tmp_path, 0.0) < 0.0, "the note says how long it is, not who watches"
