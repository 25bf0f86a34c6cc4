"""Starts training scripts as forks of one process, so that slow libraries are imported once for all of them.

Orders are lines of JSON on stdin: `{"import": "torch"}`, `{"script": …, "arguments": …, "variables": …,
"folder": …, "log": …}`, answered with the process id, and `{"wait": pid}`, answered with the exit code.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import sys
import traceback
from typing import Any


def run(order: dict[str, Any]) -> int:
    """Be the script from here on; return the exit code."""
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.chdir(order["folder"])
    os.environ.update(order["variables"])
    sys.argv = [order["script"], *order["arguments"]]
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        runpy.run_path(order["script"], run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        if "import" in order:
            module, _, name = order["import"].partition(":")
            getattr(importlib.import_module(module), name or "__name__")
            print("imported", flush=True)
        elif "wait" in order:
            print(os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1]), flush=True)
        else:
            pid = os.fork()
            if pid == 0:
                code = run(order)
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
            print(pid, flush=True)


if __name__ == "__main__":
    main()
