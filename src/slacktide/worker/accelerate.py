"""Checkpoints for training loops with Hugging Face Accelerate.

    from slacktide.worker import accelerate as slacktide

    step = slacktide.load_state(accelerator)
    while step < STEPS:
        ...
        stop = slacktide.stopping_anywhere(accelerator.device)
        if step % 100 == 0 or stop or step == STEPS:
            slacktide.save_state(accelerator, step, STEPS)
        if stop:
            break

Every worker has to call these functions. They need `accelerate`, which the training script imports anyway.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from slacktide import worker
from slacktide.worker.pytorch import stopping_anywhere

__all__ = ["load_state", "save_state", "stopping_anywhere"]

KEPT = 2
"""How many checkpoints are kept."""
_PREFIX, _DIGITS = "step-", 9


def save_state(accelerator: Any, step: int, steps: int, **metrics: float) -> None:
    """Save the state of all workers after a step, whole or not at all, and report that it is safe."""
    folder = _folder()
    target = folder / f"{_PREFIX}{step:0{_DIGITS}}"
    draft = folder / f".{target.name}.draft"
    if accelerator.is_main_process and not target.exists():
        for left in folder.glob(f".{_PREFIX}*.draft"):
            shutil.rmtree(left)  # left by workers that were killed
        draft.mkdir(parents=True)
    accelerator.wait_for_everyone()
    if target.exists():
        return
    accelerator.save_state(str(draft))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        worker.settle(draft, target)
        for old in _checkpoints(folder)[:-KEPT]:
            shutil.rmtree(old)
        worker.progress(step / steps, checkpointed=step / steps, **metrics)
    accelerator.wait_for_everyone()


def load_state(accelerator: Any) -> int:
    """Load the newest checkpoint into what the accelerator prepared; return its step, 0 if there is none."""
    worker.stopping.heed()
    found = _checkpoints(_folder())
    if not found:
        return 0
    accelerator.load_state(str(found[-1]))
    return int(found[-1].name.removeprefix(_PREFIX))


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob(_PREFIX + "[0-9]" * _DIGITS))


def _folder() -> Path:
    return worker.checkpoint_dir or Path("checkpoints")
