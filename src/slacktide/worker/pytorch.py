"""What workers that train together with PyTorch have to agree on."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from slacktide import worker


def stopping_anywhere(device: Any = "cpu") -> bool:
    """Whether any worker was told to stop: all get the same answer, so that all stop after the same step.

    Every worker has to ask, equally often. With NCCL name the worker's GPU as `device`.
    """
    told = bool(worker.stopping)
    if not _together():
        return told
    count = torch.tensor([float(told)], device=device)
    dist.all_reduce(count)
    return bool(count.item())


def wait_for_all() -> None:
    """Go on when all workers have come here."""
    if _together():
        dist.barrier()


def _together() -> bool:
    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)
