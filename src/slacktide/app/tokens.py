"""Tokens that let people and programs use a server: `name:secret`, where only a digest of it is stored.

A secret is 32 random bytes, so nobody can find it from its plain SHA-256 by guessing. Slow and salted digests
are necessary only for passwords, which people choose themselves.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from slacktide.core.errors import FileError, InputError, UnknownNameError, shown
from slacktide.core.files import keep_from_others, write_private
from slacktide.journal.codec.json_forms import FormMismatch, form
from slacktide.journal.store.paths import hidden_sibling

Role: TypeAlias = Literal["read", "submit"]
"""`read` sees jobs, logs and bills; `submit` also runs, cancels and preempts, so it can run any command."""
ROLES: tuple[Role, ...] = get_args(Role)
SECRET_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Who may use a server, for what, and until when."""

    name: str
    role: Role
    sha256: str
    made_utc: str
    expires_utc: str | None = None

    def is_over(self) -> bool:
        until = self.expires_utc
        return until is not None and datetime.fromisoformat(until) <= datetime.now(UTC)


class Tokens:
    """The tokens of a journal's server: a private file next to it, read again when it changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, ...] = ()
        self._known: dict[str, Token] = {}

    def all(self) -> list[Token]:
        """Return every token, in the order they were made; raises FileError for a damaged file."""
        self._read()
        return list(self._known.values())

    def add(self, name: str, role: str, lasting: timedelta | None = None) -> str:
        """Make a token and return it as `name:secret`, which is shown only this once."""
        if not _NAME.fullmatch(name):
            raise InputError(
                f"the name of a token must be up to 40 letters, digits, dots and dashes, got {shown(name)}"
            )
        if role not in ROLES:
            raise UnknownNameError("a role", role, ROLES)
        self._read()
        if name in self._known:
            raise InputError(f"a token must have a name of its own, got {shown(name)} again; revoke it first")
        secret, now = secrets.token_urlsafe(SECRET_BYTES), datetime.now(UTC)
        made = Token(
            name=name,
            role="submit" if role == "submit" else "read",
            sha256=digest(secret),
            made_utc=now.isoformat(),
            expires_utc=None if lasting is None else (now + lasting).isoformat(),
        )
        self._write([*self._known.values(), made])
        return f"{name}:{secret}"

    def revoke(self, name: str) -> None:
        """Delete a token, which also ends every session that it opened."""
        self._read()
        if name not in self._known:
            raise UnknownNameError("a token", name, self._known)
        self._write([token for token in self._known.values() if token.name != name])

    def check(self, given: str) -> Token | None:
        """Return the token that `name:secret` stands for; None if it is wrong, revoked or expired."""
        name, _, secret = given.partition(":")
        token = self.named(name)
        known = digest("") if token is None else token.sha256
        # Compared even if there is no such token, so that the time taken does not reveal names.
        same = hmac.compare_digest(digest(secret), known)
        return token if same and secret else None

    def named(self, name: str) -> Token | None:
        """Return the token with this name; None if it was revoked or has expired."""
        self._read()
        token = self._known.get(name)
        return None if token is None or token.is_over() else token

    def _read(self) -> None:
        stamp = _stamp(self.path)
        if stamp == self._stamp:
            return
        keep_from_others(self.path)
        try:
            rows = json.loads(self.path.read_bytes()) if stamp else []
            tokens: tuple[Token, ...] = form(tuple[Token, ...]).read(rows)
        except (OSError, ValueError, FormMismatch, RecursionError):
            raise FileError(
                "must be an intact file of tokens, got something else; restore it, or remove it "
                "and add tokens again",
                path=self.path,
            ) from None
        self._known = {token.name: token for token in tokens}
        self._stamp = _stamp(self.path)

    def _write(self, tokens: list[Token]) -> None:
        kind = form(tuple[Token, ...])
        write_private(self.path, kind.text(kind.plain(tuple(tokens))).encode())
        self._stamp = ()


def tokens_of(journal: Path) -> Tokens:
    return Tokens(hidden_sibling(journal, "tokens"))


def digest(secret: str) -> str:
    """Return the digest that is stored instead of a secret, so that a leaked file does not reveal it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns
