"""A callback for the `Trainer` of Hugging Face `transformers`: progress, checkpoints, stopping on request.

    from slacktide import worker
    from slacktide.worker.huggingface import SlacktideCallback, last_checkpoint

    args = TrainingArguments(output_dir=str(worker.checkpoint_dir or "out"), save_steps=100, ...)
    trainer = Trainer(model, args, ..., callbacks=[SlacktideCallback()])
    trainer.train(resume_from_checkpoint=last_checkpoint(args.output_dir))

Needs `transformers`, which the training script imports anyway.
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
"""The file that marks a checkpoint as whole, since the Trainer writes directly into its final folder."""
_PREFIX = "checkpoint-"


class SlacktideCallback(TrainerCallback):  # type: ignore[misc]
    """Reports progress, saves and stops on request, and marks whole checkpoints."""

    def __init__(self) -> None:
        """From now on SIGTERM only requests a stop, instead of ending the process."""
        worker.stopping.heed()
        self._stopping = False
        self._logged: dict[str, float] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report where the training continues: all that was loaded is safe."""
        share = _share(state)
        worker.progress(share, checkpointed=share)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report progress; if any worker was requested to stop, save this step and end."""
        self._stopping = stopping_anywhere(args.device)
        if self._stopping:
            control.should_save = control.should_training_stop = True
            control.should_evaluate = False  # the grace period is for saving
        elif _share(state) < 1.0:  # the last step counts once it is saved
            worker.progress(_share(state), **self._logged)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Keep the numbers that the Trainer logs, to send them with the next report."""
        numbers = {name: value for name, value in (logs or {}).items() if isinstance(value, int | float)}
        self._logged.update(numbers)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Mark the checkpoint once all workers have written their part, then report that it is safe."""
        wait_for_all()
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"{_PREFIX}{state.global_step}"
            worker.keep(folder)
            content = json.dumps({"step": state.global_step, "steps": state.max_steps}).encode()
            worker.save(folder.absolute() / SEAL, content, done=_share(state), **self._logged)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report that all is done, also if the training ended early by its own rule."""
        if not self._stopping:
            worker.progress(1.0)


def last_checkpoint(folder: str | os.PathLike[str] | None = None) -> str | None:
    """Return the newest whole checkpoint, by default in the job's folder; None if there is none."""
    place = worker.checkpoint_dir if folder is None else Path(folder)
    if place is None:
        return None
    sealed = [path.parent for path in place.glob(f"{_PREFIX}*/{SEAL}")]
    steps = {int(path.name.removeprefix(_PREFIX)): path for path in sealed if path.name[-1].isdecimal()}
    return str(steps[max(steps)]) if steps else None


def _share(state: Any) -> float:
    return min(1.0, state.global_step / state.max_steps) if state.max_steps > 0 else 0.0
