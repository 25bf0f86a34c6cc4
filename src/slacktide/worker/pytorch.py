"""Functions by which workers that train together with PyTorch agree to stop, and wait for each other."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from slacktide import worker


def stopping_anywhere(device: Any = "cpu") -> bool:
    """Whether any worker was requested to stop; all get the same answer, so all stop after the same step.

    Every worker has to call it, equally often. With NCCL, pass the worker's GPU as `device`.
    """
    stopping = bool(worker.stopping)
    if not _together():
        return stopping
    count = torch.tensor([float(stopping)], device=device)
    dist.all_reduce(count)
    return bool(count.item())


def wait_for_all() -> None:
    """Wait until all workers have called this."""
    if _together():
        dist.barrier()


def _together() -> bool:
    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)
