"""An elastic job that starts at once: counts steps, checkpoints, may be killed at any time."""

import json
import os
import signal
import sys
import time

STEPS = int(sys.argv[1])
EVERY = 5
checkpoint = os.path.join(os.environ["SLACKTIDE_CHECKPOINT_DIR"], "step")
rank, state = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
stop: list[int] = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))


def saved() -> int:
    """Return the step of the last checkpoint."""
    try:
        with open(checkpoint, encoding="utf-8") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


def append(path: str, line: str) -> None:
    """Append one line in one write."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(handle, line.encode() + b"\n")
    os.close(handle)


def save(step: int) -> None:
    """Write a checkpoint whole or not at all, then say so."""
    with open(f"{checkpoint}.{os.getpid()}", "w", encoding="utf-8") as file:
        file.write(str(step))
    os.replace(f"{checkpoint}.{os.getpid()}", checkpoint)
    append(checkpoint + ".log", f"saved {step}")
    append(os.environ["SLACKTIDE_PROGRESS"], json.dumps({"done": min(1.0, step / STEPS)}))


step = saved()
if rank == 0:
    append(checkpoint + ".log", f"began {step}")
while step < STEPS and not stop:
    time.sleep(0.01)
    step += state
    if rank == 0 and step % EVERY < state:
        save(step)
if rank == 0:
    save(step)
sys.exit(0 if step >= STEPS else 143)
