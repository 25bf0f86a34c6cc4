"""Keeps values under `secrets` out of error messages about a job file, however broken the file is.

The readers of names and values do not quote them. But a file may be so broken that a secret ends up somewhere
else: below another key, in a key, in a message of the YAML parser. So errors also pass through here, and
every word that looks as if it were written under `secrets` is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from slacktide.core.errors import FileError

HIDDEN = "***"
SHORTEST = 4  # shorter words stay: replacing them would make messages unreadable and protect nothing
LONGEST_QUOTE = 40
"""Messages quote no more than this many characters, so only beginnings of this length can appear."""

_SECRETS = re.compile(r"secrets?\b")
_ENDS = re.compile(r"[\s\[\]{},:=\"'|>]+")
_NAME = re.compile(r"(?:^|[{,])[\s\"'-]*([A-Za-z_][A-Za-z0-9_]*)[\"']?\s*[:=]", re.MULTILINE)


@contextmanager
def kept_secret(text: str, keys: tuple[str, ...]) -> Iterator[None]:
    """Raise FileErrors about a file with these keys again, without the values under its `secrets`.

    Their causes are dropped, too: YAML's own errors quote the line.
    """
    try:
        yield
    except FileError as error:
        if _SECRETS.search(text):
            error.args = (redacted(str(error), secret_words(text, keys)),)
        raise error from None


def redacted(message: str, words: set[str]) -> str:
    """Return a message without these words, and without beginnings of them that a message may quote."""
    # The longest first: a word that contains another one must go as a whole.
    for word in sorted(words, key=len, reverse=True):
        for length in range(min(len(word), LONGEST_QUOTE), SHORTEST - 1, -1):
            message = message.replace(word[:length], HIDDEN)
    return message


def secret_words(text: str, keys: tuple[str, ...]) -> set[str]:
    """Return the words that look as if they were values under `secrets`; names of secrets are left out."""
    found: set[str] = set()
    for part in _parts(text, keys):
        names = set(_NAME.findall(part))
        found |= {word for word in _ENDS.split(part) if len(word) >= SHORTEST} - names
    return found - set(keys)


def _parts(text: str, keys: tuple[str, ...]) -> Iterator[str]:
    """Yield the text after each word `secrets`, up to the next line that begins with a key of the file."""
    next_key = re.compile(rf"^\s*[\"']?(?:{'|'.join(map(re.escape, keys))})[\"']?\s*:", re.MULTILINE)
    for begin in _SECRETS.finditer(text):
        end = next_key.search(text, text.find("\n", begin.end()) + 1 or len(text))
        yield text[begin.end() : end.start() if end else len(text)].lstrip(":= \t")
