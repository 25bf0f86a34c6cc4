"""A few whole runs: every decision, its reason, and the cents, pinned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slacktide.files.job import read_job_file
from slacktide.market.source import open_market
from slacktide.policies.base import policies
from slacktide.results.run import Run
from slacktide.simulation import batch

ROOT = Path(__file__).parents[2]
CASES = [
    ("llama-lora", "synthetic:h100?seed=3&days=3&slot=30m", 40, "uniform-progress"),
    ("llama-lora", "synthetic:h100-scarce?seed=3&days=3&slot=30m", 11, "maximal-spot"),
    ("discrete-widths", "synthetic:volatile?seed=5&days=3&slot=30m", 7, "uniform-progress"),
    ("one-v100", "synthetic:v100?seed=2&days=6&slot=30m", 20, "uniform-progress"),
    ("soft-deadline", "synthetic:h100-scarce?seed=9&days=3&slot=30m", 3, "uniform-progress"),
]


def told(run: Run) -> str:
    """Tell a run as text: one line a slot."""
    lines = []
    for slot in run.slots:
        lines.append(
            f"{slot.slot:3d} offered {slot.quote.spot_gpus:2d} lost {slot.lost_gpus} "
            f"held {slot.spot_gpus}+{slot.on_demand_gpus} done {slot.after.progress_gpu_hours:.4f} "
            f"paid {slot.after.cost_usd:.4f} {slot.wanted.reason.rule}"
        )
    lines.append(
        f"finish {run.finish_hours:.6f} h, cost {run.cost_usd:.4f} USD, utility {run.utility_usd:.4f} USD"
    )
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("job", "market", "start", "policy"), CASES)
def test_run_is_as_it_was(
    job: str, market: str, start: int, policy: str, golden: Callable[[Path, str], None]
) -> None:
    pool = open_market(market).pools[0]
    the_job = read_job_file(ROOT / "examples" / f"{job}.yaml").job
    run = batch.run_in_detail(the_job, pool, policies.make(policy), start, name=policy)
    golden(Path(__file__).parent / f"{job}-{policy}-{start}.txt", told(run))
