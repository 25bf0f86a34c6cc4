"""A training loop with Hugging Face Accelerate; may be stopped or killed, and goes on.

The model is tiny and made up, so nothing is downloaded: put your own model and data in their places.
"""

from __future__ import annotations

import argparse
import time

import torch
from accelerate import Accelerator
from torch import nn

from slacktide import worker
from slacktide.worker.accelerate import load_state, save_state, stopping_anywhere

parser = argparse.ArgumentParser(description="Train a tiny model.")
parser.add_argument("--steps", type=int, default=200, help="total steps (%(default)s)")
parser.add_argument("--every", type=int, default=20, help="steps between checkpoints (%(default)s)")
parser.add_argument("--step-seconds", type=float, default=0.05, help="how long a step takes (%(default)s)")
options = parser.parse_args()

torch.manual_seed(7)
accelerator = Accelerator(cpu=not torch.cuda.is_available())
model = nn.Linear(8, 1)
model, adam = accelerator.prepare(model, torch.optim.Adam(model.parameters(), lr=0.02))

step, stop = load_state(accelerator), False
while step < options.steps and not stop:
    time.sleep(options.step_seconds)  # a GPU would be busy for so long
    random = torch.Generator().manual_seed(step)  # a step's data depend on the step alone, at any width
    batch = torch.randn(16, 8, generator=random).tensor_split(worker.world_size)[worker.rank]
    x = batch.to(accelerator.device)
    loss = nn.functional.mse_loss(model(x).squeeze(-1), x.sum(dim=1))
    adam.zero_grad()
    accelerator.backward(loss)
    adam.step()
    step += 1
    stop = stopping_anywhere(accelerator.device)
    if step % options.every == 0 or step == options.steps or stop:
        save_state(accelerator, step, options.steps, loss=loss.item())
print(f"rank {worker.rank}: step {step} of {options.steps}", flush=True)
