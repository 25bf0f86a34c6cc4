"""What all plays of faults share: two jobs under a controller, on a machine that can be broken."""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass, field, replace

from campaigns.faults.machine import Machine
from campaigns.finding import Finding
from campaigns.stage import laws, processes
from campaigns.stage.arena import Arena, Task
from campaigns.stage.commands import Said, nap, tail
from campaigns.stage.record import boot_s
from campaigns.waiting import wait_until

VICTIM, BYSTANDER = "victim", "bystander"
ENDLESS = 100_000
"""Units of a job that is to be cancelled, or to run out of money, before it is done on any machine."""
FIRST_UNITS = 30
"""What both jobs have done before anything goes wrong."""
HIGHEST_USD = 12.0
"""The most that the markets of the plays ask for a GPU and an hour."""


@dataclass
class Play:
    """One fault, played once: whatever happens to the victim, the bystander goes on."""

    arena: Arena
    rng: random.Random
    machine: Machine
    submitted_s: dict[str, float] = field(default_factory=dict)
    """When jobs were submitted, on the machine's own clock."""

    def begin(self, victim: Task | None = None, **variables: str) -> None:
        """Hand both jobs in and wait until both have done some work."""
        self.hand_in(victim or self.task(VICTIM))
        self.hand_in(self.task(BYSTANDER))
        self.arena.take_charge(env=variables)
        for job in (VICTIM, BYSTANDER):
            self.arena.wait_for_progress(job, FIRST_UNITS)

    def task(self, name: str, units: int = 450, more: str = "") -> Task:
        """Draw a job of some seconds."""
        return Task(
            name=name,
            units=units,
            told_code=self.rng.choice([0, 143]),
            gpus=self.rng.choice([1, 2]),
            policy=self.rng.choice(["maximal-spot", "on-demand"]),
            billing=self.rng.choice(["second", "slot"]),
            grace="2s",
            more=more,
        )

    def hand_in(self, task: Task) -> None:
        """Hand a job in."""
        self.submitted_s[task.name] = boot_s()
        self.arena.submit(task)

    def pause(self, least_s: float = 0.0, most_s: float = 1.0) -> None:
        """Let some time pass."""
        nap(self.rng.uniform(least_s, most_s))

    def kill_controller(self) -> None:
        """Kill the controller outright; `jobs` must not say that anything runs under it."""
        self.arena.in_charge().kill()
        laws.listing(self.arena, attended=False)

    def resume(self, **variables: str) -> None:
        """Let a new controller take charge."""
        self.arena.take_charge(env=variables)

    def end(self, **expected: str) -> None:
        """Let all jobs end, the controller go, and see that the laws hold."""
        self.arena.wait_for_end()
        said = self.arena.let_go()
        if said.code != 0:
            raise Finding(f"a controller that was asked to stop exited with {said.code}: {tail(said.err)}")
        laws.check(self.arena, expected)

    def cancel(self, job: str) -> None:
        """Ask that a job be cancelled, and see it over while the controller goes on."""
        said = self.ask("cancel", job)
        if said.code != 0:
            raise Finding(f"cancel exited with {said.code}: {tail(said.err)}")
        self.arena.wait_for_end(job)

    def ask(self, *argv: str) -> Said:
        """Run a command on the journal."""
        return self.arena.nursery.run(*argv, "--journal", str(self.arena.journal))

    def signal_workers(self, number: signal.Signals, job: str) -> None:
        """Send a signal to all workers of a job with their supervisors, as a logout or a reboot does."""
        self.arena.wait_for_workers(job)
        self.tell_workers(number, job)

    def tell_workers(self, number: signal.Signals, job: str) -> None:
        """Send a signal to the workers of a job that are there, if any."""
        for session in {one.session: one for one in self.arena.workers(job)}.values():
            processes.send_session(session, number)

    def see_workers_gone(self) -> None:
        """Wait until no worker is left though no job may have ended."""
        wait_until(lambda: not self.arena.workers(), "workers that were stopped")

    def kept_to(self, job: str, max_cost_usd: float) -> None:
        """See that a job did not cost more than it may, beyond what a slow machine adds to its grace."""
        pace = self.arena.pace
        late_hours = laws.SLOW * self.arena.slowness.worst_s * pace.speed / 3600.0
        cost_usd = laws.cost_of(self.arena, job)
        most_usd = max_cost_usd + late_hours * 2 * HIGHEST_USD / pace.scale + 0.01
        if cost_usd > most_usd:
            raise Finding(f"{job} cost {cost_usd:.2f} USD at max_cost {max_cost_usd:.2f}")


def with_more(task: Task, more: str) -> Task:
    """Return a job with further lines in its file."""
    return replace(task, more=task.more + more)
