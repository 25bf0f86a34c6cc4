"""Tasks done here or in processes: results in order, errors as they were, nothing left behind."""

from __future__ import annotations

import math
import operator
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from slacktide.app.planning.spreading import cluster_address, open_spread
from slacktide.core import own_class
from slacktide.core.errors import BackendError, FileError, InputError
from slacktide.market.base import Pool
from slacktide.simulation.parallel import node_setup, task_package
from slacktide.simulation.parallel.base import HERE
from slacktide.simulation.parallel.processes import Processes
from slacktide.simulation.parallel.ray_tasks import host_and_port

PATIENCE_S = 60.0


def test_results_come_in_the_order_of_the_tasks() -> None:
    assert list(HERE.each(operator.add, 10, [3, 1, 2])) == [13, 11, 12]
    with Processes(2) as two:
        assert list(two.each(operator.add, 10, range(20))) == [10 + n for n in range(20)]
        assert list(two.each(operator.add, 20, [1])) == [21]
        assert list(two.each(operator.add, 10, [])) == []


def test_here_a_task_is_done_when_its_result_is_asked_for() -> None:
    done: list[int] = []
    results = HERE.each(lambda shared, task: shared.append(task), done, [1, 2])
    assert not done
    next(results)
    assert done == [1]


def test_what_a_task_raises_is_raised_as_it_was() -> None:
    key, content = task_package.pack(_refuse, "a.csv")
    packed = task_package.do(key, lambda: content, pickle.dumps(3))
    with pytest.raises(FileError, match=r"a\.csv:3: must be a number") as caught:
        task_package.result(packed)
    assert (caught.value.line, caught.value.field) == (3, "")
    with Processes(1) as one, pytest.raises(RuntimeError, match="ZeroDivisionError"):  # with its place
        list(one.each(operator.truediv, 1, [0]))


def _refuse(path: str, line: int) -> None:
    raise FileError("must be a number, got 'x'", path=path, line=line)


def test_what_cannot_travel_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="must be able to travel"):
        list(Processes(1).each(lambda shared, task: task, 0, [1]))


def test_a_killed_process_is_said() -> None:
    with Processes(1) as one, pytest.raises(BackendError, match="got one that was killed"):
        list(one.each(_kill, 9, [0]))


def _kill(signal: int, _: int) -> None:
    os.kill(os.getpid(), signal)


def test_processes_end_with_whoever_asked_even_if_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import time\n"
        "from tests.unit.simulation.parallel.parts_of_spread import note_and_wait\n"
        "from slacktide.simulation.parallel.processes import Processes\n"
        "if __name__ == '__main__':\n"
        f"    list(Processes(1).each(note_and_wait, {str(tmp_path)!r}, [0]))\n"
    )
    script = tmp_path / "sweep.py"
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    with subprocess.Popen([sys.executable, str(script)], env=environment) as process:
        _until((tmp_path / "pid").exists)
        worker = int((tmp_path / "pid").read_text())
        process.kill()
    _until(lambda: not _lives(worker))


def _until(holds: object) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < give_up
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_pool_arrives_as_it_would_be_made_there() -> None:
    pool = Pool("a", 0.5, [1.0, 2.0], [3.0, 3.0], [4, 0])  # type: ignore[arg-type]
    again = pickle.loads(pickle.dumps(pool))
    assert (again.name, again.slot_hours, again.start) == (pool.name, pool.slot_hours, pool.start)
    for name in ("spot_usd_per_gpu_hour", "on_demand_usd_per_gpu_hour", "spot_gpus"):
        mine, there = getattr(pool, name), getattr(again, name)
        assert np.array_equal(mine, there)
        assert mine.dtype == there.dtype
        assert not there.flags.writeable


def test_a_file_of_ones_own_is_known_where_it_is_not(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("class Mine:\n    def __init__(self, n):\n        self.n = n\n")
    mine = own_class.load(f"{file}:Mine", "policy")
    key, packed = task_package.pack(operator.is_not, mine(7))
    sources, content = pickle.loads(packed)
    (source,) = [one for one in sources if one.path == str(file)]
    code = (
        "import pickle, sys\n"
        "from slacktide.simulation.parallel import task_package\n"
        "given = pickle.loads(sys.stdin.buffer.read())\n"
        "print(task_package.opened(*given)[1].n)\n"
    )
    file.unlink()
    ask = [sys.executable, "-c", code]
    one = pickle.dumps(((source,), content))
    found = subprocess.run(ask, input=pickle.dumps((key, one)), capture_output=True, check=True)
    assert found.stdout == b"7\n"


def test_code_is_brought_to_a_node_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKTIDE_CACHE", str(tmp_path))
    digest = node_setup.code_digest("slacktide")
    folder = node_setup.unpacked(f"slacktide-{digest}", lambda: node_setup.code_archive("slacktide"))
    code = (
        "from slacktide.simulation.parallel import node_setup; "
        "print(node_setup.code_digest('slacktide'), node_setup.__file__)"
    )
    ask = [sys.executable, "-c", code]
    there = {**os.environ, "PYTHONPATH": str(folder)}
    said = subprocess.run(ask, env=there, capture_output=True, text=True, check=True).stdout.split()
    assert said == [digest, str(folder / "slacktide" / "simulation" / "parallel" / "node_setup.py")]
    assert node_setup.unpacked(f"slacktide-{digest}", _never) == folder  # once is enough
    (folder / "slacktide" / "core" / "units.py").write_text("changed = True\n")
    said = subprocess.run(ask, env=there, capture_output=True, text=True, check=False).stdout.split()
    assert said[:1] != [digest]


def _never() -> bytes:
    raise AssertionError


def test_old_code_is_removed_from_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKTIDE_CACHE", str(tmp_path))
    for number in range(node_setup.KEPT_FOLDERS + 3):
        folder = node_setup.unpacked(
            f"x-{number}", lambda: node_setup.code_archive("slacktide.simulation.parallel")
        )
        os.utime(folder, (number, number))
    node_setup.unpacked("x-last", lambda: node_setup.code_archive("slacktide.simulation.parallel"))
    assert len(list((tmp_path / "code").iterdir())) == node_setup.KEPT_FOLDERS


def test_libraries_must_be_the_same() -> None:
    assert node_setup.check_versions(node_setup.versions()) == ""
    assert "every node must have numpy 0.1" in node_setup.check_versions({"numpy": "0.1"})
    assert node_setup.check_versions({"scipy": node_setup.versions().get("scipy", "1.0")}) == ""


@pytest.mark.parametrize("place", ["", "here", "ray:", "processes:", "processes:x", "processes:-1"])
def test_places_that_are_none_are_refused(place: str) -> None:
    with pytest.raises(InputError, match="--on must be processes, processes:N, ray or ray:ADDRESS"):
        open_spread(place).__enter__()


def test_no_processes_are_refused() -> None:
    with pytest.raises(InputError, match="processes must be >= 1, got 0"):
        open_spread("processes:0").__enter__()


def test_without_a_cluster_it_is_said_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path))
    with pytest.raises(InputError, match="slacktide cluster up"):
        cluster_address()
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert cluster_address() == "10.0.0.1:6379"


@pytest.mark.parametrize("address", ["nowhere", "10.0.0.1", "10.0.0.1:x", ":6379", "10.0.0.1:99999"])
def test_an_address_has_a_host_and_a_port(address: str) -> None:
    with pytest.raises(InputError, match="must be HOST:PORT"):
        host_and_port(address)
    assert host_and_port("ray://head:10001") == ("head", 10001)
    assert math.isfinite(host_and_port("[::1]:6379")[1])
