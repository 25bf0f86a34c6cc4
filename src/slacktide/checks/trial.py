"""A back end on trial: made afresh in a folder of its own, with a market clock that is turned by hand."""

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
    """A back end, its orders, and the looks at it."""

    def __init__(self, make: Make, folder: Path) -> None:
        """Make the back end; its files go into the folder."""
        self.hours = 0.0
        """The market's time, which the checks turn by hand."""
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
        """Continue as another controller, which knows nothing but the journal."""
        self.backend.close()
        self.backend = self._make(self._place)

    def look(self) -> BackendStatus:
        return self.backend.look([JOB])[JOB]

    def until(self, condition: Callable[[BackendStatus], object], words: str) -> BackendStatus:
        """Look until something holds, and return what was seen then; raises CheckFailed if it never does."""
        return wait_until(self.look, condition, words, PATIENCE_S)

    def held(self, order: Order, times: int = 1) -> BackendStatus:
        """Order, and wait until it is so."""
        for _ in range(times):
            self.backend.hold(order)
        wanted = order.attempt, order.spot_gpus, order.on_demand_gpus, 0
        return self.until(
            lambda facts: (facts.attempt, *facts[2:5]) == wanted,
            f"{order.spot_gpus} + {order.on_demand_gpus} GPUs must be held",
        )

    def let_go(self, order: Order) -> BackendStatus:
        """Order that everything ends, and wait until it has."""
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
        """Wait until these workers of the first attempt have printed a line."""
        wanted = {(1, rank) for rank in ranks}

        def has_printed(_: BackendStatus) -> bool:
            logs = [log for log in self.backend.logs(JOB) if (log.attempt, log.rank) in wanted]
            return len(logs) == len(wanted) and all(f"{line}\n".encode() in log.read(0) for log in logs)

        self.until(has_printed, f"what every worker prints must be in its log: {line!r}")

    def close(self) -> None:
        """End everything, as well as the back end can, and close it."""
        with suppress(CheckFailed, SlacktideError):  # what was found to be wrong has been reported
            self.let_go(ORDER._replace(attempt=99))
        self.backend.close()


@contextmanager
def backend_trial(make: Make) -> Iterator[BackendTrial]:
    """Put a back end on trial in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder, closing(BackendTrial(make, Path(folder))) as trial:
        yield trial
