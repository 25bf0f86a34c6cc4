"""The parts of the way to Ray that need no cluster: what nodes say, what travels, what users are told."""

from __future__ import annotations

import fcntl
import importlib.util
import io
import os
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from slacktide.backends.machines.agent.messages import Host
from slacktide.backends.process_table import Process, SeenProcess
from slacktide.backends.ray import actor, backend, cluster_note
from slacktide.backends.ray.backend import LEASE, LEASE_S, RayLink, lease_s
from slacktide.backends.ray.cluster_note import ClusterNote, LocalNode, read_note, write_note
from slacktide.backends.ray.node_settings import client_environ, host_of, is_loopback
from slacktide.cli import run
from slacktide.core.errors import FileError, InputError
from slacktide.simulation.parallel.node_setup import code_archive
from slacktide.testing import local_cluster

from .conftest import wait_for
from .parts_of_ray import new_owner


def node(labels: dict[str, str], gpus: float = 0.0, alive: bool = True) -> Host:
    resources = {"CPU": 1.0, **({"GPU": gpus} if gpus else {})}
    return host_of(
        {"NodeID": "ab12", "Alive": alive, "NodeManagerAddress": "10.0.0.7", "Labels": labels,
         "Resources": resources if alive else {}}
    )  # fmt: skip


def test_labels_say_what_a_node_is() -> None:
    labels = {"market": "spot", "pool": "us-east-1a.p4d", "slacktide-ticket": "7-x"}
    assert node(labels, gpus=8.0) == Host("ab12", "spot", "us-east-1a.p4d", 8, "10.0.0.7", "7-x")
    assert node({"market": "on-demand", "slacktide-gpus": "2"}).gpus == 2
    assert node({"market": "whatever"}, gpus=1.0).kind is None
    assert node({"ray.io/market-type": "spot"}, gpus=1.0).kind == "spot"
    assert node({}, alive=False) == Host("ab12", None, None, 0, "10.0.0.7", alive=False)


def test_an_agent_runs_from_the_package_alone(tmp_path: Path) -> None:
    zipfile.ZipFile(io.BytesIO(code_archive("slacktide"))).extractall(tmp_path)
    command = [
        sys.executable,
        "-m",
        "slacktide.backends.machines.agent.serve",
        str(tmp_path / "root"),
        "me.n",
        "5",
    ]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([*command, "127.0.0.1"], env=environ, stdin=subprocess.DEVNULL, check=True)
    assert done.returncode == 0


def test_the_actor_needs_no_slacktide_on_its_node() -> None:
    pytest.importorskip("ray", reason="needs pip install 'slacktide[ray]'")
    dump = (
        "import sys; from ray import cloudpickle; from slacktide.backends.ray import actor;"
        "cloudpickle.register_pickle_by_value(actor);"
        "sys.stdout.buffer.write(cloudpickle.dumps(actor.NodeAgent))"
    )
    load = (
        "import sys; sys.modules['slacktide'] = None; from ray import cloudpickle;"
        "made = cloudpickle.loads(sys.stdin.buffer.read()); print(made.__name__)"
    )
    packed_class = subprocess.run([sys.executable, "-c", dump], capture_output=True, check=True).stdout
    done = subprocess.run([sys.executable, "-c", load], input=packed_class, capture_output=True, check=True)
    assert done.stdout == b"NodeAgent\n"


def test_an_agent_s_home_is_this_user_s_alone(tmp_path: Path) -> None:
    home = actor.agents_home({actor.HOME: str(tmp_path / "deep" / "home")})
    assert home.stat().st_mode & 0o777 == 0o700
    home.chmod(0o755)
    with pytest.raises(PermissionError, match="alone"):
        actor.agents_home({actor.HOME: str(home)})
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="alone"):
        actor.agents_home({actor.HOME: str(tmp_path / "link")})


def test_files_of_nodes_that_are_gone_are_tidied_away(tmp_path: Path) -> None:
    for name in ("old", "used", "new"):
        (tmp_path / name).mkdir()
        handle = actor.lock_folder(tmp_path / name, fcntl.LOCK_SH)
        assert handle is not None
        if name != "used":
            os.close(handle)
        if name != "new":
            os.utime(tmp_path / name / "lock", (1, 1))
    (tmp_path / "just-made").mkdir()
    actor.tidy(tmp_path, time.time() - 100)
    assert {path.name for path in tmp_path.iterdir()} == {"used", "new", "just-made"}


def test_what_ray_is_told_on_loopback_and_elsewhere(tmp_path: Path) -> None:
    assert is_loopback("127.0.0.1:6379")
    assert is_loopback("ray://localhost:10001")
    assert not is_loopback("10.0.0.1:6379")
    base = {"RAY_AUTH_TOKEN": "old", "HOME": "/me"}
    here = client_environ(base, "127.0.0.1:1", tmp_path / "token")
    assert here["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
    assert here["RAY_AUTH_TOKEN_PATH"] == str(tmp_path / "token")
    assert "RAY_AUTH_TOKEN" not in here
    elsewhere = client_environ(base, "10.0.0.1:1", None)
    assert "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER" not in elsewhere
    assert elsewhere["RAY_AUTH_TOKEN"] == "old"


def trouble_of(address: str, words: str) -> None:
    one = RayLink(address, new_owner(), 10.0)
    try:
        wait_for(lambda: words in one.trouble)
        assert not one.hosts()
    finally:
        one.close()


def test_without_a_cluster_it_says_how_to_start_one() -> None:
    pytest.importorskip("ray", reason="needs pip install 'slacktide[ray]'")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody else gets this port, and nobody listens there
        trouble_of(f"127.0.0.1:{taken.getsockname()[1]}", "start one with `slacktide cluster up`")


def test_without_ray_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('no ray here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    trouble_of("127.0.0.1:1", "pip install 'slacktide[ray]'")


def test_nodes_that_are_gone_stay_listed_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    one = RayLink("127.0.0.1:1", new_owner(), 10.0)
    one.close()
    up = Host("a", "spot", None, 8, "10.0.0.1")
    one._list([up, up._replace(id="b")])
    one._list([up._replace(alive=False, gpus=0), up._replace(id="c", alive=False, gpus=0)])
    seen = {host.id: (host.alive, host.gpus) for host in one.hosts()}
    assert seen == {"a": (False, 8), "b": (False, 8), "c": (False, 0)}
    monkeypatch.setattr(backend, "DEAD_KEPT_S", -1.0)
    assert not one.hosts()
    one._list([up._replace(alive=False)])
    assert not one.hosts(), "it is not listed anew"


def note(folder: Path) -> ClusterNote:
    made = LocalNode(
        name="spot-1", id="0123456789abcdef", kind="spot", gpus=1, raylet=Process(1, "1 other-boot")
    )
    return ClusterNote(
        id="c", folder=folder, keeper=Process(1, "1 other-boot"), address="127.0.0.1:1", nodes=(made,),
        ready=True, wanted={"spot": 1},
    )  # fmt: skip


def test_a_note_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    assert read_note(path) is None
    write_note(path, note(tmp_path))
    assert read_note(path) == note(tmp_path)
    assert not note(tmp_path).is_up, "its process was of another boot"
    path.write_text('{"id": 1}')
    with pytest.raises(FileError, match="remove it"):
        read_note(path)


def test_processes_of_others_are_no_part_of_a_cluster(tmp_path: Path) -> None:
    cluster = note(tmp_path)
    spot = cluster.nodes[0]

    def seen(pid: int, session: int = 99, marker: str | None = None, parent: int = 0) -> SeenProcess:
        return SeenProcess(Process(pid, "5 other-boot"), pid, session, marker, parent)

    worker = seen(-2, marker="owner.0123456789ab/job/1/0")
    child, member = seen(-3, parent=-2), seen(-5, session=1)
    strangers = [
        seen(-4, marker="owner.ffffffffffff/job/1/0"),
        seen(1, session=1),  # the keeper's pid, given again to someone else
        SeenProcess(Process(-6, "5 this-boot"), -6, 1, None),
    ]
    everyone = [worker, child, member, *strangers]
    assert cluster_note.of_node(spot, everyone) == [worker, child]
    assert cluster_note.of_cluster(cluster, everyone) == [worker, child, member]
    assert cluster_note.workers_of(spot, everyone) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--spot", "-1"], "--spot must be >= 0, got -1"),
        (["--spot", "0", "--on-demand", "0"], "1 to 64 nodes, got 0"),
        (["--spot", "100"], "1 to 64 nodes, got 102"),
        (["--gpus", "0"], "--gpus must be >= 1, got 0"),
        (["--gpus", "65"], "--gpus must be <= 64, got 65"),
    ],
)
def test_bad_numbers_are_refused(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert run(["cluster", "up", *options]) == 2
    assert words in capsys.readouterr().err


def test_commands_say_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(["cluster", "up"]) == 2
    assert "pip install 'slacktide[ray]'" in capsys.readouterr().err
    assert run(["cluster", "kill", "spot-1"]) == 2
    assert "slacktide cluster up" in capsys.readouterr().err
    assert run(["cluster", "status"]) == 0
    assert run(["cluster", "status", "-o", "json"]) == 0
    assert run(["cluster", "down"]) == 0
    assert "nothing to end" in capsys.readouterr().out
    assert not cluster_note.find_cluster().address


def test_one_command_at_a_time_starts_or_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path))
    with local_cluster._locked(cluster_note.default_path()), pytest.raises(InputError, match="wait for it"):
        local_cluster.end()


def test_a_lease_is_as_long_as_the_user_says() -> None:
    assert lease_s({}) == LEASE_S
    assert lease_s({LEASE: "1m30s"}) == pytest.approx(90.0)
    for wrong in ("1s", "soon"):
        with pytest.raises(InputError, match="must be"):
            lease_s({LEASE: wrong})
