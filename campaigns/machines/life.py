"""One life: a journal, a cloud, a few jobs, and one controller after another until all is over."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from campaigns.finding import Finding
from campaigns.machines import laws
from campaigns.machines.controllers import Controller, Fate, Killed
from campaigns.machines.network import HOUR_S, Faults, Network
from campaigns.machines.truth import Truth, Work
from slacktide.core import machine_clock as boot
from slacktide.engine.job.job_context import JobContext, context_of
from slacktide.journal.events import JournalMade, Submitted
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import INTERRUPTED, Rules
from slacktide.testing.fake_provider import EPOCH, Cloud
from slacktide.testing.fake_provider import Faults as CloudFaults

OWNER = "simulated"
LEASE_S = 15.0
STEP_S = 1.0
SLOT_S = 120.0
SLOTS = 4_000
LONGEST_S = 8 * HOUR_S
"""A life that is not over by then never will be."""
SIZES = (4, 8, 16, 64)
"""How many machines there may be at most: mostly few, because the many take long to simulate."""
SECOND = 1.0 / HOUR_S
STORM = Faults(
    lost_share=0.02, twice_share=0.02, late_share=0.01, cuts_per_hour=12.0, agent_deaths_per_hour=10.0,
    outages_per_hour=8.0,
)  # fmt: skip
CLOUD_STORM = CloudFaults(
    lost_share=0.1, throttled_share=0.05, late_hours=20 * SECOND, full_share=0.05, full_hours=300 * SECOND,
    interruptions_per_hour=6.0, dud_share=0.1,
)  # fmt: skip
FULL = CloudFaults(full_share=1.0, full_hours=2.0, interruptions_per_hour=20.0)
"""For one life in eight: soon nothing is left, and there is nothing to be had for up to two hours."""
CALM = CloudFaults(late_hours=20 * SECOND)
POLICIES = ("maximal-spot", "uniform-progress", "on-demand")
JOB = """\
name: {name}
run: train
workdir: {folder}
resources: {{accelerators: "H100:1..{gpus}"}}
work: {work:.6f} gpu-hours +-0%
deadline: 100h
restart: 5s
checkpoint: {{every: 5s, grace: 2s}}
retries: {{failures: 1000}}
policy: {policy}
market: {market}
"""


class Life:
    """All of it, from a seed."""

    def __init__(self, folder: Path, seed: int, kills: int) -> None:
        self.folder, self._kills = folder, kills
        self.rng = random.Random(seed)
        self.now_s = 0.0
        self.size = self.rng.choice(SIZES)
        self.truth = Truth(random.Random(seed + 1))
        self.cloud = Cloud(lambda: self.now_s / HOUR_S, seed=seed, faults=CALM, boot_hours=20 * SECOND)
        self.fate = Fate(random.Random(seed + 2))
        self.network = Network(
            self.cloud, self.truth, random.Random(seed + 3), self.now, folder / "machines", OWNER, LEASE_S
        )
        gpus = self.rng.choice([1, 2, 4])
        self.specs = (MachineKind("spot", "zone", gpus), MachineKind("on-demand", "zone", gpus))
        self.rules = Rules(
            usd_per_hour={("spot", "zone"): 2.0 * gpus, ("on-demand", "zone"): 6.0 * gpus},
            max_machines=self.size, max_usd_per_hour=6.0 * gpus * self.size,
            join_within_hours=90 * SECOND, listed_within_hours=40 * SECOND, first_wait_hours=5 * SECOND,
            longest_wait_hours=60 * SECOND,
        )  # fmt: skip
        self.counts: Counter[str] = Counter()
        self._job_contexts: dict[str, JobContext] = {}
        self._is_full = self.rng.random() < 0.125
        self.controller: Controller | None = None

    def now(self) -> float:
        """Return the seconds of all clocks."""
        return self.now_s

    def live(self) -> Counter[str]:
        """Live through the storm and the calm after it, and see that all is well."""
        with simulated_clock(self.now):
            try:
                self._begin()
                while not self._is_over():
                    self._step()
                laws.check_end(self)
            finally:
                self._end_controller()
        self.counts["of them at a write"] = self.fate.kills_at_writes
        self.counts["or a call"] = self.fate.kills_at_calls
        self.counts["machines"] = len(self.cloud.instances)
        self.counts["interrupted"] = sum(one.why == INTERRUPTED for one in self.cloud.instances.values())
        self.counts["duds"] = sum(one.dud for one in self.cloud.instances.values())
        self.counts["crews of workers"] = self.truth.begun
        self.counts["simulated minutes"] = round(self.now_s / 60.0)
        self.counts["jobs that succeeded"] = len(self.truth.works)
        self.counts.update(self.network.counts)
        return self.counts

    # ---------------------------------------------------------------- jobs

    def _begin(self) -> None:
        begin = EPOCH
        rows = (
            f"{(begin + timedelta(seconds=slot * SLOT_S)).isoformat()},zone,{self._offer()},2.0,6.0"
            for slot in range(SLOTS)
        )
        head = "time_utc,pool,spot_gpus,spot_usd_per_gpu_hour,on_demand_usd_per_gpu_hour"
        (self.folder / "market.csv").write_text("\n".join([head, *rows, ""]), encoding="utf-8")
        (self.folder / "work").mkdir()
        self._take_charge()
        assert self.controller is not None
        self.controller.engine.write([JournalMade(at_hours=0.0, id=OWNER)])
        jobs = self.rng.randint(1, 4)
        for number in range(jobs):
            self._submit(f"job-{number}", max(1, self.size * self.specs[0].gpus // jobs))
        if self._kills:
            self._storm()

    def _storm(self) -> None:
        """Let everything go wrong from now on, until enough controllers were killed."""
        self.network.faults = STORM
        self.fate.write_share, self.fate.step_share = 0.04, 0.01
        self.cloud.faults = FULL if self._is_full else CLOUD_STORM

    def _offer(self) -> int:
        return self.rng.choice([self.size * self.specs[0].gpus] * 5 + [0, 2])

    def _submit(self, name: str, gpus: int) -> None:
        assert self.controller is not None
        policy, market = self.rng.choice(POLICIES), str(self.folder / "market.csv")
        # The others have time and hold one GPU: what many do in minutes would take them days.
        work_s = self.rng.uniform(100.0, 400.0) * (gpus if policy == "maximal-spot" else min(gpus, 4))
        self.truth.works[name] = Work(work_s)
        text = JOB.format(
            name=name, folder=self.folder / "work", gpus=gpus, work=work_s / HOUR_S, policy=policy,
            market=market,
        )  # fmt: skip
        self.controller.engine.submit(
            Submitted(
                job=name, at_hours=0.0, text=text, submitted_utc=EPOCH.isoformat(),
                path=str(self.folder / name), policy=json.dumps(policy), slot_hours=SLOT_S / HOUR_S,
                start_slot=0, pool="zone", market=json.dumps({"spec": market, "gaps": "hold"}),
            )
        )  # fmt: skip

    def _job_context(self, submitted: Submitted) -> JobContext:
        if submitted.job not in self._job_contexts:
            self._job_contexts[submitted.job] = context_of(submitted)
        return self._job_contexts[submitted.job]

    # ---------------------------------------------------------------- time

    def _step(self) -> None:
        self._pass_time(STEP_S)
        try:
            if self.controller is None:
                self._take_charge()
            assert self.controller is not None
            self.controller.step()
        except Killed:
            self.fate.dead = True
        if self.fate.dead or self.fate.rng.random() < self.fate.step_share:
            self._kill()
        laws.check_step(self)
        if self.now_s > LONGEST_S:
            raise Finding(f"after {LONGEST_S / HOUR_S:g} simulated hours not all is over: {laws.state(self)}")

    def _pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self.network.pass_time(seconds)
        self.truth.pass_time(self.now_s, seconds)
        self.truth.check()

    def _take_charge(self) -> None:
        self.controller = Controller(
            self.folder, OWNER, self.network, self.fate, self.rules, self.specs, LEASE_S, self._job_context
        )
        if self.controller.engine.state.jobs:
            self.controller.engine.recover()

    def _kill(self) -> None:
        """Kill the controller; the next one comes at once, or after a while, or after the leases."""
        self._end_controller()
        self.counts["kills"] += 1
        if self.counts["kills"] >= self._kills:
            self.fate.write_share = self.fate.step_share = 0.0
            self.network.faults, self.cloud.faults = Faults(), CALM
        for _ in range(round(self.fate.rng.choice([0, 0, 0, 2, 10, 40]) / STEP_S)):
            self._pass_time(STEP_S)

    def _end_controller(self) -> None:
        if self.controller is not None:
            self.fate.dead = True  # whatever a thread of it is doing, nothing comes of it
            self.controller.end()
            self.controller = None

    def _is_over(self) -> bool:
        """Whether all jobs have ended, nothing is rented, and as many were killed as should be."""
        if self.controller is None:
            return False
        engine = self.controller.engine
        ended = bool(engine.state.jobs) and not engine.state.active
        return ended and engine.idle and self.counts["kills"] >= self._kills


@contextmanager
def simulated_clock(now: object) -> Iterator[None]:
    """Let the computer's own clock be a simulated one."""
    real, boot.seconds = boot.seconds, now  # type: ignore[assignment]
    try:
        yield
    finally:
        boot.seconds = real
