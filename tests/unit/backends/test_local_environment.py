"""Which GPU, which threads and which of the controller's variables a worker gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from slacktide.backends.base import LaunchSpec
from slacktide.backends.local import Launch
from slacktide.backends.workers.environment import (
    handed_down,
    job_variables,
    least_used,
    machine_devices,
    rank_variables,
)
from slacktide.backends.workers.job_folder import Intent


def test_gpus_are_those_the_controller_was_given_else_all(tmp_path: Path) -> None:
    for name in ("nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia0", "null"):
        (tmp_path / name).touch()
    assert machine_devices({}, tmp_path) == ("0", "2", "10")
    assert machine_devices({"CUDA_VISIBLE_DEVICES": "3, GPU-x"}, tmp_path) == ("3", "GPU-x")
    assert machine_devices({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == ()


@pytest.mark.parametrize(
    ("used", "workers", "chosen"),
    [("", 2, "01"), ("0", 2, "12"), ("012", 1, "0"), ("0012", 3, "120"), ("", 5, "01201")],
    ids=range(5),
)
def test_free_gpus_go_first(used: str, workers: int, chosen: str) -> None:
    assert "".join(least_used(("0", "1", "2"), used, workers)) == chosen


def test_a_machine_without_gpus_gives_none() -> None:
    assert least_used((), ["0"], 3) == ()


def launch(**variables: str) -> Launch:
    spec = LaunchSpec(job="job", run="true", grace_s=1.5, env=variables)
    return Launch(spec=spec, workdir=Path("/"), checkpoint_dir=Path("/c"))


def test_the_user_decides_about_threads_and_the_machine_about_gpus() -> None:
    base = {"CUDA_VISIBLE_DEVICES": "0,1", "HOME": "/home"}
    variables = job_variables(base, launch(), Path("/p"))
    assert (variables["OMP_NUM_THREADS"], variables["HOME"]) == ("1", "/home")
    assert variables["SLACKTIDE_GRACE_SECONDS"] == "1.5"
    assert "CUDA_VISIBLE_DEVICES" not in variables
    assert job_variables(base, launch(OMP_NUM_THREADS="4"), Path("/p"))["OMP_NUM_THREADS"] == "4"
    assert job_variables({**base, "OMP_NUM_THREADS": "2"}, launch(), Path("/p"))["OMP_NUM_THREADS"] == "2"
    assert job_variables(base, launch(HOME="/mine"), Path("/p"))["HOME"] == "/mine"
    assert job_variables(base, launch(SLACKTIDE_JOB_ID="x"), Path("/p"))["SLACKTIDE_JOB_ID"] == "job"


def test_each_rank_sees_its_own_gpu_as_the_first() -> None:
    intent = Intent(attempt=1, kinds=("spot", "spot"), devices=("4", "7"), master_port=1, grace_s=1.0)
    ranks = [rank_variables(intent, rank) for rank in (0, 1)]
    assert [(own["CUDA_VISIBLE_DEVICES"], own["LOCAL_RANK"]) for own in ranks] == [("4", "0"), ("7", "0")]


def test_a_job_does_not_see_the_rest_of_the_controllers_variables() -> None:
    usual = {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "VIRTUAL_ENV": "/v", "SSL_CERT_FILE": "/c"}
    secret = {
        "AWS_SECRET_ACCESS_KEY": "x", "NVIDIA_API_KEY": "x", "HF_TOKEN": "x", "SLACKTIDE_HOME": "/s",
        "SSH_AUTH_SOCK": "/a", "PATHS": "x", "path": "x", "DBUS_SESSION_BUS_ADDRESS": "x",
    }  # fmt: skip
    assert handed_down({**usual, **secret}) == usual
    assert not secret.keys() & job_variables({**usual, **secret}, launch(), Path("/p")).keys()
    assert job_variables(secret, launch(HF_TOKEN="mine"), Path("/p"))["HF_TOKEN"] == "mine"


def test_a_proxy_is_handed_down_unless_its_address_may_hold_a_password() -> None:
    plain = {"http_proxy": "http://proxy:3128", "HTTPS_PROXY": "http://proxy:3128", "no_proxy": ".local"}
    assert handed_down({**plain, "all_proxy": "http://me:hush@proxy:3128"}) == plain


def test_the_workers_of_a_machine_may_be_a_part_of_a_set() -> None:
    intent = Intent(
        attempt=2,
        kinds=("spot", "on-demand"),
        devices=("0", "1"),
        master_port=7,
        grace_s=1.0,
        ranks=(3, 1),
        addresses=("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"),
    )
    given = rank_variables(intent, 1)
    assert (given["RANK"], given["WORLD_SIZE"]) == ("1", "4")
    assert (given["MASTER_ADDR"], given["MASTER_PORT"]) == ("10.0.0.1", "7")
    assert (given["CUDA_VISIBLE_DEVICES"], given["SLACKTIDE_CAPACITY_TYPE"]) == ("1", "on-demand")
    assert given["SKYPILOT_NODE_IPS"].split() == list(intent.addresses)
