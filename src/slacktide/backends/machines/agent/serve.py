"""An agent as a plain process: messages come on its standard input, answers go to its standard output."""

from __future__ import annotations

import pickle
import struct
import sys
from pathlib import Path
from typing import IO, Any

from slacktide.backends.machines.agent import notices
from slacktide.backends.machines.agent.agent import Agent

_SIZE = struct.Struct("!Q")


def write_frame(file: IO[bytes], message: Any) -> None:
    """Write one message whole; raises OSError when the reader is gone."""
    data = pickle.dumps(message)
    file.write(_SIZE.pack(len(data)) + data)
    file.flush()


def read_frame(file: IO[bytes]) -> Any:
    """Read one message; raises EOFError when there is none any more.

    Both ends are ours and of one version: a pickle of a stranger's would be a stranger's program.
    """
    head = file.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise EOFError
    (size,) = _SIZE.unpack(head)
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)


def main(root: str, owner: str, lease_s: str, address: str = "127.0.0.1") -> None:
    """Answer until the input ends; workers go on, for as long as the lease."""
    agent = Agent(Path(root), owner, float(lease_s), address=address)
    agent.watch()
    if url := notices.service():
        notices.watch(agent.expect_end, url)
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    while True:
        try:
            write_frame(answers, agent.handle(read_frame(sys.stdin.buffer)))
        except EOFError:
            return


if __name__ == "__main__":
    main(*sys.argv[1:5])
