"""Pages of events, written once: a journal is only added to, so a page that is full never changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

MOST_BYTES = 8 * 1024 * 1024
"""Of all pages that are kept; the one that was not asked for the longest gives way."""


class PageCache:
    """The last pages that were asked for."""

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
