"""The LoRA job in real processes: stopped, killed and continued at other widths, it ends where it should."""

from __future__ import annotations

import importlib.util
import io
import shlex
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from slacktide.core.speedup import Amdahl
from slacktide.files.job import read_job_file

if TYPE_CHECKING:
    from tests.e2e.conftest import TrainingJob

pytestmark = pytest.mark.slow

SPEED = 60
FOLDER = Path(__file__).parents[2] / "examples" / "lora"
LOSS_TOLERANCE, ADAPTER_TOLERANCE = 1e-4, 1e-3
"""Relative, and absolute: float32 sums in another order, and what training makes of the difference."""

EXIT_LOST, EXIT_STOPPED = 75, 143
STEPS, EVERY = 60, 10
SLOW = (
    "--step-seconds",
    "0.2",
    "--parallel-share",
    "0",
)  # slow enough that a busy machine interrupts in time

Make = Callable[..., "TrainingJob"]


def job_of(make: Make) -> TrainingJob:
    return make(str(FOLDER / "train.py"), "--steps", str(STEPS), "--checkpoint-every", str(EVERY))


@pytest.fixture(scope="session")
def torch() -> Any:
    """PyTorch, without which there is nothing to test."""
    return pytest.importorskip("torch", reason="needs PyTorch: slacktide[torch]")


def saved(job: TrainingJob) -> dict[str, Any]:
    """Return the newest checkpoint."""
    torch = pytest.importorskip("torch")
    data = max(job.checkpoints.glob("step-*.pt")).read_bytes()
    found: dict[str, Any] = torch.load(io.BytesIO(data[32:]), weights_only=True)
    return found


def test_interrupted_run_ends_where_the_uninterrupted_one_does(training_job: Make, torch: Any) -> None:
    whole = job_of(training_job)
    whole.start(2)
    assert whole.codes(180) == [0, 0], whole.logs()

    job = job_of(training_job)
    job.start(2, *SLOW)
    job.wait_for_line(lambda line: line["done"] > 0, 180)
    job.send(signal.SIGTERM, 1)  # one is asked, all agree on the step to stop after
    assert job.codes() == [EXIT_STOPPED, EXIT_STOPPED], job.logs()

    stopped = saved(job)["step"]
    assert EVERY <= stopped < STEPS
    job.start(3, *SLOW)
    job.wait_for_line(lambda line: line["done"] * STEPS > stopped + 1, 180)
    job.send(signal.SIGKILL, 1)  # without notice
    assert job.codes() == [EXIT_LOST, -signal.SIGKILL, EXIT_LOST], job.logs()

    assert stopped < saved(job)["step"] < STEPS
    job.start(1)
    assert job.codes(180) == [0], job.logs()
    check_same_end(job, whole)


def check_same_end(job: TrainingJob, whole: TrainingJob) -> None:
    """Both are done, and done with the same loss and the same adapters."""
    first, last, wanted = job.lines()[0], job.lines()[-1], whole.lines()[-1]
    assert last["done"] == last["checkpointed"] == 1
    assert last["metrics"]["loss"] == pytest.approx(wanted["metrics"]["loss"], rel=LOSS_TOLERANCE)
    assert last["metrics"]["loss"] < 0.8 * first["metrics"]["loss"]  # it did learn
    mine, others = saved(job), saved(whole)
    assert mine["step"] == others["step"] == STEPS
    assert mine["adapters"].keys() == others["adapters"].keys()
    for name, value in mine["adapters"].items():
        assert value.numpy() == pytest.approx(others["adapters"][name].numpy(), abs=ADAPTER_TOLERANCE)


@pytest.fixture(scope="module")
def script(torch: Any) -> ModuleType:
    """The script as a module, for the parts that need no processes."""
    spec = importlib.util.spec_from_file_location("lora_train", FOLDER / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["lora_train"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_only_the_adapters_learn_and_they_begin_at_nothing(script: ModuleType, torch: Any) -> None:
    model = script.Transformer(3)
    trained = {name for name, value in model.named_parameters() if value.requires_grad}
    assert trained == set(model.adapters())
    assert len(trained) == 2 * 4 * script.BLOCKS  # attention and MLP projections, two thin matrices each
    text = script.Language(3).held_out()[:, :-1]
    before = model(text)
    for block in model.blocks:
        for layer in (block.attend, block.gather, block.widen, block.narrow):
            torch.nn.init.zeros_(layer.lora_down.weight)
    assert torch.equal(model(text), before)


def test_texts_depend_on_their_numbers_alone_and_follow_the_language(script: ModuleType, torch: Any) -> None:
    language, again = script.Language(3), script.Language(3)
    assert torch.equal(language.batch(7), again.batch(7))
    assert not torch.equal(language.batch(7), language.batch(8))
    text = language.batch(7)
    assert text.shape == (script.BATCH, script.CONTEXT + 1)
    followers = language._next[text[:, :-1]]
    assert (followers == text[:, 1:, None]).any(dim=-1).all()


def test_taken_port_is_a_lost_peer(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(taken.getsockname()[1]))
        with pytest.raises(script.Lost, match="Address already in use"), script.peers_needed():
            script.join(0, 2, 5.0, 10.0)


def test_broken_checkpoint_gives_way_to_the_one_before(script: ModuleType, tmp_path: Path) -> None:
    shelf = script.Shelf(tmp_path)
    for step in (10, 20, 30):
        shelf.save(step, {"step": step})
    assert len(list(tmp_path.iterdir())) == 2
    newest = max(tmp_path.iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    assert script.Shelf(tmp_path).newest() == {"step": 20}
    assert not newest.exists()


def test_job_file_promises_what_the_command_does() -> None:
    found = read_job_file(FOLDER / "job.yaml")
    command = shlex.split(found.run or "")
    options = dict(zip(command[2::2], map(float, command[3::2]), strict=True))
    assert command[:2] == ["$SLACKTIDE_PYTHON", "train.py"]
    # The file's hours are those of the market's clock, which its first lines say runs so much faster.
    second = 3600 / SPEED
    work = options["--steps"] * options["--step-seconds"]
    assert found.job.work_gpu_hours * second == pytest.approx(work)
    assert found.job.speedup == Amdahl(options["--parallel-share"])
    between_s = options["--checkpoint-every"] * options["--step-seconds"]
    assert found.job.checkpoint_hours * second == pytest.approx(between_s)
    assert f"--speed {SPEED}\n" in (FOLDER / "job.yaml").read_text(encoding="utf-8")
