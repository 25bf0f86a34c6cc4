"""A plain training loop that may be stopped or killed at any time: needs Python and `slacktide.worker` alone.

It finds the minimum of a bowl by gradient descent. Slacktide's part is in three lines, marked at their ends.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from slacktide import worker

parser = argparse.ArgumentParser(description="Descend into a bowl.")
parser.add_argument("--steps", type=int, default=600, help="total steps (%(default)s)")
parser.add_argument("--every", type=int, default=20, help="steps between checkpoints (%(default)s)")
parser.add_argument("--step-seconds", type=float, default=0.05, help="how long a step takes (%(default)s)")
options = parser.parse_args()


def read(path: Path | None) -> tuple[int, list[float]]:
    """Return where to go on: the step and the weights of a checkpoint, or the beginning."""
    if path is None:
        return 0, [3.0, -2.0]
    state = json.loads(path.read_text())
    return state["step"], state["weights"]


step, weights = read(worker.saved("state.json"))  # 1: go on from the last checkpoint
while step < options.steps and not worker.stopping:  # 2: end on request
    time.sleep(options.step_seconds / worker.world_size)
    weights = [weight - 0.05 * 2 * scale * weight for weight, scale in zip(weights, (1.0, 0.3), strict=True)]
    step += 1
    loss = weights[0] ** 2 + 0.3 * weights[1] ** 2
    if worker.rank == 0 and (step % options.every == 0 or step == options.steps or worker.stopping):
        content = json.dumps({"step": step, "weights": weights}).encode()
        worker.save("state.json", content, done=step / options.steps, loss=loss)  # 3: save, and say so
print(f"rank {worker.rank}: step {step} of {options.steps}")
