"""Fine-tune with the `Trainer` of Hugging Face transformers; may be stopped or killed, and goes on.

The model is tiny and made up, so nothing is downloaded: put your own model and data in their places.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

from slacktide import worker
from slacktide.worker.huggingface import SlacktideCallback, last_checkpoint


class Sums(Dataset):
    """Points and the sums of their coordinates."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        x = torch.randn(8, generator=torch.Generator().manual_seed(index))
        return {"x": x, "labels": x.sum()}


class Model(nn.Module):
    """A linear layer that returns its loss, as the Trainer expects."""

    def __init__(self, step_seconds: float) -> None:
        super().__init__()
        self.layer, self.step_seconds = nn.Linear(8, 1), step_seconds

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        time.sleep(self.step_seconds)  # a GPU would be busy for so long
        return {"loss": nn.functional.mse_loss(self.layer(x).squeeze(-1), labels)}


parser = argparse.ArgumentParser(description="Fine-tune a tiny model.")
parser.add_argument("--steps", type=int, default=200, help="total steps (%(default)s)")
parser.add_argument("--every", type=int, default=20, help="steps between checkpoints (%(default)s)")
parser.add_argument("--step-seconds", type=float, default=0.05, help="how long a step takes (%(default)s)")
options = parser.parse_args()

torch.manual_seed(7)
arguments = TrainingArguments(
    output_dir=str(worker.checkpoint_dir or "checkpoints"),  # the same folder for all attempts
    max_steps=options.steps,
    per_device_train_batch_size=max(1, 16 // worker.world_size),  # the same batch at any width
    learning_rate=0.05,
    save_strategy="steps",
    save_steps=options.every,
    save_total_limit=2,
    logging_steps=options.every,
    report_to=[],
    disable_tqdm=True,
    use_cpu=not torch.cuda.is_available(),
)
model = Model(options.step_seconds)
trainer = Trainer(model, arguments, train_dataset=Sums(), callbacks=[SlacktideCallback()])
trainer.train(resume_from_checkpoint=last_checkpoint(arguments.output_dir))
print(f"rank {worker.rank}: step {trainer.state.global_step} of {options.steps}", flush=True)
