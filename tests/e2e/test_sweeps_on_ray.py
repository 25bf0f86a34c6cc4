"""Sweeps on a real Ray cluster of this machine: the same results, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from slacktide.policies.selection.hedge import Hedge
from slacktide.policies.selection.state_file import save
from tests.parts_of_ray import RayCluster, needs_ray, ray_cluster

ROOT = Path(__file__).parents[2]
JOB = ROOT / "examples" / "llama-lora.yaml"
MARKET = "synthetic:h100?days=5&slot=30m&seed=5"
OWN = """
from slacktide.policies.view import View
from slacktide.core.types import Allocation


class Widest:
    def decide(self, view: View) -> Allocation:
        return Allocation(0, view.job.max_gpus)
"""


def said(folder: Path, *words: str, **environment: str) -> str:
    """Return what a command prints."""
    command = [sys.executable, "-m", "slacktide", *words]
    there = {**os.environ, "SLACKTIDE_HOME": str(folder), **environment}
    done = subprocess.run(command, cwd=folder, env=there, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_ray
def test_sweeps_are_the_same_on_ray(tmp_path: Path) -> None:
    """One test for all: a cluster takes seconds to start, and each test process would start its own."""
    with ray_cluster(cpus=2) as cluster:
        for check in (a_backtest_is_the_same, what_is_learned_is_the_same, experiments_are_the_same):
            folder = tmp_path / check.__name__
            folder.mkdir()
            check(cluster, folder)


def a_backtest_is_the_same(cluster: RayCluster, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    policies = "uniform-progress,maximal-spot,mine.py:Widest"
    words = ["backtest", str(JOB), "--market", MARKET, "--policy", policies, "--starts", "20", "-o", "json"]
    assert said(tmp_path, *words, "--on", f"ray:{cluster.address}") == said(tmp_path, *words)


def what_is_learned_is_the_same(cluster: RayCluster, tmp_path: Path) -> None:
    found = []
    for place in ([], ["--on", "ray"], ["--on", "processes:2"]):
        save(Hedge(("uniform-progress", "maximal-spot", "on-demand")), tmp_path / "learn.json")
        words = ["learn", str(JOB), "--market", MARKET, "--jobs", "6", "-o", "json", *place]
        found.append(said(tmp_path, *words, RAY_ADDRESS=cluster.address))
    assert found[0] == found[1] == found[2]


def experiments_are_the_same(cluster: RayCluster, tmp_path: Path) -> None:
    code = f"""
from tests.e2e.parts_of_sweeps import experiments, killed_once
from slacktide.app.planning.spreading import open_spread
from slacktide.simulation.parallel.base import HERE

with open_spread("ray:{cluster.address}") as spread:
    assert spread.workers == 2
    assert list(spread.each(killed_once, {str(tmp_path)!r}, range(6))) == [n * n for n in range(6)]
    assert experiments(spread) == experiments(HERE)
print("the same")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("the same\n"), done.stderr
    assert len(list(tmp_path.iterdir())) == 6


@needs_ray
def test_a_cluster_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slacktide", "backtest", str(JOB), "--on", "ray:127.0.0.1:9"]
    there = {**os.environ, "SLACKTIDE_HOME": str(tmp_path)}
    done = subprocess.run(command, env=there, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "a Ray cluster must answer at '127.0.0.1:9'" in done.stderr
