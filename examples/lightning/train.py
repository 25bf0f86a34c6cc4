"""Train with Lightning; may be stopped or killed, and goes on.

The model is tiny and made up, so nothing is downloaded: put your own model and data in their places.
"""

from __future__ import annotations

import argparse
import os
import time

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from slacktide import worker
from slacktide.worker.lightning import SlacktideCallback, last_checkpoint


class Model(LightningModule):
    """A linear layer."""

    def __init__(self, step_seconds: float) -> None:
        super().__init__()
        self.layer, self.step_seconds = nn.Linear(8, 1), step_seconds

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        time.sleep(self.step_seconds)  # a GPU would be busy for so long
        (x,) = batch
        loss = nn.functional.mse_loss(self.layer(x).squeeze(-1), x.sum(dim=1))
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.02)


parser = argparse.ArgumentParser(description="Train a tiny model.")
parser.add_argument("--steps", type=int, default=200, help="total steps (%(default)s)")
parser.add_argument("--every", type=int, default=20, help="steps between checkpoints (%(default)s)")
parser.add_argument("--step-seconds", type=float, default=0.05, help="how long a step takes (%(default)s)")
options = parser.parse_args()

torch.manual_seed(7)
os.environ.setdefault("NODE_RANK", str(worker.rank))  # to Lightning each worker is a machine with one GPU
data = DataLoader(TensorDataset(torch.randn(4096, 8)), batch_size=max(1, 16 // worker.world_size))
trainer = Trainer(
    max_steps=options.steps,
    accelerator="auto",
    devices=1,
    num_nodes=worker.world_size,
    callbacks=[SlacktideCallback(every_steps=options.every)],
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    logger=False,
)
trainer.fit(Model(options.step_seconds), data, ckpt_path=last_checkpoint())
print(f"rank {worker.rank}: step {trainer.global_step} of {options.steps}", flush=True)
