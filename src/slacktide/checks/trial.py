"""A back end that is being checked: a new one in a folder of its own, with a clock that the checks set."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from slacktide.backends.base import Backend, BackendPlace, BackendStatus, LaunchSpec, Log
from slacktide.checks.base import CheckFailed, must, wait_until
from slacktide.core.errors import SlacktideError
from slacktide.core.types import Order

PATIENCE_S = 60.0  # how long to wait for anything; far longer than it takes
GRACE_S = 10.0
JOB = "check"
ORDER = Order(JOB, 1, "here", 2, 1)
SECRET = {"CHECK_SECRET": "hush"}
FOREVER = "sleep 600"

Make: TypeAlias = Callable[[BackendPlace], Backend]


class BackendTrial:
    """A back end that is being checked, and the requests to it."""

    def __init__(self, make: Make, folder: Path) -> None:
        """Make the back end; its files go into the folder."""
        self.hours = 0.0
        """The time on the market's clock, which the checks set."""
        self._make, self._folder = make, folder
        owner = uuid.uuid4().hex
        self._place = BackendPlace(
            folder=folder / "runs", owner=owner, now_hours=lambda: self.hours, secrets=lambda job: SECRET
        )
        self.backend = make(self._place)

    def enter(self, run: str = FOREVER, env: Mapping[str, str] | None = None) -> None:
        """Enter the job, with the command that its workers run."""
        launch = LaunchSpec(job=JOB, run=run, workdir=str(self._folder), env=env or {}, grace_s=GRACE_S)
        self.backend.enter(replace(launch, secrets=tuple(SECRET)))

    def renew(self) -> None:
        """Close the back end and make it again in the same place, as a new controller would."""
        self.backend.close()
        self.backend = self._make(self._place)

    def look(self) -> BackendStatus:
        return self.backend.look([JOB])[JOB]

    def until(self, condition: Callable[[BackendStatus], object], words: str) -> BackendStatus:
        """Look until a condition holds, and return that status; raises CheckFailed if it never does."""
        return wait_until(self.look, condition, words, PATIENCE_S)

    def held(self, order: Order, times: int = 1) -> BackendStatus:
        """Give an order this many times, wait until its GPUs are held, and return that status."""
        for _ in range(times):
            self.backend.hold(order)
        wanted = order.attempt, order.spot_gpus, order.on_demand_gpus, 0
        return self.until(
            lambda facts: (facts.attempt, *facts[2:5]) == wanted,
            f"{order.spot_gpus} + {order.on_demand_gpus} GPUs must be held",
        )

    def let_go(self, order: Order) -> BackendStatus:
        """Order everything to end, wait until it has, and return that status."""
        self.backend.hold(order._replace(ending=True))
        return self.until(lambda facts: facts.gone, "an order to end must lead to nothing being held")

    def log(self, rank: int) -> Log:
        """Return the log of a worker of the first attempt."""
        logs = [log for log in self.backend.logs(JOB) if (log.attempt, log.rank) == (1, rank)]
        must(len(logs) == 1, f"there must be one log of rank {rank} of attempt 1, got {len(logs)}")
        return logs[0]

    def printed(self, rank: int) -> list[str]:
        """Return the lines that a worker of the first attempt printed."""
        return [line.decode().rstrip("\n") for line in self.log(rank).read(0)]

    def until_printed(self, line: str, ranks: range) -> None:
        """Wait until each of these workers of the first attempt has printed this line."""
        wanted = {(1, rank) for rank in ranks}

        def has_printed(_: BackendStatus) -> bool:
            logs = [log for log in self.backend.logs(JOB) if (log.attempt, log.rank) in wanted]
            return len(logs) == len(wanted) and all(f"{line}\n".encode() in log.read(0) for log in logs)

        self.until(has_printed, f"what every worker prints must be in its log: {line!r}")

    def close(self) -> None:
        """End everything, as far as the back end works, and close it."""
        with suppress(CheckFailed, SlacktideError):  # the failure that was found first is the one to report
            self.let_go(ORDER._replace(attempt=99))
        self.backend.close()


@contextmanager
def backend_trial(make: Make) -> Iterator[BackendTrial]:
    """Make a back end to check, in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder, closing(BackendTrial(make, Path(folder))) as trial:
        yield trial
