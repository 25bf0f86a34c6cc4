"""A worker that is ready at once and hangs, or ends, at whatever it is asked to try."""

from __future__ import annotations

import sys

print('[0, "", "", ""]', flush=True)
for line in sys.stdin:
    if line == "1\n":
        sys.exit(7)
    while True:
        pass
