"""A fleet on a market, with a deadline and without, on back ends with machines: rented ones, and Ray's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slacktide.backends.base import backends
from slacktide.backends.machines.backend import MachineBackend, NodeAccess
from slacktide.cli import run
from slacktide.journal.events import Decided
from slacktide.journal.state.tickets import MachineKind
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.providers.base import Renter, Renting, Rules
from slacktide.testing.fake_provider import Cloud, Fake
from tests.parts_of_ray import needs_ray, ray_cluster
from tests.unit.backends.parts_of_clouds import CloudLink, end_all, hours

from .parts_of_runs import SLOTS, counting, state_of

SPEED = "600"
"""A slot in three seconds: machines have the time to come ..."""
RAY_SPEED = "60"
"""... and Ray's workers, which take half a minute, before the first job is late."""
BUDGET_USD = 500.0
LEASE_S = 30.0
NODE = {"num_cpus": 0, "num_gpus": 2, "object_store_memory": 80_000_000}
SPECS = (MachineKind("spot", "zone", 2), MachineKind("on-demand", "zone", 1))
RULES = Rules(
    usd_per_hour={("spot", "zone"): 4.0, ("on-demand", "zone"): 10.0}, first_wait_hours=0.3 / 3600.0
)
JOB = """\
name: {name}
run: {command}
resources: {{accelerators: "H100:{{2}}"}}
work: 4 gpu-hours +-0%
restart: 6m
checkpoint: {{every: 3m, grace: 5s}}
market: {market}
"""
DUE_HOURS = 2.15
DUE = "deadline: 2h9m\nafter_deadline: finish-fast\n"
"""It must begin on demand at once; late on a slow machine, it is finished all the same."""
SOON = "deadline: none\npatience: 2h\n"


@dataclasses.dataclass(slots=True)
class Rented(MachineBackend):
    """Machines of a cloud that exists only in memory, with an agent on each as a process of this one."""

    cloud: Cloud = dataclasses.field(init=False, default_factory=lambda: Cloud(hours))

    def __post_init__(self) -> None:
        provider = Fake(Renter(owner=self.place.owner), cloud=self.cloud)
        self.place = dataclasses.replace(
            self.place, renting=lambda head, token: Renting(provider, RULES, SPECS)
        )
        MachineBackend.__post_init__(self)

    def node_access(self) -> NodeAccess:
        """Return the link to the cloud's machines."""
        folder = self.place.folder.parent / "machines"
        return NodeAccess(CloudLink(self.cloud, folder, self.place.owner, LEASE_S), LEASE_S)


@pytest.fixture
def rented(journal: Path) -> Iterator[str]:
    """The name of a back end that rents machines; nothing of them is left."""
    backends.register(Rented)
    yield "rented"
    del backends._classes["rented"]
    end_all(state_of(journal).id)


def write(folder: Path) -> list[str]:
    """Write a fleet on a market with two spot GPUs, and two jobs that want both."""
    begin, table = datetime(2025, 1, 1, tzinfo=UTC), folder / "market.csv"
    times = (begin + slot * timedelta(minutes=30) for slot in range(SLOTS))
    head = "time_utc,pool,spot_gpus,spot_usd_per_gpu_hour,on_demand_usd_per_gpu_hour"
    rows = [f"{time.isoformat()},zone,2,2.0,10.0" for time in times]
    table.write_text("\n".join([head, *rows, ""]), encoding="utf-8")
    fleet = f"budget: {BUDGET_USD:g} usd/week\nmarket: {table}\n"
    (folder / "fleet.yaml").write_text(fleet, encoding="utf-8")
    for name, more in (("due", DUE), ("soon", SOON)):
        text = JOB.format(name=name, command=counting(300), market=table) + more
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return [str(folder / "due.yaml"), str(folder / "soon.yaml"), "--fleet", str(folder / "fleet.yaml")]


def check(journal: Path) -> None:
    """See that both kinds of GPUs were rented at once, and that money and spot are accounted for."""
    records = state_of(journal).jobs
    assert {name: record.status for name, record in records.items()} in (
        {"due": "succeeded", "soon": "succeeded"},
        {"due": "deadline_missed", "soon": "succeeded"},
    )
    assert records["due"].money.bill.on_demand_usd > 0.0
    assert records["soon"].money.bill.spot_usd > 0.0
    assert 0.0 < sum(record.progress.state.cost_usd for record in records.values()) <= BUDGET_USD
    if records["due"].progress.state.finish_hours > DUE_HOURS:
        return  # a machine so slow that nothing was promised any more: then they may share the spot in turn
    assert rented_at_once(journal)


def rented_at_once(journal: Path) -> bool:
    """Whether at some moment the one was to hold on demand while the other was to hold spot.

    How long each of them then waits for its machines depends on the machine that plays them.
    """
    on_demand, spot = 0, 0
    with SqliteStore(journal) as store:
        for decided in (record.event for record in store.read() if isinstance(record.event, Decided)):
            if decided.job == "due":
                on_demand = decided.on_demand_gpus
            else:
                spot = decided.spot_gpus
            if on_demand and spot:
                return True
    return False


def finished(words: list[str], backend: str, speed: str) -> bool:
    """Whether both jobs have come to their end."""
    return run(["run", *words, "--backend", backend, "--speed", speed]) in (0, 100)


def test_a_fleet_on_a_market_runs_on_rented_machines(
    rented: str, journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert finished(write(tmp_path), rented, SPEED)
    check(journal)
    assert not state_of(journal).tickets.open, "all machines were given back"
    assert run(["cost"]) == 0
    assert "no spot was sold twice" in capsys.readouterr().out


@needs_ray
@pytest.mark.slow
def test_a_fleet_on_a_market_runs_on_ray(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ({"market": "spot"}, {"market": "on-demand"})
    with ray_cluster(cpus=0, nodes=[{**NODE, "labels": each} for each in labels]) as cluster:
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        assert finished(write(tmp_path), "ray", RAY_SPEED)
    check(journal)
    assert run(["cost"]) == 0
    assert "no spot was sold twice" in capsys.readouterr().out
