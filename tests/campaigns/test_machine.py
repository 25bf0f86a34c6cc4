"""What the fault campaign plays arrives in a program, and only while it is played."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from campaigns.faults.machine import DISK_BROKEN, DISK_FULL, Machine, compiler

PROGRAM = """
import os, sqlite3, sys, time

folder = sys.argv[1]
for line in sys.stdin:
    said = []
    try:
        with open(f"{folder}/file", "w") as file:
            file.write("text")
        said.append("ok")
    except OSError as error:
        said.append(str(error.errno))
    database = sqlite3.connect(f"{folder}/database")
    try:
        database.execute("CREATE TABLE IF NOT EXISTS numbers (one)")
        database.execute("INSERT INTO numbers VALUES (1)")
        database.commit()
        said.append("ok")
    except sqlite3.Error:
        said.append("failed")
    database.close()
    said.append(str(round(time.time() - time.monotonic())))
    said.append(str(round(time.time() - os.stat(f"{folder}/file").st_mtime)))
    said.append(str("LD_PRELOAD" in os.environ))
    print(*said, flush=True)
"""


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
def test_disks_and_clocks_are_played_and_healed(tmp_path: Path) -> None:
    machine, folder = Machine(tmp_path), tmp_path / "disk"
    folder.mkdir()
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **machine.env}
    ) as program:

        def said() -> list[str]:
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write("go\n")
            program.stdin.flush()
            return program.stdout.readline().split()

        file, database, offset, _, preloaded = said()
        assert (file, database, preloaded) == ("ok", "ok", "False")
        machine.disk(folder, error=DISK_FULL)
        assert said()[:2] == [str(DISK_FULL), "failed"]
        machine.disk(folder, error=DISK_BROKEN)
        assert said()[:2] == [str(DISK_BROKEN), "failed"]
        machine.disk(tmp_path / "elsewhere", error=DISK_FULL)
        assert said()[:2] == ["ok", "ok"]
        machine.set_clock(1200.0)
        file, database, later, age, _ = said()
        assert (file, database) == ("ok", "ok")
        assert abs(int(later) - int(offset) - 1200) <= 1
        assert abs(int(age)) <= 1  # what is written now is as new as before
        machine.set_clock(0.0)
        assert abs(int(said()[2]) - int(offset)) <= 1
        assert program.stdin is not None
        program.stdin.close()
