"""A callback for the `Trainer` of Hugging Face `transformers`.

    from slacktide import worker
    from slacktide.worker.huggingface import SlacktideCallback, last_checkpoint

    args = TrainingArguments(output_dir=str(worker.checkpoint_dir or "out"), save_steps=100, ...)
    trainer = Trainer(model, args, ..., callbacks=[SlacktideCallback()])
    trainer.train(resume_from_checkpoint=last_checkpoint(args.output_dir))

Needs `transformers`, which the training script brings.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from slacktide import worker
from slacktide.worker.pytorch import stopping_anywhere, wait_for_all

SEAL = "slacktide.json"
"""The file that stands in a checkpoint that is whole: the Trainer writes into the folder that it will be."""
_PREFIX = "checkpoint-"


class SlacktideCallback(TrainerCallback):  # type: ignore[misc]
    """Reports progress, saves and stops on request, and marks checkpoints that are whole."""

    def __init__(self) -> None:
        """Take note of a stop from now on."""
        worker.stopping.heed()
        self._stopping = False
        self._logged: dict[str, float] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Say where the training goes on: what was loaded is safe."""
        share = _share(state)
        worker.progress(share, checkpointed=share)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report how far it is; after a request to stop at any worker, save this step and end."""
        self._stopping = stopping_anywhere(args.device)
        if self._stopping:
            control.should_save = control.should_training_stop = True
            control.should_evaluate = False  # the grace period is for saving
        elif _share(state) < 1.0:  # the last step counts once it is saved
            worker.progress(_share(state), **self._logged)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Keep what the Trainer logs, to be shown with the next report."""
        numbers = {name: value for name, value in (logs or {}).items() if isinstance(value, int | float)}
        self._logged.update(numbers)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Mark the checkpoint once all workers have written their part, then say that it is safe."""
        wait_for_all()
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"{_PREFIX}{state.global_step}"
            worker.keep(folder)
            content = json.dumps({"step": state.global_step, "steps": state.max_steps}).encode()
            worker.save(folder.absolute() / SEAL, content, done=_share(state), **self._logged)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Say that all is done, also where the training ended early by its own rule."""
        if not self._stopping:
            worker.progress(1.0)


def last_checkpoint(folder: str | os.PathLike[str] | None = None) -> str | None:
    """Return the newest whole checkpoint, by default of the job's folder; None where there is none."""
    place = worker.checkpoint_dir if folder is None else Path(folder)
    if place is None:
        return None
    sealed = [path.parent for path in place.glob(f"{_PREFIX}*/{SEAL}")]
    steps = {int(path.name.removeprefix(_PREFIX)): path for path in sealed if path.name[-1].isdecimal()}
    return str(steps[max(steps)]) if steps else None


def _share(state: Any) -> float:
    return min(1.0, state.global_step / state.max_steps) if state.max_steps > 0 else 0.0
