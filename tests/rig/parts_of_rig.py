"""A Ray cluster over machines that are namespaces, with a controller at its head and one job."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from slacktide.backends import process_table
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.sqlite import SqliteStore
from tests.parts_of_files import paths_below

from .parts_of_hosts import Host, Hub, inner, words_of

PORT = 6399
LONG_LEASE_S, LEASE_S = 30.0, 5.0
"""While workers must live through something, and while they must not."""
SPEED = 60.0
GPUS = 2
PATIENCE_S = 150.0
LOOK_S = 0.1
HEALTH = (
    '{"health_check_initial_delay_ms":0,"health_check_period_ms":1000,"health_check_timeout_ms":2000,'
    '"health_check_failure_threshold":5,"gcs_rpc_server_reconnect_timeout_s":5}'
)
"""A node that is silent for about five seconds is taken for dead, and so does one without a head."""
JOB = """\
name: ring
run: {python} {worker} {shared}
resources: {{accelerators: "H100:{gpus}"}}
work: 1000 gpu-hours
deadline: 900h
restart: 1m
checkpoint: {{url: "{url}", every: 1m, grace: 1s}}
retries: {{failures: 3}}
policy: maximal-spot
market: {market}
"""
SLOTS = 12_000


class Watch:
    """Looks at the workers of all machines from outside: how many live at once, and for how long."""

    def __init__(self) -> None:
        self.owner = ""
        self.most = 0
        self.worker_s = 0.0
        self.starts: set[str] = set()
        self.mixed: list[tuple[str, ...]] = []
        """Workers of two attempts that lived at the same time."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_round, daemon=True)

    def living(self) -> list[process_table.SeenProcess]:
        """Return the processes of workers that live now, and all did at one moment."""
        found = [seen for seen in process_table.scan() if self._is_ours(seen)]
        return [seen for seen in found if process_table.alive(seen.process)]

    def _is_ours(self, seen: process_table.SeenProcess) -> bool:
        return bool(self.owner) and (seen.marker or "").startswith(self.owner + ".")

    def names(self) -> list[str]:
        """Return `owner.machine/job/attempt/rank` of all that live."""
        return sorted({str(seen.marker) for seen in self.living()})

    def begin(self) -> None:
        """Look from now on."""
        self._thread.start()

    def end(self) -> None:
        """Look no longer."""
        self._over.set()
        self._thread.join()

    def _go_round(self) -> None:
        before, names = time.monotonic(), list[str]()
        while not self._over.wait(LOOK_S):
            now, last = time.monotonic(), len(names)
            names = [name for name in self.names() if not name.endswith("/setup")]
            self.worker_s += (now - before) * (last + len(names)) / 2.0
            before = now
            self.starts.update(names)
            self.most = max(self.most, len(names))
            if len({name.split("/")[2] for name in names}) > 1:
                self.mixed.append(tuple(names))


class Rig:
    """The machines, whoever is in charge, and what came of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.shared, self.local = folder, folder / "shared", folder / "local"
        self.journal = self.shared / "journal.db"
        self.hub = Hub()
        self.hosts: dict[int, Host] = {}
        self.watch = Watch()
        self.controller: subprocess.Popen[bytes] | None = None
        self._begun: list[subprocess.Popen[bytes]] = []
        self._logs = 0
        for each in (self.shared, self.local, self.shared / "checkpoints"):
            each.mkdir()
        self.token = self.shared / "token"
        self.token.write_text(os.urandom(32).hex(), encoding="ascii")
        self.head = self.add(1)
        self.start_head()

    # ---------------------------------------------------------------- machines

    def env(self) -> dict[str, str]:
        """Return the variables of all that runs on the rig."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "SLACKTIDE_"))
        }
        return {
            **kept, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token),
            "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1", "HOME": str(self.local),
            "SLACKTIDE_AGENT_HOME": str(self.local / "agents"), "SLACKTIDE_HOME": str(self.shared / "home"),
            "RAY_ADDRESS": f"{self.head.address}:{PORT}" if hasattr(self, "head") else "",
        }  # fmt: skip

    def add(self, number: int) -> Host:
        """Make a machine."""
        self.hosts[number] = Host(self.hub, number, self.local)
        return self.hosts[number]

    def start_head(self) -> None:
        """Start Ray on the head, which has no GPUs."""
        self._ray(self.head, f"--head --port={PORT} --include-dashboard=false --num-gpus=0 "
                  f"--system-config={shlex.quote(HEALTH)}", again=False)  # fmt: skip

    def join(self, *numbers: int) -> None:
        """Add machines with a GPU each, whose nodes are started again whenever they end."""
        for number in numbers:
            self._ray(self.add(number), f"--address={self.head.address}:{PORT} --num-gpus=1", again=True)

    def _ray(self, host: Host, words: str, *, again: bool) -> None:
        ray = shlex.quote(str(Path(sys.executable).with_name("ray")))
        one = (
            f"{ray} start {words} --num-cpus=1 --node-ip-address={host.address} --temp-dir={self.local}/ray "
            "--disable-usage-stats --object-store-memory=80000000 --block"
        )
        script = f"while :; do {one}; sleep 0.5; done" if again else f"exec {one}"
        env = {name: value for name, value in self.env().items() if name != "RAY_ADDRESS"}
        self._start(host, ["sh", "-c", f"cd {self.local}; {script}"], env)

    def _start(self, host: Host, words: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        self._logs += 1
        with open(self.folder / f"{self._logs:02d}-host-{host.number}.log", "wb") as log:
            self._begun.append(host.start(words, env, log))
        return self._begun[-1]

    def kill(self, *numbers: int) -> None:
        """Lose machines with all that runs there."""
        for number in numbers:
            self.hosts.pop(number).kill()

    def kill_head(self) -> None:
        """Kill all of Ray on the head's machine; the controller stays, for it is none of Ray's processes."""
        for pid in self.head.processes():
            words = words_of(pid)
            is_ours = any("slacktide" in word for word in words)
            if words and not is_ours and any("ray" in word.lower() for word in words):
                _signal(pid, signal.SIGKILL)

    def carriers(self) -> dict[int, Host]:
        """Return the machines that carry workers, in the order of their ranks."""
        by_rank: dict[str, Host] = {}
        for seen in self.watch.living():
            host = next((one for one in self.hosts.values() if seen.process.pid in one.processes()), None)
            if host is not None:
                by_rank[str(seen.marker).split("/")[-1]] = host
        return {host.number: host for _, host in sorted(by_rank.items())}

    def leases_since(self) -> float:
        """Return since when, by the wall's clock, the leases of all machines that carry workers hold."""
        found = [self._lease(host) for host in self.carriers().values()]
        return min(found, default=0.0)

    def _lease(self, host: Host) -> float:
        agents = Path(f"/proc/{host.pid}/root{self.local}/agents")
        return max((path.stat().st_mtime for path in paths_below(agents, "lease")), default=0.0)

    def find(self, host: Host, *words: str) -> list[int]:
        """Return the processes of a machine whose command line has these words."""
        return [pid for pid in host.processes() if set(words) <= set(words_of(pid))]

    # ---------------------------------------------------------------- controllers and the job

    def take_charge(self, lease_s: float) -> None:
        """Start a controller on the head's machine."""
        command = [sys.executable, "-m", "slacktide", "controller", "--backend", "ray", "--journal"]
        more = ["--speed", f"{SPEED:g}", "--start", "0", "--market", str(self._market())]
        env = {**self.env(), "SLACKTIDE_LEASE": f"{lease_s:g}s"}
        self.controller = self._start(self.head, [*command, str(self.journal), *more], env)

    def kill_controller(self) -> None:
        """Kill whoever is in charge."""
        assert self.controller is not None
        _signal(inner(self.controller), signal.SIGKILL)
        self.controller.wait()

    def stop_controller(self) -> int:
        """Ask whoever is in charge to stop; return the exit code."""
        assert self.controller is not None
        _signal(inner(self.controller), signal.SIGTERM)
        return self.controller.wait(PATIENCE_S)

    def submit(self) -> None:
        """Hand the job in."""
        path = self.shared / "ring.yaml"
        worker = Path(__file__).parent / "parts" / "worker.py"
        path.write_text(JOB.format(
            python=shlex.quote(sys.executable), worker=shlex.quote(str(worker)), shared=self.shared,
            gpus=GPUS, url=f"file://{self.shared}/checkpoints", market=self._market(),
        ))  # fmt: skip
        self.slacktide("submit", str(path))

    def slacktide(self, *words: str) -> str:
        """Run a command beside the controller; it must work."""
        done = subprocess.run(
            [sys.executable, "-m", "slacktide", *words, "--journal", str(self.journal)],
            env=self.env(), capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _market(self) -> Path:
        path = self.shared / "market.csv"
        if not path.exists():
            begin = datetime(2025, 1, 1, tzinfo=UTC)
            times = (begin + slot * timedelta(minutes=5) for slot in range(SLOTS))
            rows = [f"{time.isoformat()},zone,{GPUS},2.0,10.0" for time in times]
            head = "time_utc,pool,spot_gpus,spot_usd_per_gpu_hour,on_demand_usd_per_gpu_hour"
            path.write_text("\n".join([head, *rows, ""]), encoding="utf-8")
        return path

    def state(self) -> JournalState:
        """Read the journal; an empty one while there is none."""
        if not self.journal.exists() or not self.journal.stat().st_size:
            return JournalState()
        with SqliteStore(self.journal, create=False) as store:
            return read_state(store)

    def record(self) -> JobRecord | None:
        """Return what the journal tells of the job."""
        return self.state().jobs.get("ring")

    def diary(self, what: str) -> list[tuple[int, int]]:
        """Return the attempts and steps that rank 0 has put down as `began`, or as `saved`."""
        try:
            lines = (self.shared / "diary").read_text(encoding="ascii").split("\n")[:-1]
        except OSError:
            return []
        words = [line.split() for line in lines]
        return [(int(attempt), int(steps)) for name, attempt, steps in words if name == what]

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something."""
        give_up = time.monotonic() + PATIENCE_S
        while not condition():
            assert self.controller is None or self.controller.poll() is None, f"no controller\n{self.told()}"
            assert time.monotonic() < give_up, f"waited too long for {what}\n{self.told()}"
            time.sleep(0.1)

    def told(self) -> str:
        """Return what everybody printed last, for the message of a failure."""
        texts = {path.name: path.read_text(errors="replace")[-1500:] for path in self.folder.glob("*.log")}
        return "\n".join(f"== {name}\n{text}" for name, text in sorted(texts.items()))

    def close(self) -> None:
        """End every machine, and with them all that runs there."""
        for number in list(self.hosts):
            self.kill(number)
        self.hub.kill()
        for outer in self._begun:
            outer.wait()


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


@contextmanager
def rig(folder: Path) -> Iterator[Rig]:
    """Build a rig, and take it down."""
    made = Rig(folder)
    try:
        made.watch.begin()
        yield made
    finally:
        made.watch.end()
        made.close()
