"""A node on a simulated machine: the real agent, over workers that are only imagined.

What workers are, and the note of the lease, are the machine's: they outlive an agent, and the next one finds
them. A guard beside the agent ends the workers when the lease has run out for longer than an agent needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from campaigns.machines.truth import Crew, Truth, Work
from slacktide.backends.local.processes import LocalProcesses
from slacktide.backends.machines.agent.lease import GUARD_WAITS_S, AgentLease
from slacktide.backends.machines.agent.messages import AgentAnswer, AgentMessage
from slacktide.backends.machines.agent.serve import Agent
from slacktide.backends.workers.job_folder import LogFile
from slacktide.backends.workers.launch import Launch, Phase, ProcessStatus, SetPart
from slacktide.core.errors import InputError
from slacktide.journal.events import Capacity

GRACE_S = 2.0
START_S = 1.0
"""How long workers take to start."""


class Wanted(NamedTuple):
    """What was last ordered of a job."""

    attempt: int
    kinds: tuple[Capacity, ...]
    part: SetPart | None
    since_s: float
    void: bool = False


class Workers(LocalProcesses):
    """Has the calls of real processes, and none of these."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._wanted: dict[str, Wanted] = {}
        self._refusals: dict[str, str] = {}

    def register(self, launch: Launch) -> None:
        """Know how to start a job."""
        self._refusals.pop(launch.job, None)

    def refuse(self, job_id: str, why: str) -> None:
        """Know why not."""
        self._refusals[job_id] = why

    def hold(
        self, job_id: str, attempt: int, kinds: tuple[Capacity, ...], not_before: float = 0.0,
        part: SetPart | None = None, pool: str = "",
    ) -> None:  # fmt: skip
        """Order workers."""
        before = self._wanted.get(job_id)
        last = before.attempt if before else 0
        if attempt < max(1, last):
            raise InputError(f"an attempt must be >= {max(1, last)}, got {attempt}")
        if attempt != last or not kinds:
            foreign = bool(kinds) and attempt <= self._node.newest.get(job_id, 0)
            crew = self._node.crews.get(job_id)
            adopted = crew is not None and crew.attempt == attempt and not crew.told
            self._wanted[job_id] = Wanted(attempt, kinds, part, self._node.now(), foreign and not adopted)

    def take(self, job_id: str, spot_left: int, notice_s: float) -> None:
        """Let the market take spot workers; the others have to end too."""
        wanted, crew = self._wanted.get(job_id), self._node.crews.get(job_id)
        if wanted and (crew is None or crew.attempt != wanted.attempt):
            void = wanted.void or wanted.kinds.count("spot") > spot_left
            self._wanted[job_id] = wanted._replace(void=void)
        if crew is not None and crew.alive and crew.kinds.count("spot") > spot_left:
            self._stop(crew, min(notice_s, GRACE_S))

    def fence(self, patience_s: float) -> bool:
        """End all, and begin nothing that was ordered before."""
        for job, wanted in self._wanted.items():
            if wanted.kinds:
                self._wanted[job] = wanted._replace(void=True)
        alive = [crew for crew in self._node.crews.values() if crew.alive]
        for crew in alive:
            self._stop(crew, patience_s)
        return bool(alive)

    def tick(self) -> None:
        """Stop what is not wanted, and start what is once nothing else lives."""
        now = self._node.now()
        for job, wanted in self._wanted.items():
            crew = self._node.crews.get(job)
            if crew is not None and not crew.alive and crew.attempt != wanted.attempt:
                del self._node.crews[job]  # of an older attempt nothing is told any more
                crew = None
            if crew is None:
                if self._may(wanted, job, now):
                    self._node.begin(job, wanted)
            elif crew.alive and (crew.attempt != wanted.attempt or wanted.void or not wanted.kinds):
                self._stop(crew, self._node.truth.rng.uniform(0.0, GRACE_S))

    def _may(self, wanted: Wanted, job: str, now: float) -> bool:
        ready = now - wanted.since_s >= START_S and job not in self._refusals
        return bool(wanted.kinds) and not wanted.void and ready

    def _stop(self, crew: Crew, seconds: float) -> None:
        if not crew.told:
            crew.told, crew.end_s = True, self._node.now() + seconds

    def look(self, job_id: str) -> ProcessStatus:
        """Say what there is of a job here."""
        wanted, crew = self._wanted.get(job_id), self._node.crews.get(job_id)
        return observation(wanted, crew, self._node, job_id, self._refusals.get(job_id, ""))

    def sweep(self, keep: Mapping[str, int]) -> None:
        """Go on with what an agent before us began, as far as it is wanted."""
        for job, crew in self._node.crews.items():
            if crew.alive and keep.get(job) != crew.attempt:
                self._stop(crew, GRACE_S)

    def logs(self, job_id: str) -> list[LogFile]:
        """Nobody prints anything."""
        return []

    def close(self) -> None:
        """There is nothing to let go of."""


def observation(
    wanted: Wanted | None, crew: Crew | None, node: Node, job: str, trouble: str
) -> ProcessStatus:
    """Say what is seen of the workers of a job on a node."""
    now, work = node.now(), node.truth.works.get(job, Work(1.0))
    kinds = list(crew.kinds) if crew is not None and crew.alive else []
    lost = list(crew.kinds) if crew is not None and crew.lost else []
    phase = phase_of(wanted, crew)
    here = crew is not None and wanted is not None and crew.attempt == wanted.attempt
    void = here and wanted is not None and wanted.void
    stopped = (crew.told or crew.lost or void) if crew is not None else bool(wanted and wanted.void)
    rank_0 = crew is not None and 0 in crew.ranks
    spoken = rank_0 and crew is not None and work.attempt == crew.attempt and work.reported_at is not None
    failed = crew is not None and crew.failed and not stopped
    pending = wanted is not None and not wanted.void and not (crew and crew.attempt == wanted.attempt)
    return ProcessStatus(
        attempt=crew.attempt if crew else wanted.attempt if wanted else 0,
        phase=phase,
        spot_gpus=kinds.count("spot"),
        on_demand_gpus=kinds.count("on-demand"),
        pending_gpus=len(wanted.kinds) if wanted is not None and pending else 0,
        lost_spot_gpus=lost.count("spot"),
        lost_on_demand_gpus=lost.count("on-demand"),
        exit_codes=(),
        failed_rank=crew.ranks[0] if crew is not None and failed else None,
        failed_code=1 if failed else None,
        finished=crew is not None and crew.finished and not stopped,
        unfinished=False,
        stopped=stopped,
        gone=phase in ("none", "exited"),
        gone_s=None if crew is None else crew.gone_s,
        before_gone_s=None,
        done_share=work.done_s / work.total_s if spoken else 0.0,
        checkpointed_share=work.safe_s / work.total_s if spoken else 0.0,
        saved="said",
        reported_s=now - work.reported_at if spoken and work.reported_at is not None else None,
        own_report=spoken,
        metrics={},
        began_s=None if crew is None else now - crew.began_s,
        silent_s=0.0,
        setup_exit=None,
        newest_attempt=node.newest.get(job, 0),
        trouble=trouble,
    )


def phase_of(wanted: Wanted | None, crew: Crew | None) -> Phase:
    """Say how far the workers of a job are."""
    if crew is not None:
        if not crew.alive:
            return "exited" if wanted is None or wanted.kinds else "none"
        return "stopping" if crew.told else "running"
    if wanted is None or not wanted.kinds:
        return "none"
    return "exited" if wanted.void else "starting"


class Note(AgentLease):
    """The note of the lease, on the machine."""

    def __init__(self, node: Node, seconds: float) -> None:
        self._node, self.seconds = node, seconds

    def renew(self, ago_s: float = 0.0) -> None:
        """Note that a controller heard us so long ago."""
        self._node.leased_at = self._node.now() - ago_s


class Node:
    """A machine as its carrier knows it: named anew each time that it joins."""

    def __init__(
        self, name: str, root: Path, owner: str, lease_s: float, truth: Truth, now: Callable[[], float]
    ) -> None:
        self.name, self.truth, self.now = name, truth, now
        self._root, self._owner, self._lease_s = root, f"{owner}.{name}", lease_s
        self.crews: dict[str, Crew] = {}
        """The last that was of each job here."""
        self.newest: dict[str, int] = {}
        self.leased_at = now()
        self.agent: Agent | None = None
        self.notice_s: float | None = None
        self.start_agent()

    def start_agent(self) -> None:
        """Let there be an agent that knows nothing but what is on the machine."""
        workers, lease = Workers(self), Note(self, self._lease_s)
        environ = {"CUDA_VISIBLE_DEVICES": ""}
        self.agent = Agent(self._root / self._owner, workers, lease, now=self.now, environ=environ)

    def begin(self, job: str, wanted: Wanted) -> None:
        """Start workers."""
        assert wanted.part is not None
        self.newest[job] = max(self.newest.get(job, 0), wanted.attempt)
        ranks, world = wanted.part.ranks, len(wanted.part.addresses)
        crew = Crew(job, wanted.attempt, wanted.kinds, ranks, world, self.now())
        self.crews[job] = crew
        self.truth.begin(crew)

    def tick(self) -> None:
        """Let a little time pass on the machine."""
        if self.agent is not None:
            self.agent.expect_end(self.notice_s)
            self.agent.tick()
        if self.now() - self.leased_at > self._lease_s + GUARD_WAITS_S:
            for crew in self.crews.values():
                crew.die(self.now(), lost=not crew.told)

    def tell(self, say: AgentMessage) -> AgentAnswer | None:
        """Hand a message to the agent, if there is one."""
        return None if self.agent is None else self.agent.handle(say)

    def die(self) -> None:
        """Lose all that runs here."""
        self.agent = None
        for crew in self.crews.values():
            crew.die(self.now(), lost=True)
