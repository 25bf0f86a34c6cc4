"""Faults that need real separation: machines, network, head, bridge and controller are lost.

One test with many steps, because the machines take long to start. After each fault the job goes on, numbers
of attempts only grow, never do workers of two attempts live at once, and at the end nothing is left.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from slacktide.backends.machines.agent.lease import CONTROLLER_WAITS_S
from tests.parts_of_files import texts_below
from tests.parts_of_ray import needs_ray

from .parts_of_hosts import why_not
from .parts_of_rig import GPUS, LEASE_S, LONG_LEASE_S, SPEED, Rig, rig

pytestmark = [needs_ray, pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")]
SHORT_S = 3.0
"""A partition that nobody notices: shorter than the lease, and than Ray's patience."""
START_S = 1.0
"""By how much a bill may be off for each worker that was started, on a busy machine."""
KNOWN_S = LEASE_S + CONTROLLER_WAITS_S + 1.0
"""How long a worker that was lost with its machine is paid for at most, until that is known."""
BRIDGE, AGENT = "slacktide.backends.ray.bridge", "slacktide.backends.machines.agent.serve"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: Ray has sockets in it."""
    made = Path(tempfile.mkdtemp(prefix="sr", dir="/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


class Play:
    """Does one thing after another to a rig, and keeps a table of what came of it."""

    def __init__(self, on: Rig) -> None:
        self.rig, self.lost = on, 0
        """How many workers were lost with their machine, or with the way to it."""
        self._began = time.monotonic()

    def note(self, fault: str, found: str) -> None:
        """Write a line of the table."""
        now = time.monotonic()
        print(f"{fault:38}  {found:58} {now - self._began:5.1f} s", flush=True)
        self._began = now

    def attempt(self) -> int:
        """Return the attempt whose workers began last, by their own word."""
        return max((attempt for attempt, _ in self.rig.diary("began")), default=0)

    def _works(self, attempt: int) -> Callable[[], bool]:
        """Return a question: whether an attempt has done more since, with a full set of workers."""
        before = len(self.rig.diary("saved"))

        def works() -> bool:
            saved = self.rig.diary("saved")[before:]
            return self.attempt() >= attempt and any(one >= attempt for one, _ in saved[1:])

        return works

    def goes_on(self, fault: str, do: Callable[[], None]) -> None:
        """Do something that the job must not notice: the same processes go on."""
        before, attempt = {one.process for one in self.rig.watch.living()}, self.attempt()
        do()
        done_at = time.time()
        self.rig.until(lambda: self.rig.leases_since() > done_at, f"leases to be renewed after: {fault}")
        self.rig.until(self._works(attempt), f"the job to go on after: {fault}")
        after = {one.process for one in self.rig.watch.living()}
        assert before <= after, f"{fault}: workers must stay\n{self.rig.told()}"
        assert self.attempt() == attempt, f"{fault}: the attempt must stay"
        self.note(fault, f"attempt {attempt} goes on, same processes")

    def comes_back(self, fault: str, do: Callable[[], str | None], lost: int) -> None:
        """Do something by which workers are lost: new ones go on from the last checkpoint."""
        attempt, self.lost = self.attempt(), self.lost + lost
        found = do()
        self.rig.until(self._works(attempt + 1), f"the job to come back after: {fault}")
        self.note(fault, f"attempt {self.attempt()} goes on{found or ''}")

    # ---------------------------------------------------------------- what is done

    def begin(self) -> None:
        """Start the machines, a controller and the job."""
        self.rig.join(2, 3, 4)
        self.rig.take_charge(LONG_LEASE_S)
        self.rig.until(lambda: self.rig.state().controller, "a controller")
        self.rig.watch.owner = self.rig.state().id
        self.rig.submit()
        # A machine that joins late has it begin with what there is.
        self.rig.until(self._is_settled, "the job to hold all spot")
        self.rig.until(self._works(self.attempt()), "the job to begin")
        assert len(self.rig.carriers()) == GPUS, "each rank has a machine of its own"
        self.note(
            "head and 3 machines started",
            f"attempt {self.attempt()} on two machines, ranks met over the network",
        )

    def _is_settled(self) -> bool:
        record = self.rig.record()
        order = None if record is None else record.holding.order
        saved = {attempt for attempt, _ in self.rig.diary("saved")}
        return order is not None and order.spot_gpus == GPUS and order.attempt in saved

    def kill_bridge(self) -> None:
        (old,) = self._bridges()
        os.kill(old, signal.SIGKILL)
        self._until_another_bridge(old)

    def stop_bridge(self) -> None:
        (old,) = self._bridges()
        os.kill(old, signal.SIGSTOP)
        self._until_another_bridge(old)

    def _bridges(self) -> list[int]:
        return self.rig.find(self.rig.head, "-m", BRIDGE)

    def _until_another_bridge(self, old: int) -> None:
        self.rig.until(lambda: self._bridges() and old not in self._bridges(), "another bridge")

    def kill_agent(self) -> None:
        host = next(iter(self.rig.carriers().values()))
        old = self.rig.find(host, "-m", AGENT)
        for pid in old:
            os.kill(pid, signal.SIGKILL)
        found: list[int] = []
        self.rig.until(lambda: set(found := self.rig.find(host, "-m", AGENT)) - set(old), f"an agent {found}")

    def kill_controller(self) -> None:
        before = self.rig.state().controller
        self.rig.kill_controller()
        self.rig.take_charge(LEASE_S)
        self.rig.until(lambda: self.rig.state().controller != before, "another controller")

    def cut_shortly(self) -> None:
        host = list(self.rig.carriers().values())[-1]
        host.cut()
        time.sleep(SHORT_S)  # the length of the fault, which nothing is waited for
        host.heal()

    def kill_machine(self) -> str:
        lost = list(self.rig.carriers())[-1]
        self.rig.kill(lost)
        self.rig.until(lambda: len({*self.rig.carriers()} - {lost}) == GPUS, "workers elsewhere")
        self.rig.join(5)
        return f" on {len(self.rig.carriers())} others"

    def cut(self) -> str:
        """Pull the plug of one machine until its workers have ended there."""
        number, host = list(self.rig.carriers().items())[-1]
        at = time.monotonic()
        host.cut()
        fenced_s = self._until_fenced(at, number)
        self.rig.until(lambda: len({*self.rig.carriers()} - {number}) == GPUS, "workers elsewhere")
        host.heal()
        return f", fenced there {fenced_s:.1f} s after the cut"

    def cut_one_way(self) -> str:
        """Let one machine's answers be lost, and what is said to another: both end their workers."""
        mute, deaf = list(self.rig.carriers().values())
        at = time.monotonic()
        mute.lose_what_goes_to(self.rig.head)
        self.rig.head.lose_what_goes_to(deaf)
        fenced_s = self._until_fenced(at, mute.number, deaf.number)
        mute.find_again(self.rig.head)
        self.rig.head.find_again(deaf)
        return f", both fenced {fenced_s:.1f} s after the cut"

    def _until_fenced(self, at: float, *numbers: int) -> float:
        self.rig.until(
            lambda: not set(numbers) & set(self.rig.carriers()), "workers to be ended where they are"
        )
        return time.monotonic() - at

    def kill_all_machines(self) -> str:
        self.rig.kill(*[number for number in self.rig.hosts if number != 1])
        assert not self.rig.watch.names()
        self.rig.join(6, 7, 8)
        return " on new ones"

    def kill_head(self) -> str:
        self.rig.kill_head()
        self.rig.until(lambda: not self.rig.watch.names(), "workers to be fenced")
        self.rig.until(lambda: "Ray cluster at" in self._trouble(), "the trouble to be told")
        told = self._trouble()
        assert self.rig.head.address in told
        self.rig.start_head()
        return f"; meanwhile: {told[:30]}..."

    def _trouble(self) -> str:
        record = self.rig.record()
        return "" if record is None else record.progress.blocked

    def fill_disk(self) -> str:
        """Fill the disk of a machine with an agent until its workers have ended, and make room again."""
        number, host = list(self.rig.carriers().items())[-1]
        filler = self.rig.local / "filler"
        host.do("sh", "-c", f"cat /dev/zero > {filler} || true")
        self._until_fenced(time.monotonic(), number)
        host.do("rm", str(filler))
        return ""

    def flood(self) -> None:
        (self.rig.shared / "flood").touch()
        self.rig.until(lambda: self._logged() > 4 << 20, "a flood of logs")
        (self.rig.shared / "flood").unlink()

    def _logged(self) -> int:
        return sum(len(text) for text in texts_below(self.rig.shared, "rank-*.log"))

    def finish(self) -> None:
        """Let the job end by itself, and see that nothing of it is left anywhere."""
        (self.rig.shared / "finish").touch()
        self.rig.until(lambda: (record := self.rig.record()) and record.ended, "the end of the job")
        record = self.rig.record()
        assert record is not None
        assert (record.status, record.progress.failures) == ("succeeded", 0), (
            "no loss is the job's own failure"
        )
        assert self.rig.watch.names() == [], "no worker is left anywhere"
        assert self.rig.stop_controller() == 0
        self.note("the job ends", "succeeded, no failure counted, nothing left")

    def check(self) -> None:
        """See that the laws hold over the whole play."""
        watch, record = self.rig.watch, self.rig.record()
        assert record is not None
        assert watch.mixed == [], "workers of two attempts lived at once"
        assert watch.most == GPUS, "never more workers than one set has"
        began, saved = self.rig.diary("began"), self.rig.diary("saved")
        assert all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(began)), (
            f"{began}: attempts and work only grow"
        )
        assert {steps for _, steps in began[1:]} <= {steps for _, steps in saved}, "from a checkpoint"
        assert "no gap, no overlap" in self.rig.slacktide("cost")
        bill = record.money.bill
        billed_s = (bill.spot_gpu_hours + bill.on_demand_gpu_hours) * 3600.0 / SPEED
        off_s = START_S * len(watch.starts)
        more_s = KNOWN_S * self.lost
        assert -off_s <= billed_s - watch.worker_s <= off_s + more_s, f"{billed_s}, but {watch.worker_s} seen"
        self.note(
            "the bill", f"{billed_s:.1f} GPU-s billed, {watch.worker_s:.1f} seen, {self.lost} workers lost"
        )


def test_faults_of_machines_network_head_bridge_and_controller(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled(), rig(folder) as made:
        play = Play(made)
        play.begin()
        play.goes_on("bridge killed", play.kill_bridge)
        play.goes_on("bridge stopped (SIGSTOP)", play.stop_bridge)
        play.goes_on("agent killed", play.kill_agent)
        play.goes_on(f"partition of {SHORT_S:g} s, lease {LONG_LEASE_S:g} s", play.cut_shortly)
        play.goes_on("log flood", play.flood)
        play.goes_on(f"controller killed, now lease {LEASE_S:g} s", play.kill_controller)
        play.comes_back("machine killed", play.kill_machine, 1)
        play.comes_back("partition longer than the lease", play.cut, 1)
        play.comes_back("two one-way partitions", play.cut_one_way, GPUS)
        play.comes_back("all machines killed, new ones joined", play.kill_all_machines, GPUS)
        play.comes_back("disk full on a machine", play.fill_disk, 1)
        play.comes_back("head killed and started again", play.kill_head, GPUS)
        play.finish()
        play.check()
