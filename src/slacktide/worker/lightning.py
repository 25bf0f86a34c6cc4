"""A callback for Lightning's `Trainer`: progress, checkpoints, and stopping on request.

    from slacktide.worker.lightning import SlacktideCallback, last_checkpoint

    trainer = Trainer(..., callbacks=[SlacktideCallback(every_steps=100)], enable_checkpointing=False)
    trainer.fit(model, data, ckpt_path=last_checkpoint())

Needs `lightning` or `pytorch_lightning`, which the training script imports anyway.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from slacktide import worker
from slacktide.worker.pytorch import stopping_anywhere

KEPT = 2
"""How many checkpoints are kept."""


class SlacktideCallback(Callback):  # type: ignore[misc]
    """Reports progress, saves whole checkpoints, and saves and stops on request."""

    def __init__(self, every_steps: int = 100, folder: str | os.PathLike[str] | None = None) -> None:
        """Save every `every_steps` steps of the optimizer, into the job's folder or the one given."""
        if every_steps < 1:
            raise ValueError(f"every_steps must be >= 1, got {every_steps}")
        self._every_steps, self._folder = every_steps, _place(folder)
        self._saved_step = 0
        self._stopping = False
        worker.stopping.heed()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Report where the training continues: all that was loaded is safe."""
        # Lightning's own handler would raise an exception, and wait for the other workers inside of it.
        worker.stopping.heed_alone()
        self._saved_step = trainer.global_step
        share = _share(trainer)
        if share is not None:
            worker.progress(share, checkpointed=share)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save when it is time; if any worker was requested to stop, every worker saves and ends."""
        self._stopping = stopping_anywhere(trainer.strategy.root_device)
        step, share = trainer.global_step, _share(trainer)
        if self._stopping or step - self._saved_step >= self._every_steps:
            self._save(trainer)
        elif share is not None and share < 1.0:  # the last step counts once it is saved
            worker.progress(share, **_metrics(trainer))
        if self._stopping:
            _stop(trainer)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Save the last step and report that all is done, also if training ended early by its own rule."""
        if not self._stopping:
            self._save(trainer)
            worker.progress(1.0, **_metrics(trainer))

    def _save(self, trainer: Any) -> None:
        """Save this step unless it is saved; every worker has to call it."""
        step = trainer.global_step
        if step <= self._saved_step:
            return
        target = self._folder / f"step-{step:09}.ckpt"
        draft = self._folder / f".{target.name}.draft"
        trainer.save_checkpoint(draft)
        self._saved_step = step
        if trainer.is_global_zero:
            worker.settle(draft, target)
            for old in _checkpoints(self._folder)[:-KEPT]:
                worker.remove(old)
            share = _share(trainer)
            if share is not None:
                worker.progress(share, checkpointed=share, **_metrics(trainer))


def last_checkpoint(folder: str | os.PathLike[str] | None = None) -> str | None:
    """Return the newest checkpoint, by default in the job's folder; None if there is none."""
    found = _checkpoints(_place(folder))
    return str(found[-1]) if found else None


def _place(folder: str | os.PathLike[str] | None) -> Path:
    return Path(folder) if folder is not None else worker.checkpoint_dir or Path("checkpoints")


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.ckpt"))


def _share(trainer: Any) -> float | None:
    """Return the share of all steps that is done; None if their number is not known."""
    steps = float(trainer.estimated_stepping_batches)
    return min(1.0, trainer.global_step / steps) if 0 < steps < math.inf else None


def _metrics(trainer: Any) -> dict[str, float]:
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


def _stop(trainer: Any) -> None:
    """End the training now: the grace period is for saving, not for validation or a minimum of epochs."""
    trainer.limit_val_batches = 0
    trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None
    trainer.should_stop = True
