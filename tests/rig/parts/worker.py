"""A job over several machines: its ranks pass a token round, so none goes on without the others.

Rank 0 counts what was done and checkpoints it. Every worker leaves behind, while it runs, what a supervisor
must not lose: a process in a session of its own that ignores SIGTERM, and one that nobody waits for. It ends
when a file says so; another one makes it print without end.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

STEP_S = 0.1
MOST = 20_000
"""Steps that are all of the work: so few that a slow machine is in time, though the file comes before."""
rank, world, attempt = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "SLACKTIDE_ATTEMPT"))
shared = Path(sys.argv[1])
state = Path(os.environ["SLACKTIDE_CHECKPOINT_DIR"]) / "steps"


def meet() -> list[socket.socket]:
    """Connect all ranks with rank 0."""
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank:
        while True:
            try:
                return [socket.create_connection(address, timeout=60)]
            except OSError:
                time.sleep(0.1)
    with socket.create_server(address) as server:
        server.settimeout(60)
        return [server.accept()[0] for _ in range(world - 1)]


def leave_things_about() -> None:
    """Start what is easily forgotten."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if os.fork() == 0:
        os._exit(0)  # a zombie from here on


def save(steps: int, ended: bool) -> None:
    """Write a checkpoint whole or not at all, then tell."""
    draft = state.with_suffix(".new")
    draft.write_text(f"{steps} {attempt}", encoding="ascii")
    os.replace(draft, state)
    share = 1.0 if ended else steps / MOST
    with open(os.environ["SLACKTIDE_PROGRESS"], "a", encoding="ascii") as file:
        file.write(json.dumps({"done": share, "checkpointed": share}) + "\n")


def note(what: str) -> None:
    """Put down what Slacktide never sees."""
    with open(shared / "diary", "a", encoding="ascii") as file:
        file.write(f"{what} {attempt} {steps}\n")


leave_things_about()
peers = meet()
steps = int(state.read_text(encoding="ascii").split()[0]) if state.exists() else 0
ended = False
if rank == 0:
    note("began")
while not ended:
    time.sleep(STEP_S)
    if (shared / "flood").exists():
        print("y\n" * 500_000, flush=True)
    if rank == 0:
        ended = (shared / "finish").exists()
        steps += 1
        for peer in peers:
            peer.sendall(b"e" if ended else b"g")
        if any(not peer.recv(1) for peer in peers):
            sys.exit(1)
        if ended or steps % 5 == 0:
            save(steps, ended)
            note("saved")
    else:
        word = peers[0].recv(1)
        if not word:
            sys.exit(1)
        ended = word == b"e"
        peers[0].sendall(b"k")
