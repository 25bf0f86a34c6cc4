"""Caches full pages of events: a journal only grows at its end, so a full page never changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

MOST_BYTES = 8 * 1024 * 1024
"""Of all cached pages; the least recently used one is dropped first."""


class PageCache:
    """The pages that were requested last."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._pages: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, name: Hashable) -> bytes | None:
        """Return a page that was kept; None where there is none."""
        with self._lock:
            if name in self._pages:
                self._pages.move_to_end(name)
            return self._pages.get(name)

    def kept(self, name: Hashable, page: bytes) -> bytes:
        """Keep a page, and return it."""
        with self._lock:
            self._bytes += len(page) - len(self._pages.pop(name, b""))
            self._pages[name] = page
            while self._bytes > self._most_bytes:
                self._bytes -= len(self._pages.popitem(last=False)[1])
        return page
